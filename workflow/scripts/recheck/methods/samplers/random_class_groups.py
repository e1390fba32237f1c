"""Groups of classes that share several batches of a pass."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import choose, classes_in, counted, positions_by_class


class RandomClassGroups:
    """Shuffle the classes once, cut them into groups that fill a batch, and go through the groups ``tries`` times.

    Each time, a class contributes ``per_class`` images (with replacement only if it has fewer). Classes that do not
    fill a group are not used in this pass. Only the first ``cap`` batches are drawn; then batches are shuffled.
    """

    def __init__(self, labels: np.ndarray, batch: int, tries: int, per_class: int = 4, cap: int | None = None):
        most = {} if cap is None else {"cap": cap}
        counted("RandomClassGroups", batch=batch, tries=tries, per_class=per_class, **most)
        self.per_class, self.tries, self.cap = per_class, tries, cap
        self.members = positions_by_class(labels)
        self.together = classes_in(batch, per_class)
        if len(self.members) < self.together:
            raise UserError(
                f"'sampler.batch' ({batch}) with {per_class} images per class needs {self.together} classes, but the "
                f"training set has only {len(self.members)}: lower 'sampler.batch'."
            )

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        count = len(self.members) // self.together
        groups = generator.permutation(len(self.members))[: count * self.together].reshape(count, self.together)
        total = count * self.tries
        batches = [
            [position for number in group for position in choose(self.members[number], self.per_class, generator)]
            for group in [groups[turn % count] for turn in range(total if self.cap is None else min(total, self.cap))]
        ]
        return [batches[number] for number in generator.permutation(len(batches))]
