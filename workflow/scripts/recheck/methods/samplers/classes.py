"""What samplers that choose classes first share."""

import numpy as np

from recheck.errors import UserError


def positions_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """For each class, in the order of labels, the positions of its images."""
    _, ranks, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.split(np.argsort(ranks, kind="stable"), np.cumsum(counts)[:-1])


def counted(sampler: str, **numbers: int) -> None:
    """Refuse settings that are not whole numbers from 1."""
    for key, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"sampler '{sampler}' needs a whole number from 1 as '{key}', not {value!r}.")


def choose(positions: np.ndarray, count: int, generator: np.random.RandomState) -> list[int]:
    """``count`` images of a class: different ones, or if it has fewer, drawn with replacement."""
    return generator.choice(positions, count, replace=len(positions) < count).tolist()


def classes_in(batch: int, per_class: int) -> int:
    """How many classes a batch has."""
    if per_class < 1 or batch % per_class:
        raise UserError(f"sampler: 'batch' {batch} is no multiple of 'per_class' {per_class}.")
    return batch // per_class
