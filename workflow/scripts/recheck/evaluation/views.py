"""From the folds' raw test embeddings to the numbers of a view."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recheck.errors import UserError, nearest
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.reduction import reduce
from recheck.evaluation.search import checked

VIEWS = ("separated", "concatenated")


def normalise(embeddings: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; the length is taken in float64, and a zero row stays zero."""
    embeddings, norms = checked(embeddings)
    norms[norms == 0] = 1.0
    unit = np.empty_like(embeddings)
    return np.divide(embeddings, norms[:, None], out=unit, casting="same_kind")


def separated(
    fold_embeddings: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    device: str = "cpu",
    seed: int = 0,
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """The mean over folds of each metric, and the metrics of every fold."""
    folds = [evaluate(normalise(fold), labels, metrics, device=device, seed=seed) for fold in fold_embeddings]
    return {name: float(np.mean([fold[name] for fold in folds])) for name in metrics}, folds


def concatenated(
    fold_embeddings: Sequence[np.ndarray], reduction: Mapping[str, Any] | None = None, seed: int = 0
) -> np.ndarray:
    """One embedding from all folds: each to length 1, side by side in fold order, to length 1 again.

    A reduction takes the raw outputs of all folds together; copies of one network count once, since they add nothing.
    """
    folds = list(fold_embeddings)
    if reduction:
        same = all(np.array_equal(fold, folds[0]) for fold in folds)
        joined = folds[0] if same else np.concatenate(folds, axis=1)
        folds = [reduce(joined, reduction["kind"], reduction["dims"]["concatenated"], seed)]
    return normalise(np.concatenate([normalise(fold) for fold in folds], axis=1))


def evaluate_view(
    view: str,
    fold_embeddings: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    reduction: Mapping[str, Any] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """``dim`` and ``metrics`` of a view, and ``folds`` of the separated one, from raw outputs.

    ``reduction`` ({"kind": ..., "dims": {view: ...}}) is for networks without a trained head.
    """
    if view not in VIEWS:
        raise UserError(f"There is no view '{view}': {nearest(view, VIEWS)}.")
    folds = [np.asarray(fold) for fold in fold_embeddings]
    if not folds or len({len(fold) for fold in folds} | {len(labels)}) != 1:
        sizes = ", ".join(str(len(fold)) for fold in folds)
        raise UserError(
            f"The folds have {sizes or 'no'} test embeddings for {len(labels)} labels: all folds need the same test "
            "images; delete their embeddings.safetensors and run again."
        )
    if view == "concatenated":
        embeddings = concatenated(folds, reduction, seed)
        return {
            "dim": embeddings.shape[1],
            "metrics": evaluate(embeddings, labels, metrics, device=device, seed=seed),
        }
    if reduction:
        folds = [reduce(fold, reduction["kind"], reduction["dims"][view], seed) for fold in folds]
    mean, each = separated(folds, labels, metrics, device, seed)
    return {"dim": folds[0].shape[1], "metrics": mean, "folds": each}
