"""Metrics of a view, from the folds' raw test embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recheck.errors import UserError, nearest
from recheck.evaluation import sanity
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.reduction import reduce
from recheck.evaluation.search import checked
from recheck.names import BACKBONE, BEST_ON_TEST, QUERY_VIEWS, VIEWS


def normalise(embeddings: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1, float32; lengths are computed in float64, and a zero row stays zero."""
    embeddings, norms = checked(embeddings)
    norms[norms == 0] = 1.0
    unit = np.empty_like(embeddings)
    return np.divide(embeddings, norms[:, None], out=unit, casting="same_kind")


@dataclass(frozen=True)
class Measure:
    """Computes metrics from embeddings, during training and afterwards.

    ``labels`` are the labels of the rows. The last ``gallery`` rows are the gallery, which the other rows search; with
    0, each row searches all others. ``unit`` normalises rows to length 1 first. ``clusters`` are optional settings of
    the k-means for NMI and AMI. With a ``curvature``, rows are points in the Poincaré ball and are never normalised.
    """

    labels: np.ndarray
    gallery: int = 0
    unit: bool = True
    clusters: Mapping[str, str] | None = None
    curvature: float | None = None
    device: str = "cpu"
    seed: int = 0

    def prepare(self, embeddings: np.ndarray) -> np.ndarray:
        return normalise(embeddings) if self.scales else checked(embeddings)[0]

    @property
    def scales(self) -> bool:
        return self.unit and self.curvature is None

    def __call__(self, embeddings: np.ndarray, metrics: Sequence[str]) -> dict[str, float]:
        """Metrics of embeddings returned by ``prepare``."""
        first = len(embeddings) - self.gallery
        queries, labels = embeddings[:first], self.labels[:first]
        against = (embeddings[first:], self.labels[first:]) if self.gallery else (None, None)
        settings = {"device": self.device, "seed": self.seed, "clusters": self.clusters, "curvature": self.curvature}
        return evaluate(queries, labels, metrics, *against, **settings)


def separated(
    fold_embeddings: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    device: str = "cpu",
    seed: int = 0,
    **settings: Any,
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Mean of each metric over folds, and the metrics of every fold; ``settings`` are passed to ``Measure``."""
    measure = Measure(np.asarray(labels), device=device, seed=seed, **settings)
    folds = [measure(measure.prepare(fold), metrics) for fold in fold_embeddings]
    return {name: float(np.mean([fold[name] for fold in folds])) for name in metrics}, folds


def concatenated(
    fold_embeddings: Sequence[np.ndarray], reduction: Mapping[str, Any] | None = None, seed: int = 0, unit: bool = True
) -> np.ndarray:
    """One embedding from all folds: normalised to length 1, concatenated in fold order, and normalised again.

    A reduction is applied to the concatenated raw outputs; if all folds have the same outputs, one copy is used.
    Without ``unit`` nothing is normalised.
    """
    folds = list(fold_embeddings)
    if reduction:
        same = all(np.array_equal(fold, folds[0]) for fold in folds)
        joined = folds[0] if same else np.concatenate(folds, axis=1)
        folds = [reduce(joined, reduction["kind"], reduction["dims"]["concatenated"], seed)]
    if not unit:
        return checked(np.concatenate(folds, axis=1))[0]
    return normalise(np.concatenate([normalise(fold) for fold in folds], axis=1))


def evaluate_view(
    view: str,
    fold_embeddings: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    reduction: Mapping[str, Any] | None = None,
    device: str = "cpu",
    seed: int = 0,
    select: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """``dim``, ``metrics`` and ``warnings`` of a view from raw outputs, and for the separated view, ``folds``.

    ``last_epoch`` and ``best_on_test`` are concatenated like ``concatenated``, from the checkpoints of one epoch each.
    For an ensemble, ``best_on_test`` uses the first k members, with the smallest k that maximises the metric
    ``select``, and returns k as ``members``. ``reduction`` ({"kind": ..., "dims": {view: ...}}) is for networks without
    a trained head. ``settings`` (``gallery``, ``unit``, ``clusters``, ``curvature``) are passed to ``Measure``. The
    view ``backbone`` always compares by cosine.
    """
    if view not in VIEWS or view in QUERY_VIEWS:
        raise UserError(f"Unknown view '{view}'; {nearest(view, VIEWS)}.")
    folds = [np.asarray(fold) for fold in fold_embeddings]
    if not folds or len({len(fold) for fold in folds} | {len(labels)}) != 1:
        sizes = ", ".join(str(len(fold)) for fold in folds)
        raise UserError(
            f"All folds must have the same {len(labels)} test images, found {sizes or 'no'} test embeddings: delete "
            "the embeddings.safetensors of the folds and run again."
        )
    if view == BACKBONE:
        settings |= {"unit": True, "curvature": None}
    measure = Measure(np.asarray(labels), device=device, seed=seed, **settings)
    if view == "separated":
        if reduction:
            folds = [reduce(fold, reduction["kind"], reduction["dims"][view], seed) for fold in folds]
        mean, each = separated(folds, labels, metrics, device, seed, **settings)
        warnings = sanity.of_folds(view, [measure.prepare(fold) for fold in folds], labels, mean, measure.gallery)
        return {"dim": folds[0].shape[1], "metrics": mean, "folds": each, "warnings": warnings}
    chosen = {}
    if view == BEST_ON_TEST and select and len(folds) > 1:
        chosen = {"members": best_prefix(folds, measure, select)}
        folds = folds[: chosen["members"]]
    embeddings = concatenated(folds, reduction, seed, measure.scales)
    values = measure(embeddings, metrics)
    warnings = sanity.of_folds(view, [embeddings], labels, values, measure.gallery)
    return {"dim": embeddings.shape[1], **chosen, "metrics": values, "warnings": warnings}


def best_prefix(members: Sequence[np.ndarray], measure: Measure, metric: str) -> int:
    """Smallest number k for which the first k members together have the best metric."""
    values = [
        measure(concatenated(members[:count], unit=measure.scales), [metric])[metric]
        for count in range(1, len(members) + 1)
    ]
    return int(np.argmax(values)) + 1
