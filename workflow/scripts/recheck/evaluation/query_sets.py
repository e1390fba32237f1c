"""Queries of trained classes and of unseen classes, searched in one index that contains both.

Each query set is calibrated on itself (:mod:`recheck.evaluation.calibration`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recheck.errors import UserError
from recheck.evaluation.calibration import Calibration, Neighbours, calibrate, neighbours, recall_at
from recheck.evaluation.sanity import at_chance, collapsed, hit_chances, relevant_images
from recheck.evaluation.views import normalise
from recheck.names import CALIBRATED, QUERY_VIEWS, RECALL, check_query_metrics
from recheck.sanity import Finding

INDEX = "index"


@dataclass(frozen=True)
class QuerySet:
    """Labels of the queries, their nearest neighbours, and the calibrated threshold."""

    labels: np.ndarray
    closest: Neighbours
    calibration: Calibration

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """Metrics by name, as fractions, in the given order."""
        check_query_metrics(names)
        recalls = recall_at(self.labels, self.closest, _depths(names)) if _depths(names) else {}
        chosen = self.calibration.optimal
        return {name: recalls[name] if name in recalls else getattr(chosen, CALIBRATED[name]) for name in names}

    @property
    def threshold(self) -> float:
        return self.calibration.optimal.distance

    @property
    def distances(self) -> np.ndarray:
        """Distance of each query's nearest neighbour."""
        return np.asarray(self.closest.distances, np.float64)[:, 0]

    def as_json(self) -> dict[str, Any]:
        """Threshold and metrics for calibration.json."""
        chosen = self.calibration.optimal
        return {
            **{name: getattr(chosen, name) for name in ("value", *CALIBRATED.values())},
            "queries": len(self.labels),
        }


def query_sets(
    embeddings: Mapping[str, np.ndarray],
    split: Mapping[str, np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    maths: str = "fixed",
    device: str = "cpu",
) -> dict[str, QuerySet]:
    """Both query sets, from raw outputs by role, the images of each role, and the labels of all images."""
    if missing := [role for role in (INDEX, *QUERY_VIEWS) if role not in embeddings or role not in split]:
        raise UserError(f"Found no embeddings of '{missing[0]}': use the split scheme 'seen_unseen'.")
    index, index_labels = normalise(embeddings[INDEX]), labels[split[INDEX]]
    depth = min(max([1, *_depths(metrics)]), len(index))
    sets = {}
    for name in QUERY_VIEWS:
        wanted = labels[split[name]]
        closest = neighbours(normalise(embeddings[name]), index, index_labels, depth, device)
        sets[name] = QuerySet(wanted, closest, calibrate(wanted, closest, maths))
    return sets


def chance(
    split: Mapping[str, Sequence[int]], labels: np.ndarray, metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Expected R@k of a random order, for each query set: the mean of the queries' chances."""
    values = {}
    for name in QUERY_VIEWS:
        relevant, size = _relevant(split, labels, name)
        values[name] = {f"R@{k}": float(np.mean(hit_chances(relevant, size, k))) for k in _depths(metrics) if k <= size}
    return values


def findings(
    sets: Mapping[str, QuerySet],
    embeddings: Mapping[str, np.ndarray],
    split: Mapping[str, Sequence[int]],
    labels: np.ndarray,
) -> dict[str, list[Finding]]:
    """Findings of each query set: collapsed embeddings, and an R@1 that is no better than chance."""
    return {
        name: [
            *collapsed(name, [normalise(embeddings[name])]),
            *at_chance(name, queries.metrics(["R@1"]), *_relevant(split, labels, name)),
        ]
        for name, queries in sets.items()
    }


def _relevant(split: Mapping[str, Sequence[int]], labels: np.ndarray, name: str) -> tuple[np.ndarray, int]:
    """Number of images of each query's class in the index, and the size of the index."""
    queries, index = (labels[np.asarray(split[role], np.int64)] for role in (name, INDEX))
    return relevant_images(np.concatenate((queries, index)), gallery=len(index))


def _depths(names: Sequence[str]) -> list[int]:
    return [int(match[1]) for match in map(RECALL.fullmatch, names) if match]
