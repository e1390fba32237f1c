"""Rounds of many classes, in which every image of a class has its turn before one comes again."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.batches import cut
from recheck.methods.samplers.classes import choose, classes_in, counted, positions_by_class


class BalancedRounds:
    """Rounds of ``classes`` classes with ``per_class`` images of each, cut into batches.

    A round draws its classes without replacement. Images come from the class's pool and leave it; a pool with fewer
    than ``per_class`` left is first filled with the whole class again. Whole rounds are drawn until there are as many
    batches as the images would fill once, so a pass may be a little longer (126 batches of 64 on Cars, not 125).
    With fewer than ``classes`` classes a round has all of them, less what does not fill a batch. Pools start full in
    each pass: a pass is a function of its generator alone.
    """

    def __init__(self, labels: np.ndarray, batch: int, per_class: int = 4, classes: int = 96):
        counted("BalancedRounds", batch=batch, per_class=per_class, classes=classes)
        self.batch, self.per_class = batch, per_class
        self.members = positions_by_class(labels)
        together = classes_in(batch, per_class)
        self.classes = min(classes, len(self.members)) // together * together
        if not self.classes:
            raise UserError(
                f"sampler: a batch of {batch} with {per_class} images a class needs {together} classes; a round has "
                f"{min(classes, len(self.members))}."
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
