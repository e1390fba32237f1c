"""Choose the distance threshold up to which a nearest neighbour is accepted.

A query is *right* if its nearest neighbour in the index has its label, and *accepted* at a threshold t if that
neighbour is not farther than t. Queries that are right and accepted are true positives (TP), wrong and accepted are
false positives (FP), right and rejected are false negatives (FN), wrong and rejected are true negatives (TN). Then

    precision = TP / (TP + FP),  recall = TP / (TP + FN),  F1 = 2 TP / (2 TP + FP + FN),
    binary accuracy = TP / queries,  accuracy = (TP + TN) / queries,  and 0 / 0 = 0.

Recall refers to the right queries only, so accepting everything gives recall 1. ``binary_accuracy`` is TensorFlow
Similarity's name for precision times the share of accepted queries; ``accuracy`` is the usual accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from recheck.errors import UserError, nearest
from recheck.evaluation.search import Search

MATHS = ("fixed", "legacy")
DECIMALS = 8  # for distances
LEGACY_DECIMALS = 2  # for F1


class Neighbours(NamedTuple):
    """Labels and cosine distances of each query's nearest neighbours, nearest first, both (queries, k)."""

    labels: np.ndarray
    distances: np.ndarray


@dataclass(frozen=True)
class Thresholds:
    """Table of thresholds, sorted by distance, with the metrics of accepting neighbours up to each distance."""

    distance: np.ndarray
    value: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    binary_accuracy: np.ndarray
    accuracy: np.ndarray
    true_positives: np.ndarray
    false_positives: np.ndarray
    false_negatives: np.ndarray
    true_negatives: np.ndarray

    def __len__(self) -> int:
        return len(self.distance)

    def at(self, row: int) -> "CutPoint":
        return CutPoint(**{field.name: float(getattr(self, field.name)[row]) for field in fields(CutPoint)})

    def rows(self, which: np.ndarray) -> "Thresholds":
        return Thresholds(**{name: column[which] for name, column in self.columns().items()})

    def columns(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class CutPoint:
    """A threshold and its metrics; ``value`` is the metric by which it was chosen."""

    value: float
    distance: float
    precision: float
    recall: float
    binary_accuracy: float
    f1: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """Best threshold of a query set, and the table it was chosen from."""

    optimal: CutPoint
    thresholds: Thresholds

    def as_json(self) -> dict[str, Any]:
        """Block ``calibration`` of evaluation.json in the published format, which leaves out ``accuracy``."""
        values = asdict(self.optimal)
        del values["accuracy"]
        return {"method": "optimal", **values}


def neighbours(
    queries: np.ndarray, index: np.ndarray, index_labels: np.ndarray, k: int, device: str = "cpu"
) -> Neighbours:
    """k nearest images of the index by exact search. Embeddings must have length 1.

    Distances are max(0, 1 − q·e), summed in float64 and stored as float32.
    """
    queries, index = np.asarray(queries), np.asarray(index)
    rows = Search(index, device).nearest(queries, k)
    distances = np.empty(rows.shape, dtype=np.float32)
    for place in range(rows.shape[1]):
        near = index[rows[:, place]]
        distances[:, place] = np.maximum(0, 1 - np.einsum("ij,ij->i", queries, near, dtype=np.float64))
    return Neighbours(np.asarray(index_labels)[rows], distances)


def recall_at(labels: np.ndarray, closest: Neighbours, ks: Sequence[int]) -> dict[str, float]:
    """R@k: share of queries with their label among the k nearest neighbours."""
    labels = np.asarray(labels)
    if len(labels) == 0:
        raise UserError("R@k needs at least one query, found none.")
    if max(ks) > closest.labels.shape[1]:
        raise UserError(f"R@{max(ks)} needs {max(ks)} neighbours per query, found {closest.labels.shape[1]}.")
    hits = closest.labels == labels[:, None]
    return {f"R@{k}": float(hits[:, :k].any(axis=1).mean()) for k in ks}


def calibrate(labels: np.ndarray, closest: Neighbours, maths: str = "fixed") -> Calibration:
    """Threshold with the largest F1.

    ``fixed`` searches all thresholds; if several have the same F1, the largest distance wins. ``value`` is that F1.

    ``legacy`` reproduces TensorFlow Similarity at the time of its benchmark. It walks down from the largest distance
    and records a threshold only if its F1, rounded to 2 decimals, is *less* than the last one recorded. The best
    recorded threshold is therefore always the largest distance, which accepts everything. ``value`` is the rounded F1.
    """
    if maths not in MATHS:
        raise UserError(f"Unknown value {maths!r} for 'maths' of the calibration; {nearest(str(maths), MATHS)}.")
    table = threshold_table(labels, closest)
    if maths == "legacy":
        table = _recorded(table)
    best = len(table) - 1 - int(np.argmax(table.f1[::-1]))
    return Calibration(table.at(best), table)


def threshold_table(labels: np.ndarray, closest: Neighbours) -> Thresholds:
    """Table of all thresholds that matter: the distinct distances of nearest neighbours.

    Distances are rounded to 8 decimals in float32, as in the original, so that its thresholds are reproduced exactly.
    """
    right, distances = matches(labels, closest)
    distances = np.round(distances.astype(np.float32), DECIMALS)
    thresholds, place = np.unique(distances, return_inverse=True)
    accepted_right = np.cumsum(np.bincount(place, weights=right, minlength=len(thresholds))).astype(np.int64)
    accepted = np.cumsum(np.bincount(place, minlength=len(thresholds)))
    count, count_right = len(right), int(right.sum())
    tp, fp = accepted_right, accepted - accepted_right
    fn = count_right - tp
    tn = count - accepted - fn
    f1 = _ratio(2 * tp, 2 * tp + fp + fn)
    return Thresholds(
        distance=thresholds.astype(np.float64),
        value=f1,
        precision=_ratio(tp, tp + fp),
        recall=_ratio(tp, tp + fn),
        f1=f1,
        binary_accuracy=tp / count,
        accuracy=(tp + tn) / count,
        true_positives=tp,
        false_positives=fp,
        false_negatives=fn,
        true_negatives=tn,
    )


def matches(labels: np.ndarray, closest: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Whether each query is right, and the distance of its nearest neighbour."""
    labels, near, distances = (np.asarray(values) for values in (labels, *closest))
    if labels.ndim != 1 or near.ndim != 2 or near.shape != distances.shape or len(near) != len(labels):
        raise UserError(
            "Labels must have shape (queries,), and the neighbours' labels and distances must have shape (queries, k), "
            f"found {labels.shape}, {near.shape} and {distances.shape}."
        )
    if near.size == 0:
        raise UserError(
            f"Calibration needs queries and neighbours, found {len(labels)} queries with {near.shape[1]} neighbours "
            "each."
        )
    if not np.isfinite(distances[:, 0]).all():
        query = int(np.flatnonzero(~np.isfinite(distances[:, 0]))[0])
        raise UserError(
            f"The distance from query {query} to its nearest neighbour must be finite, found {distances[query, 0]}."
        )
    return near[:, 0] == labels, distances[:, 0]


def is_accepted(distances: np.ndarray, threshold: float) -> np.ndarray:
    """Whether each distance is at most the threshold, rounded as in the table so that equality is exact."""
    return np.round(np.asarray(distances, np.float32), DECIMALS) <= np.float32(threshold)


def _recorded(table: Thresholds) -> Thresholds:
    """Thresholds that the legacy walk records, sorted by distance.

    TensorFlow Similarity computed in float32, which decides how an F1 ending in 5 is rounded.
    """
    precision, recall = table.precision.astype(np.float32), table.recall.astype(np.float32)
    f1 = _ratio(2 * (precision * recall), precision + recall)
    rounded = np.round(f1, LEGACY_DECIMALS)
    kept, last = [], np.inf
    for row in range(len(table) - 1, -1, -1):
        if rounded[row] < last:
            kept.append(row)
            last = rounded[row]
    columns = table.columns() | {"value": np.round(rounded.astype(np.float64), LEGACY_DECIMALS)}
    return Thresholds(**columns).rows(np.array(kept[::-1]))


def _ratio(count: np.ndarray, total: np.ndarray) -> np.ndarray:
    """count / total, where 0 / 0 = 0; float32 stays float32."""
    kind = np.result_type(count, total)
    kind = kind if kind.kind == "f" else np.float64
    return np.divide(count, total, out=np.zeros(count.shape, dtype=kind), where=total != 0)


def evaluation_json(
    loss: str,
    dataset_name: str,
    query_sets: Mapping[str, tuple[Calibration, Mapping[str, float]]],
) -> dict[str, Any]:
    """Content of evaluation.json for one model: calibration and R@k of each query set, calibrated on itself."""
    blocks = {
        name: {"calibration": calibration.as_json(), "paper": {key: float(value) for key, value in recalls.items()}}
        for name, (calibration, recalls) in query_sets.items()
    }
    return {"loss": loss, "dataset_name": dataset_name, **blocks}


# For figures


class MatchHistogram(NamedTuple):
    """Counts of right and wrong nearest neighbours by distance; (bins + 1,), (bins,), (bins,)."""

    edges: np.ndarray
    right: np.ndarray
    wrong: np.ndarray


class ClassReliability(NamedTuple):
    """Counts of each class's queries that are right, accepted, and both, sorted by label; (classes,) each.

    ``precision`` is the share of accepted queries that are right, ``coverage`` the share of queries that are accepted.
    """

    label: np.ndarray
    queries: np.ndarray
    right: np.ndarray
    accepted: np.ndarray
    right_and_accepted: np.ndarray
    precision: np.ndarray
    coverage: np.ndarray


def match_histogram(labels: np.ndarray, closest: Neighbours, bins: int | np.ndarray = 40) -> MatchHistogram:
    """Histograms of right and wrong neighbours with the same bins: a number of equal bins, or given edges."""
    right, distances = matches(labels, closest)
    edges = np.histogram_bin_edges(distances.astype(np.float64), bins)
    return MatchHistogram(edges, *(np.histogram(distances[which], edges)[0] for which in (right, ~right)))


def class_reliability(labels: np.ndarray, closest: Neighbours, distance: float) -> ClassReliability:
    """Reliability of each class if neighbours up to ``distance`` (a threshold of the table) are accepted."""
    right, distances = matches(labels, closest)
    accepted = is_accepted(distances, distance)
    classes, place = np.unique(labels, return_inverse=True)
    queries, hits, taken, both = (
        np.bincount(place[which], minlength=len(classes))
        for which in (np.ones_like(right), right, accepted, right & accepted)
    )
    return ClassReliability(classes, queries, hits, taken, both, _ratio(both, taken), taken / queries)
