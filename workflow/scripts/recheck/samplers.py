"""The samplers of the papers, which choose the images of each batch, and ``Batches`` to use them in a ``DataLoader``.

    sampler = recheck.samplers.MPerClass(labels, batch=32, per_class=4, length=len(labels))
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=recheck.samplers.Batches(sampler, seed=0))
    for epoch in range(10):
        for images, targets in loader:  # 8 classes with 4 images each
            ...

``sampler.draw(numpy.random.RandomState(0))`` returns the batches of one pass, as lists of positions.

- *A Metric Learning Reality Check*: ``MPerClass``
- *Unbiased Evaluation*: ``BalancedClasses``, ``Episodes`` (for ``PrototypicalLoss``), ``Pairs`` (for ``NPairLoss`` and
  ``AngularPairLoss``), ``Shuffled``
- *Contextual Similarity Optimization*: ``BalancedRounds``, ``Hierarchical``, ``RandomClassGroups``
- TensorFlow Similarity: ``BalancedClasses``, ``Shuffled``
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch.utils.data import Sampler

from recheck.errors import UserError
from recheck.methods.samplers.balanced_classes import BalancedClasses
from recheck.methods.samplers.balanced_rounds import BalancedRounds
from recheck.methods.samplers.episodes import Episodes
from recheck.methods.samplers.hierarchical import Hierarchical
from recheck.methods.samplers.m_per_class import MPerClass
from recheck.methods.samplers.pairs import Pairs
from recheck.methods.samplers.passes import draw_pass
from recheck.methods.samplers.random_class_groups import RandomClassGroups
from recheck.methods.samplers.shuffled import Shuffled
from recheck.training.seeding import generator_of_pass

__all__ = [
    "BalancedClasses",
    "BalancedRounds",
    "Batches",
    "Episodes",
    "Hierarchical",
    "MPerClass",
    "Pairs",
    "RandomClassGroups",
    "Shuffled",
]


class Batches(Sampler[list[int]]):
    """``batch_sampler`` of a ``DataLoader``: each iteration yields the batches of the next pass of ``sampler``.

    A pass depends only on ``seed``, ``fold`` and its number; a workflow run with the same seed and fold draws the same
    batches. ``next_pass`` is the number of the next pass: store it with a checkpoint, and set it to resume.
    """

    def __init__(self, sampler: Any, seed: int = 0, fold: int = 0):
        if not hasattr(sampler, "draw") and not hasattr(sampler, "draw_pass"):
            raise UserError(
                f"'sampler' must be a sampler such as recheck.samplers.MPerClass, found {type(sampler).__name__}."
            )
        self.sampler, self.seed, self.fold, self.next_pass = sampler, seed, fold, 0

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.draw(self.next_pass)
        self.next_pass += 1
        return iter(batches)

    def __len__(self) -> int:
        """Number of batches in the next pass."""
        return len(self.draw(self.next_pass))

    def draw(self, number: int) -> list[list[int]]:
        """Batches of one pass, by its number."""
        return draw_pass(self.sampler, number, partial(generator_of_pass, self.seed, self.fold))
