"""Which images make a batch.

A sampler turns training labels into *passes*: lists of batches of positions. A pass is a function of its generator
alone, so any step of a run can be found again. The engine walks from pass to pass; where an epoch ends is the
schedule's business.
"""

import sys
from typing import Any

import numpy as np
from pytorch_metric_learning import samplers as library
from pytorch_metric_learning.utils import common_functions

from recheck.errors import UserError
from recheck.registry import build


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


class Shuffled:
    """Every image once, in random order; the last incomplete batch is dropped."""

    def __init__(self, labels: np.ndarray, batch: int):
        self.count, self.batch = len(labels), batch

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return cut(generator.permutation(self.count).tolist(), self.batch)


def cut(positions: list[int], batch: int) -> list[list[int]]:
    return [positions[start : start + batch] for start in range(0, len(positions) - batch + 1, batch)]


def build_sampler(spec: dict[str, Any], labels: np.ndarray) -> MPerClass | Shuffled:
    sampler = build(spec, [sys.modules[__name__]], "sampler", labels=labels)
    if not sampler.draw(np.random.RandomState(0)):
        raise UserError(f"sampler: {len(labels)} training images do not fill one batch of {spec['batch']}.")
    return sampler
