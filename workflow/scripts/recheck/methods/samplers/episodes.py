"""Batches for prototypical networks."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import counted, positions_by_class


class Episodes:
    """``supports`` and ``queries`` images from each of ``classes`` random classes; no image occurs twice.

    A batch is [supports; queries], both sorted by class in the same order; ``batch`` is its number of images. Classes
    with too few images are left out. A pass is ``batches`` independent episodes.
    """

    def __init__(self, labels: np.ndarray, batch: int, classes: int, supports: int, queries: int, batches: int):
        counted("Episodes", classes=classes, supports=supports, queries=queries, batches=batches)
        self.count, self.supports, self.queries, self.batches = classes, supports, queries, batches
        each = supports + queries
        if batch != classes * each:
            raise UserError(
                f"'sampler.batch' must be {classes * each}, for {classes} classes x ({supports} supports + {queries} "
                f"queries), found {batch}."
            )
        self.classes = [positions for positions in positions_by_class(labels) if len(positions) >= each]
        if len(self.classes) < classes:
            raise UserError(
                f"'sampler.classes' is {classes}, but only {len(self.classes)} training classes have the {each} images "
                "that an episode needs: lower 'sampler.supports' or 'sampler.queries'."
            )

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return [self._batch(generator) for _ in range(self.batches)]

    def _batch(self, generator: np.random.RandomState) -> list[int]:
        numbers = generator.choice(len(self.classes), self.count, replace=False)
        each = self.supports + self.queries
        images = np.stack([generator.choice(self.classes[number], each, replace=False) for number in numbers])
        supports, queries = images[:, : self.supports], images[:, self.supports :]
        return [*supports.ravel().tolist(), *queries.ravel().tolist()]
