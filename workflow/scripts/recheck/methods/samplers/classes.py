"""Where the images of each class are."""

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
