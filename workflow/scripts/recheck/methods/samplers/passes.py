"""From a sampler to its passes."""

from collections.abc import Callable
from typing import Any

import numpy as np


def draw_pass(sampler: Any, number: int, generator_of: Callable[[int], np.random.RandomState]) -> list[list[int]]:
    """The batches of a pass by its number; ``generator_of(n)`` is the generator of pass n.

    Most samplers need that of the pass alone. One that carries images over from pass to pass has a ``draw_pass`` of its
    own, and finds out from the generators of the passes before what they have left.
    """
    if hasattr(sampler, "draw_pass"):
        return sampler.draw_pass(number, generator_of)
    return sampler.draw(generator_of(number))
