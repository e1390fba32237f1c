"""Batches with a few images from each of several random classes."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import counted, positions_by_class


class BalancedClasses:
    """``per_class`` images from each of ``batch`` // ``per_class`` random classes; images of a class are consecutive.

    Neither classes nor images repeat within a batch. A class with fewer than ``per_class`` images contributes all of
    them, and further random classes follow until the batch is full; the last one is truncated. A pass is ``batches``
    independent batches.
    """

    def __init__(self, labels: np.ndarray, batch: int, per_class: int, batches: int):
        counted("BalancedClasses", batch=batch, per_class=per_class, batches=batches)
        self.batch, self.per_class, self.batches = batch, per_class, batches
        self.classes = positions_by_class(labels)
        most = sum(min(per_class, len(positions)) for positions in self.classes)
        if most < batch:
            raise UserError(
                f"{len(self.classes)} training classes with at most 'sampler.per_class' ({per_class}) images each give "
                f"only {most} images: lower 'sampler.batch' ({batch})."
            )

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return [self._batch(generator) for _ in range(self.batches)]

    def _batch(self, generator: np.random.RandomState) -> list[int]:
        chosen: list[int] = []
        for number in generator.permutation(len(self.classes)):
            if len(chosen) >= self.batch:
                break
            positions = self.classes[number]
            images = min(self.per_class, len(positions))
            chosen += generator.choice(positions, images, replace=False).tolist()
        return chosen[: self.batch]
