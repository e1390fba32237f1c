"""What samplers that choose classes first share."""

import numpy as np

from recheck.errors import UserError


def positions_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """The positions of every class's images, classes in the order of their labels."""
    _, codes = np.unique(labels, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def choose(positions: np.ndarray, count: int, generator: np.random.RandomState) -> list[int]:
    """``count`` images of a class: different ones, or if it has fewer, drawn with replacement."""
    return generator.choice(positions, count, replace=len(positions) < count).tolist()


def classes_in(batch: int, per_class: int) -> int:
    """How many classes a batch has."""
    if per_class < 1 or batch % per_class:
        raise UserError(f"sampler: 'batch' {batch} is no multiple of 'per_class' {per_class}.")
    return batch // per_class
