"""Random meta-classes: each member of an ensemble learns to tell other groups of classes apart (DREML)."""

import numpy as np

from recheck.errors import UserError


def mapping(seed: int, members: int, meta_classes: int, classes: int) -> np.ndarray:
    """(members, classes): the meta-class of each class for each member, independent and uniform.

    From numpy's legacy generator, as the released code has it. Nothing is balanced: a meta-class may stay empty.
    """
    if meta_classes < 2:
        raise UserError(f"'meta_classes' must be at least 2, not {meta_classes}.")
    return np.random.RandomState(seed).randint(0, meta_classes, (members, classes))


def relabel(labels: np.ndarray, mapping: np.ndarray, member: int) -> np.ndarray:
    """What a member sees instead of the labels 0…C-1: their meta-classes."""
    return mapping[member][labels]
