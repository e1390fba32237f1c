"""Random meta-classes: each member of an ensemble learns to tell other groups of classes apart."""

import numpy as np


def mapping(seed: int, members: int, meta_classes: int, classes: int) -> np.ndarray:
    """(members, classes): the meta-class of each class for each member, independent and uniform; one may stay empty."""
    return np.random.RandomState(seed).randint(0, meta_classes, (members, classes))


def relabel(labels: np.ndarray, mapping: np.ndarray, member: int) -> np.ndarray:
    """What a member sees instead of the labels 0…C-1: their meta-classes."""
    return mapping[member][labels]
