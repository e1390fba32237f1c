"""Batches of two halves, each from a single super-class, so that negatives are hard."""

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.classes import choose, classes_in, counted, positions_by_class


class Hierarchical:
    """Pairs of half-batches from two different super-classes.

    Super-class s with N_s of the N images has H_s = round(2 · batches · N_s/N) half-batches. Its classes come from
    consecutive shuffled passes over all of them. ``batch``/2/``per_class`` consecutive classes form a half-batch, with
    ``per_class`` images each (with replacement only if a class has fewer). Half-batches are paired round robin
    (``paired``). Some half-batches of a very large super-class may find no partner, which gives fewer batches than
    ``batches``. The batches are shuffled, and at most ``cap`` are kept.

    The original code has one protocol that rebuilds all batches in each epoch and one that "reshuffles". Here every
    pass draws everything again, because a pass depends only on its generator.
    """

    def __init__(
        self,
        labels: np.ndarray,
        super_labels: np.ndarray,
        batch: int,
        batches: int,
        per_class: int = 4,
        cap: int | None = None,
    ):
        most = {} if cap is None else {"cap": cap}
        counted("Hierarchical", batch=batch, batches=batches, per_class=per_class, **most)
        if batch % 2:
            raise UserError(f"'sampler.batch' must be even, found {batch}.")
        self.per_class, self.cap = per_class, cap
        self.together = classes_in(batch // 2, per_class)
        groups = positions_by_class(super_labels)
        if len(groups) < 2:
            raise UserError(
                "The sampler 'Hierarchical' needs at least two super-classes, found one: choose another sampler."
            )
        labels = np.asarray(labels)
        self.members = [[group[of_class] for of_class in positions_by_class(labels[group])] for group in groups]
        self.halves = [round(len(group) / len(labels) * batches * 2) for group in groups]

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        halves = [
            self._halves(members, count, generator) for members, count in zip(self.members, self.halves, strict=True)
        ]
        pairs = paired(self.halves)
        batches = [halves[first].pop() + halves[second].pop() for first, second in pairs]
        return [batches[number] for number in generator.permutation(len(batches))][: self.cap]

    def _halves(self, members: list[np.ndarray], count: int, generator: np.random.RandomState) -> list[list[int]]:
        wanted = count * self.together
        passes = [generator.permutation(len(members)) for _ in range(-(-wanted // len(members)))]
        order = np.concatenate(passes)[:wanted].reshape(count, self.together) if count else []
        return [
            [position for number in half for position in choose(members[number], self.per_class, generator)]
            for half in order
        ]


def paired(counts: list[int]) -> list[tuple[int, int]]:
    """Pairs of super-classes: each in turn meets every other one once, while both have half-batches left."""
    left, pairs = list(counts), []
    while sum(count > 0 for count in left) > 1:
        for first in range(len(left)):
            for second in range(len(left)):
                if first != second and left[first] > 0 and left[second] > 0:
                    left[first] -= 1
                    left[second] -= 1
                    pairs.append((first, second))
    return pairs
