"""All images in random order."""

from collections.abc import Callable

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.batches import cut

LAST = ("drop", "rollover")


class Shuffled:
    """Every image once a pass, in random order.

    ``last`` says what becomes of the incomplete batch at the end: it is dropped, or carried into the next pass
    (``rollover``), whose first batch it begins.
    """

    def __init__(self, labels: np.ndarray, batch: int, last: str = "drop"):
        if last not in LAST:
            raise UserError(f"sampler: 'last' is 'drop' or 'rollover', not {last!r}.")
        self.count, self.batch, self.last = len(labels), batch, last

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        """A pass before which nothing was left over."""
        return cut(generator.permutation(self.count).tolist(), self.batch)

    def draw_pass(self, number: int, generator_of: Callable[[int], np.random.RandomState]) -> list[list[int]]:
        """The batches that are filled in pass ``number``, from the generators of passes alone.

        With ``rollover`` all passes are one stream, cut into batches wherever passes end.
        """
        if self.last == "drop":
            return self.draw(generator_of(number))
        before = number * self.count
        start = before - before % self.batch
        first = start // self.count
        stream = [
            position
            for earlier in range(first, number + 1)
            for position in generator_of(earlier).permutation(self.count).tolist()
        ]
        return cut(stream[start - first * self.count :], self.batch)
