"""Drawing the passes of a sampler."""

from collections.abc import Callable
from typing import Any

import numpy as np

from recheck.blame import user_code


def draw_pass(sampler: Any, number: int, generator_of: Callable[[int], np.random.RandomState]) -> list[list[int]]:
    """Batches of pass ``number``; ``generator_of(n)`` is the generator of pass n.

    Most samplers only need the generator of this pass. A sampler that carries images over to the next pass defines its
    own ``draw_pass``, and uses the generators of earlier passes to find out which images are left over.
    """
    with user_code("sampler", sampler):
        if hasattr(sampler, "draw_pass"):
            return sampler.draw_pass(number, generator_of)
        return sampler.draw(generator_of(number))
