"""Batches for prototypical networks."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import counted, positions_by_class


class Episodes:
    """``supports`` and ``queries`` of each of ``classes`` random classes, all of them different images.

    A batch is [supports; queries], both class by class in the same order of classes; ``batch`` is the number of its
    images. Classes with too few images are left out. A pass is ``batches`` independent episodes.
    """

    def __init__(self, labels: np.ndarray, batch: int, classes: int, supports: int, queries: int, batches: int):
        counted("Episodes", classes=classes, supports=supports, queries=queries, batches=batches)
        self.count, self.supports, self.queries, self.batches = classes, supports, queries, batches
        each = supports + queries
        if batch != classes * each:
            raise UserError(
                f"sampler: 'batch' is {batch}, but {classes} classes x ({supports} supports + {queries} queries) are "
                f"{classes * each} images."
            )
        self.classes = [positions for positions in positions_by_class(labels) if len(positions) >= each]
        if len(self.classes) < classes:
            raise UserError(
                f"sampler: {len(self.classes)} training classes have the {each} images of an episode, fewer than "
                f"'classes' {classes}; lower 'supports' and 'queries'."
            )

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        return [self._batch(generator) for _ in range(self.batches)]

    def _batch(self, generator: np.random.RandomState) -> list[int]:
        numbers = generator.choice(len(self.classes), self.count, replace=False)
        each = self.supports + self.queries
        images = np.stack([generator.choice(self.classes[number], each, replace=False) for number in numbers])
        supports, queries = images[:, : self.supports], images[:, self.supports :]
        return [*supports.ravel().tolist(), *queries.ravel().tolist()]
