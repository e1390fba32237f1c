"""Queries of trained classes and of unseen classes, searched in one index that contains both.

Each query set is calibrated on itself (:mod:`recheck.evaluation.calibration`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np

from recheck.errors import UserError
from recheck.evaluation.calibration import Calibration, Neighbours, calibrate, neighbours, recall_at
from recheck.evaluation.views import normalise
from recheck.names import CALIBRATED, QUERY_VIEWS, RECALL, check_query_metrics

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
    index, places = normalise(embeddings[INDEX]), labels[split[INDEX]]
    depth = min(max([1, *_depths(metrics)]), len(index))
    sets = {}
    for name in QUERY_VIEWS:
        wanted = labels[split[name]]
        closest = neighbours(normalise(embeddings[name]), index, places, depth, device)
        sets[name] = QuerySet(wanted, closest, calibrate(wanted, closest, maths))
    return sets


def chance(
    split: Mapping[str, Sequence[int]], labels: np.ndarray, metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Expected R@k of a random order, for each query set.

    For a query with r images of its class among the N of the index it is 1 − C(N − r, k) / C(N, k); R@k is the mean
    over queries.
    """
    places = labels[np.asarray(split[INDEX], np.int64)]
    classes, counts = np.unique(places, return_counts=True)
    relevant, size = dict(zip(classes.tolist(), counts.tolist(), strict=True)), len(places)
    values = {}
    for name in QUERY_VIEWS:
        queries = labels[np.asarray(split[name], np.int64)].tolist()
        values[name] = {
            f"R@{k}": float(np.mean([1 - comb(size - relevant.get(label, 0), k) / comb(size, k) for label in queries]))
            for k in _depths(metrics)
            if k <= size
        }
    return values


def doubts(sets: Mapping[str, QuerySet], split: Mapping[str, Sequence[int]], labels: np.ndarray) -> list[str]:
    """A warning for every query set whose R@1 is no better than chance."""
    sentences = []
    for name, values in chance(split, labels, ["R@1"]).items():
        recall, by_chance = sets[name].metrics(["R@1"])["R@1"], values["R@1"]
        if at_chance(recall, by_chance, len(sets[name].labels)):
            sentences.append(
                f"R@1 of {name.replace('_', ' ')} is {100 * recall:.2f} %, which is no better than chance "
                f"({100 * by_chance:.2f} %). Check that the trained network was evaluated."
            )
    return sentences


def at_chance(recall: float, by_chance: float, queries: int) -> bool:
    """Whether R@1 exceeds that of a random order by less than three standard errors."""
    return recall - by_chance < 3 * sqrt(by_chance * (1 - by_chance) / queries)


def _depths(names: Sequence[str]) -> list[int]:
    return [int(match[1]) for match in map(RECALL.fullmatch, names) if match]
