"""Batches of pairs, one pair per class."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import counted, positions_by_class


class Pairs:
    """Two images from each of ``batch`` / 2 random classes: all anchors, then their positives in the same order.

    With probability ``same_image`` a pair is the same image twice, augmented independently; otherwise its images
    differ. Classes with one image are left out. A pass is ``batches`` independent batches. A batch of 2 is one pair
    without negatives.
    """

    def __init__(self, labels: np.ndarray, batch: int, batches: int, same_image: float = 0.0):
        counted("Pairs", batch=batch, batches=batches)
        self.pairs, self.batches, self.same_image = batch // 2, batches, same_image
        self.classes = [positions for positions in positions_by_class(labels) if len(positions) > 1]
        if batch % 2:
            raise UserError(f"'sampler.batch' must be even, found {batch}.")
        if not 0 <= same_image <= 1:
            raise UserError(f"'sampler.same_image' must be a probability from 0 to 1, found {same_image!r}.")
        if len(self.classes) < self.pairs:
            raise UserError(
                f"'sampler.batch' ({batch}) needs {self.pairs} classes, one per pair, but only {len(self.classes)} "
                "training classes have two images: lower 'sampler.batch'."
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
