"""Masked maximum and minimum of rows.

If the mask of a row is all false, the result lies slightly beyond all of its entries, at column 0. TensorFlow
Similarity defines it this way, and this determines the loss of an anchor without positives.
"""

from typing import NamedTuple

import torch

BEYOND = 1e-6


class Extreme(NamedTuple):
    """Value and column of each row's extreme entry, (rows,) each."""

    value: torch.Tensor
    place: torch.Tensor


def masked_max(values: torch.Tensor, mask: torch.Tensor) -> Extreme:
    """Largest entry of each row where ``mask`` is true; the first one if several are equal.

    If the mask is all false, it is (the row's smallest entry) − 1e-6, at column 0. Equal entries share the gradient.
    """
    lowest = values.amin(dim=1, keepdim=True) - BEYOND
    place = values.masked_fill(~mask, -torch.inf).argmax(dim=1)
    return Extreme(torch.where(mask, values, lowest).amax(dim=1), place)


def masked_min(values: torch.Tensor, mask: torch.Tensor) -> Extreme:
    """Smallest entry of each row where ``mask`` is true; (the row's largest entry) + 1e-6, at column 0, if none is."""
    smallest = masked_max(-values, mask)
    return Extreme(-smallest.value, smallest.place)
