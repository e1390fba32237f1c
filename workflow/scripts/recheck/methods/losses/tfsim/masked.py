"""Largest and smallest entries of rows, some of whose entries do not take part.

A row without any entry that takes part has an extreme too: a little beyond all of its entries, at place 0. That is
how the TensorFlow Similarity library defines it, and what its losses make of an anchor without positives follows.
"""

from typing import NamedTuple

import torch

BEYOND = 1e-6


class Extreme(NamedTuple):
    """The value and the column of each row's extreme entry, (rows,) each."""

    value: torch.Tensor
    place: torch.Tensor


def masked_max(values: torch.Tensor, mask: torch.Tensor) -> Extreme:
    """The largest entry of each row where ``mask`` is true, the first one if there are several.

    Of an empty row it is (its smallest entry) − 1e-6 at place 0. Gradients are shared among equal entries.
    """
    lowest = values.amin(dim=1, keepdim=True) - BEYOND
    place = values.masked_fill(~mask, -torch.inf).argmax(dim=1)
    return Extreme(torch.where(mask, values, lowest).amax(dim=1), place)


def masked_min(values: torch.Tensor, mask: torch.Tensor) -> Extreme:
    """The smallest entry of each row where ``mask`` is true; of an empty row (its largest entry) + 1e-6 at place 0."""
    smallest = masked_max(-values, mask)
    return Extreme(-smallest.value, smallest.place)
