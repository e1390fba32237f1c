"""Batches with m images per class, drawn as by pytorch-metric-learning's sampler."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.batches import cut
from recheck.methods.samplers.classes import choose, counted, positions_by_class


class MPerClass:
    """``per_class`` images of each class in shuffled rounds, cut into batches.

    A pass has as many whole rounds as fit into ``length`` images, at least one; a batch may span two rounds. Draws
    match pytorch-metric-learning's ``MPerClassSampler``, except that the library always uses its own generator.
    """

    def __init__(self, labels: np.ndarray, batch: int, per_class: int, length: int):
        counted("MPerClass", batch=batch, per_class=per_class, length=length)
        if length < batch:
            raise UserError(f"'sampler.length' must be at least 'sampler.batch' ({batch}), found {length}.")
        self.batch, self.per_class = batch, per_class
        self.classes = positions_by_class(labels)
        self.rounds = max(1, length // (per_class * len(self.classes)))

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        order, positions = list(range(len(self.classes))), []
        for _ in range(self.rounds):
            generator.shuffle(order)
            for number in order:
                positions += choose(self.classes[number], self.per_class, generator)
        return cut(positions, self.batch)
