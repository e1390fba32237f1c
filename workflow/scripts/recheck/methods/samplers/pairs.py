"""Batches of pairs, one pair a class."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import counted, positions_by_class


class Pairs:
    """Two images each of ``batch`` / 2 random classes: all anchors, then their positives in the same order.

    The two differ, but with probability ``same_image`` a pair is one image twice (augmented independently). Classes of
    one image are left out. A pass is ``batches`` independent batches. A batch of 2 is one pair without negatives.
    """

    def __init__(self, labels: np.ndarray, batch: int, batches: int, same_image: float = 0.0):
        counted("Pairs", batch=batch, batches=batches)
        self.pairs, self.batches, self.same_image = batch // 2, batches, same_image
        self.classes = [positions for positions in positions_by_class(labels) if len(positions) > 1]
        if batch % 2:
            raise UserError(f"sampler: 'batch' {batch} is odd; it counts images, two a pair.")
        if not 0 <= same_image <= 1:
            raise UserError(f"sampler: 'same_image' is a probability from 0 to 1, not {same_image!r}.")
        if len(self.classes) < self.pairs:
            raise UserError(
                f"sampler: {len(self.classes)} training classes have two images, fewer than the {self.pairs} pairs of "
                f"'batch' {batch}, which are of different classes."
            )

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return [self._batch(generator) for _ in range(self.batches)]

    def _batch(self, generator: np.random.RandomState) -> list[int]:
        anchors, positives = [], []
        for number in generator.choice(len(self.classes), self.pairs, replace=False):
            anchor, positive = generator.choice(self.classes[number], 2, replace=False).tolist()
            same = generator.random_sample() < self.same_image
            anchors.append(anchor)
            positives.append(anchor if same else positive)
        return anchors + positives
