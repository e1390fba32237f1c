"""All images in random order."""

import numpy as np

from recheck.methods.samplers.batches import cut


class Shuffled:
    """Every image once, in random order; the last incomplete batch is dropped."""

    def __init__(self, labels: np.ndarray, batch: int):
        self.count, self.batch = len(labels), batch

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return cut(generator.permutation(self.count).tolist(), self.batch)
