"""An ensemble that grows: its metrics after each added member."""

from collections.abc import Mapping, Sequence

import numpy as np

from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import normalise


def after_each_member(
    members: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Sequence[str],
    device: str = "cpu",
    seed: int = 0,
    clusters: Mapping[str, str] | None = None,
) -> list[dict[str, float]]:
    """The metrics of the first member, the first two, …, by cosine distance.

    An ensemble's embedding is its members' outputs side by side as they are, so that each weighs by its own length
    (DREML's have length 1); it is then taken at length 1, where Euclidean order is cosine order.
    """
    joined = np.concatenate([np.asarray(member) for member in members], axis=1)
    ends = np.cumsum([np.shape(member)[1] for member in members])
    return [
        evaluate(normalise(joined[:, :end]), labels, metrics, device=device, seed=seed, clusters=clusters)
        for end in ends
    ]


def best_prefix(values: Sequence[Mapping[str, float]], metric: str) -> int:
    """How many members the best ensemble has, by a metric; of equals the smallest."""
    return int(np.argmax([value[metric] for value in values])) + 1
