"""All images in random order."""

from collections.abc import Callable

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.batches import cut

LAST = ("drop", "rollover")


class Shuffled:
    """Every image once per pass, in random order.

    ``last`` says what happens to an incomplete last batch: ``drop`` discards it, ``rollover`` carries it over to the
    first batch of the next pass.
    """

    def __init__(self, labels: np.ndarray, batch: int, last: str = "drop"):
        if last not in LAST:
            raise UserError(f"'sampler.last' must be 'drop' or 'rollover', found {last!r}.")
        self.count, self.batch, self.last = len(labels), batch, last

    def draw(self, generator: np.random.RandomState) -> list[list[int]]:
        """Batches of a pass without images left over from the previous one."""
        return cut(generator.permutation(self.count).tolist(), self.batch)

    def draw_pass(self, number: int, generator_of: Callable[[int], np.random.RandomState]) -> list[list[int]]:
        """Batches that are completed in pass ``number``.

        With ``rollover`` all passes form one stream, which is cut into batches regardless of where passes end.
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
