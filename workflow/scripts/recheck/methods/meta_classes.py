"""Random meta-classes: each member of an ensemble learns to separate different groups of classes (DREML)."""

import numpy as np

from recheck.errors import UserError


def mapping(seed: int, members: int, meta_classes: int, classes: int) -> np.ndarray:
    """(members, classes): meta-class of each class for each member, drawn independently and uniformly.

    Uses numpy's legacy generator, as the released code does. Nothing is balanced: a meta-class may be empty. The
    seed is taken modulo 2³², because the seeds of trials are larger than this generator accepts.
    """
    if meta_classes < 2:
        raise UserError(f"'relabel.count', the number of meta-classes, must be at least 2, found {meta_classes}.")
    return np.random.RandomState(seed % 2**32).randint(0, meta_classes, (members, classes))


def relabel(labels: np.ndarray, mapping: np.ndarray, member: int) -> np.ndarray:
    """Meta-classes that a member sees instead of the labels 0…C-1."""
    return mapping[member][labels]
