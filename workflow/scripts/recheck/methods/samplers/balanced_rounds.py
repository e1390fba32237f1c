"""Rounds of many classes that use every image of a class before repeating one."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.batches import cut
from recheck.methods.samplers.classes import choose, classes_in, counted, positions_by_class


class BalancedRounds:
    """Rounds of ``classes`` classes with ``per_class`` images each, cut into batches.

    A round draws its classes without replacement. Images are removed from the pool of their class; a pool with fewer
    than ``per_class`` images is first refilled with the whole class. Whole rounds are drawn until there are as many
    batches as all images would fill once, so a pass may be slightly longer (126 batches of 64 on Cars, not 125). With
    fewer than ``classes`` classes, a round uses as many of them as fill whole batches. Pools start full in each pass,
    so that a pass depends only on its generator.
    """

    def __init__(self, labels: np.ndarray, batch: int, per_class: int = 4, classes: int = 96):
        counted("BalancedRounds", batch=batch, per_class=per_class, classes=classes)
        self.batch, self.per_class = batch, per_class
        self.members = positions_by_class(labels)
        together = classes_in(batch, per_class)
        self.classes = min(classes, len(self.members)) // together * together
        if not self.classes:
            raise UserError(
                f"'sampler.batch' ({batch}) with {per_class} images per class needs {together} classes, but a round "
                f"has only {min(classes, len(self.members))}: lower 'sampler.batch'."
            )
        self.batches = len(labels) // batch

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        pools = list(self.members)
        stream: list[int] = []
        while len(stream) < self.batches * self.batch:
            for number in generator.choice(len(pools), self.classes, replace=False):
                if len(pools[number]) < self.per_class:
                    pools[number] = self.members[number]
                chosen = choose(pools[number], self.per_class, generator)
                pools[number] = np.setdiff1d(pools[number], chosen)
                stream += chosen
        return cut(stream, self.batch)
