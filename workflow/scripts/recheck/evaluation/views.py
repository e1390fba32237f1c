"""From the folds' raw test embeddings to the numbers of a view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recheck.errors import UserError, nearest
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.reduction import reduce
from recheck.evaluation.search import checked
from recheck.names import BEST_ON_TEST, QUERY_VIEWS, VIEWS


def normalise(embeddings: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; the length is taken in float64, and a zero row stays zero."""
    embeddings, norms = checked(embeddings)
    norms[norms == 0] = 1.0
    unit = np.empty_like(embeddings)
    return np.divide(embeddings, norms[:, None], out=unit, casting="same_kind")


@dataclass(frozen=True)
class Measure:
    """How embeddings become numbers, during training and after it.

    ``labels`` are those of the rows. With ``gallery`` the last so many rows are searched by the others; without it each
    row searches all others. ``unit`` brings rows to length 1 first; otherwise they are taken as the head gives them.
    ``clusters`` are settings of the k-means behind NMI and AMI, where a study has any.
    """

    labels: np.ndarray
    gallery: int = 0
    unit: bool = True
    clusters: Mapping[str, str] | None = None
    device: str = "cpu"
    seed: int = 0

    def prepare(self, embeddings: np.ndarray) -> np.ndarray:
        return normalise(embeddings) if self.unit else checked(embeddings)[0]

    def __call__(self, embeddings: np.ndarray, metrics: Sequence[str]) -> dict[str, float]:
        """The metrics of embeddings that were prepared."""
        first = len(embeddings) - self.gallery
        queries, labels = embeddings[:first], self.labels[:first]
        against = (embeddings[first:], self.labels[first:]) if self.gallery else (None, None)
        settings = {"device": self.device, "seed": self.seed, "clusters": self.clusters}
        return evaluate(queries, labels, metrics, *against, **settings)


def separated(
    fold_embeddings: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    device: str = "cpu",
    seed: int = 0,
    **how: Any,
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """The mean over folds of each metric, and the metrics of every fold; ``how`` is as in ``Measure``."""
    measure = Measure(np.asarray(labels), device=device, seed=seed, **how)
    folds = [measure(measure.prepare(fold), metrics) for fold in fold_embeddings]
    return {name: float(np.mean([fold[name] for fold in folds])) for name in metrics}, folds


def concatenated(
    fold_embeddings: Sequence[np.ndarray], reduction: Mapping[str, Any] | None = None, seed: int = 0, unit: bool = True
) -> np.ndarray:
    """One embedding from all folds: each to length 1, side by side in fold order, to length 1 again.

    A reduction takes the raw outputs of all folds together; copies of one network count once, since they add nothing.
    Without ``unit`` nothing is brought to length 1.
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
    **how: Any,
) -> dict[str, Any]:
    """``dim`` and ``metrics`` of a view, and ``folds`` of the separated one, from raw outputs.

    ``last_epoch`` and ``best_on_test`` are concatenated too, of one epoch's checkpoints each. Of several members
    ``best_on_test`` takes the first so many that have the highest metric ``select``, the fewest if equal, and says how
    many: ``members``. ``reduction`` ({"kind": ..., "dims": {view: ...}}) is for networks without a trained head, and
    ``how`` (``gallery``, ``unit``, ``clusters``) as in ``Measure``.
    """
    if view not in VIEWS or view in QUERY_VIEWS:
        raise UserError(f"There is no view '{view}': {nearest(view, VIEWS)}.")
    folds = [np.asarray(fold) for fold in fold_embeddings]
    if not folds or len({len(fold) for fold in folds} | {len(labels)}) != 1:
        sizes = ", ".join(str(len(fold)) for fold in folds)
        raise UserError(
            f"The folds have {sizes or 'no'} test embeddings for {len(labels)} labels: all folds need the same test "
            "images; delete their embeddings.safetensors and run again."
        )
    if view == "separated":
        if reduction:
            folds = [reduce(fold, reduction["kind"], reduction["dims"][view], seed) for fold in folds]
        mean, each = separated(folds, labels, metrics, device, seed, **how)
        return {"dim": folds[0].shape[1], "metrics": mean, "folds": each}
    measure, chosen = Measure(np.asarray(labels), device=device, seed=seed, **how), {}
    if view == BEST_ON_TEST and select and len(folds) > 1:
        chosen = {"members": best_prefix(folds, measure, select)}
        folds = folds[: chosen["members"]]
    embeddings = concatenated(folds, reduction, seed, measure.unit)
    return {"dim": embeddings.shape[1], **chosen, "metrics": measure(embeddings, metrics)}


def best_prefix(members: Sequence[np.ndarray], measure: Measure, metric: str) -> int:
    """How many of the members, from the first on, are best together; the fewest if equal."""
    values = [
        measure(concatenated(members[:count], unit=measure.unit), [metric])[metric]
        for count in range(1, len(members) + 1)
    ]
    return int(np.argmax(values)) + 1
