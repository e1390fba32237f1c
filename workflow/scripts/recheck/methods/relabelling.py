"""Labels that a run is trained with."""

from typing import Any

import numpy as np

from recheck.methods import meta_classes
from recheck.parts import build


class MetaClasses:
    """Assigns each class to one of ``count`` meta-classes, separately for each of the ``members`` of an ensemble.

    The fold is the number of the member.
    """

    def __init__(self, count: int, members: int, num_classes: int, seed: int, fold: int):
        self.count, self.member = count, fold
        self.mapping = meta_classes.mapping(seed, members, count, num_classes)

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        return meta_classes.relabel(labels, self.mapping, self.member)


def training_labels(spec: dict[str, Any] | None, labels: np.ndarray, seed: int, fold: int) -> tuple[np.ndarray, int]:
    """Labels for training and the number of classes.

    Without ``relabel`` the labels are the ranks 0…T-1 of the T training classes. A relabelling is built with
    ``num_classes``, ``seed`` and ``fold`` if it has such arguments, is called with the ranks, and states its number of
    classes as ``count``.
    """
    classes, ranks = np.unique(labels, return_inverse=True)
    ranks = ranks.astype(np.int64)
    if spec is None:
        return ranks, len(classes)
    relabel = build(spec, "relabel", num_classes=len(classes), seed=seed, fold=fold)
    return np.asarray(relabel(ranks), np.int64), relabel.count
