"""The labels that a run is trained with."""

from typing import Any

import numpy as np

from recheck.methods import meta_classes
from recheck.parts import build


class MetaClasses:
    """Each class in one of ``count`` meta-classes, drawn for each of the ``members`` of an ensemble; fold is member."""

    def __init__(self, count: int, members: int, num_classes: int, seed: int, fold: int):
        self.count, self.member = count, fold
        self.mapping = meta_classes.mapping(seed, members, count, num_classes)

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        return meta_classes.relabel(labels, self.mapping, self.member)


def training_labels(spec: dict[str, Any] | None, labels: np.ndarray, seed: int, fold: int) -> tuple[np.ndarray, int]:
    """The ranks 0…T-1 of the training classes, and T; or what a ``relabel`` makes of them, and its ``count``.

    A relabelling is built with the number of classes, the seed and the fold where it asks for them, and called with the
    ranks.
    """
    classes, ranks = np.unique(labels, return_inverse=True)
    ranks = ranks.astype(np.int64)
    if spec is None:
        return ranks, len(classes)
    relabel = build(spec, "relabel", num_classes=len(classes), seed=seed, fold=fold)
    return np.asarray(relabel(ranks), np.int64), relabel.count
