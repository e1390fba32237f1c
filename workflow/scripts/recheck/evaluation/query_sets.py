"""Queries of classes that were trained on and of classes that were not, against one index of both.

Each set of queries is calibrated on itself (:mod:`recheck.evaluation.calibration`): its threshold, and what accepting
up to it gives.
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
    """Queries with their labels, what was found for them, and the threshold that was chosen from it."""

    labels: np.ndarray
    found: Neighbours
    calibration: Calibration

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """The named metrics, as fractions, in the given order."""
        check_query_metrics(names)
        recalls = recall_at(self.labels, self.found, _depths(names)) if _depths(names) else {}
        chosen = self.calibration.optimal
        return {name: recalls[name] if name in recalls else getattr(chosen, CALIBRATED[name]) for name in names}

    @property
    def threshold(self) -> float:
        return self.calibration.optimal.distance

    @property
    def distances(self) -> np.ndarray:
        """Of the nearest neighbours."""
        return np.asarray(self.found.distances, np.float64)[:, 0]

    def as_json(self) -> dict[str, Any]:
        """What a user of the model needs to know of the threshold."""
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
    """Both sets of queries, from raw outputs by role, the images of each role, and the labels of all images."""
    if missing := [role for role in (INDEX, *QUERY_VIEWS) if role not in embeddings or role not in split]:
        raise UserError(f"There are no embeddings of '{missing[0]}': the split scheme seen_unseen is needed.")
    index, places = normalise(embeddings[INDEX]), labels[split[INDEX]]
    depth = min(max([1, *_depths(metrics)]), len(index))
    sets = {}
    for name in QUERY_VIEWS:
        own = labels[split[name]]
        found = neighbours(normalise(embeddings[name]), index, places, depth, device)
        sets[name] = QuerySet(own, found, calibrate(own, found, maths))
    return sets


def chance(
    split: Mapping[str, Sequence[int]], labels: np.ndarray, metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    """R@k of an order that is drawn at random, of each set of queries.

    With r of the N images of the index of a query's class: 1 − C(N − r, k) / C(N, k), and the mean over queries.
    """
    places = labels[np.asarray(split[INDEX], np.int64)]
    classes, counts = np.unique(places, return_counts=True)
    relevant, size = dict(zip(classes.tolist(), counts.tolist(), strict=True)), len(places)
    values = {}
    for name in QUERY_VIEWS:
        own = [relevant.get(label, 0) for label in labels[np.asarray(split[name], np.int64)].tolist()]
        values[name] = {
            f"R@{k}": float(np.mean([1 - comb(size - right, k) / comb(size, k) for right in own]))
            for k in _depths(metrics)
            if k <= size
        }
    return values


def doubts(sets: Mapping[str, QuerySet], split: Mapping[str, Sequence[int]], labels: np.ndarray) -> list[str]:
    """A sentence for every set of queries whose R@1 is that of a random order."""
    sentences = []
    for name, values in chance(split, labels, ["R@1"]).items():
        recall, by_chance = sets[name].metrics(["R@1"])["R@1"], values["R@1"]
        if at_chance(recall, by_chance, len(sets[name].labels)):
            sentences.append(
                f"R@1 of {name.replace('_', ' ')} is {100 * recall:.2f} %, by chance it would be "
                f"{100 * by_chance:.2f} %: was the trained network evaluated?"
            )
    return sentences


def at_chance(recall: float, by_chance: float, queries: int) -> bool:
    """Whether the R@1 of so many queries is not clearly, by three standard errors, above that of a random order."""
    return recall - by_chance < 3 * sqrt(by_chance * (1 - by_chance) / queries)


def _depths(names: Sequence[str]) -> list[int]:
    return [int(found[1]) for found in map(RECALL.fullmatch, names) if found]
