"""Batches of m images a class: pytorch-metric-learning's sampler, drawn from a generator of the run's own."""

import numpy as np
from pytorch_metric_learning.utils import common_functions

from recheck.errors import UserError
from recheck.imports import alone
from recheck.methods.samplers.batches import cut

library = alone("pytorch_metric_learning.samplers.m_per_class_sampler")


class MPerClass:
    """``per_class`` images of each class in shuffled rounds, cut into batches (pytorch-metric-learning's sampler).

    ``length`` images are drawn before the list is made anew; a batch may straddle two rounds.
    """

    def __init__(self, labels: np.ndarray, batch: int, per_class: int, length: int):
        if length < batch:
            raise UserError(f"sampler: 'length' {length} is smaller than 'batch' {batch}; a pass must hold a batch.")
        self.batch = batch
        self.sampler = library.MPerClassSampler(labels, per_class, batch_size=None, length_before_new_iter=length)

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        # The library shuffles its own list of labels in place: start from the same order each time.
        self.sampler.labels.sort()
        shared, common_functions.NUMPY_RANDOM = common_functions.NUMPY_RANDOM, generator
        try:
            positions = [int(position) for position in self.sampler]
        finally:
            common_functions.NUMPY_RANDOM = shared
        return cut(positions, self.batch)
