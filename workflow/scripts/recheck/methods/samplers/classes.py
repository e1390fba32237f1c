"""Helpers of samplers that choose classes before images."""

import numpy as np

from recheck.errors import UserError


def positions_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """Positions of the images of each class; classes are sorted by label."""
    _, ranks, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.split(np.argsort(ranks, kind="stable"), np.cumsum(counts)[:-1])


def counted(sampler: str, **numbers: int) -> None:
    """Refuse values that are not whole numbers of at least 1."""
    for key, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(
                f"'{key}' of the sampler '{sampler}' must be a whole number of at least 1, found {value!r}."
            )


def choose(positions: np.ndarray, count: int, generator: np.random.RandomState) -> list[int]:
    """``count`` images of a class, drawn with replacement only if the class has fewer images."""
    return generator.choice(positions, count, replace=len(positions) < count).tolist()


def classes_in(batch: int, per_class: int) -> int:
    """Number of classes in ``batch`` images."""
    if per_class < 1 or batch % per_class:
        raise UserError(f"'sampler.per_class' ({per_class}) must divide the batch or half-batch of {batch} images.")
    return batch // per_class
