"""Generalised-mean pooling of maps that may be negative, as TensorFlow Similarity has it."""

import torch
from torch import nn

from recheck.errors import UserError, nearest

MATHS = ("fixed", "legacy")


class ShiftedGeM(nn.Module):
    """From maps x (batch, channels, height, width) to features (batch, channels),

        y = (mean (x − m + 1)^p)^(1/p) + m − 1,

    with m the smallest value of that image and channel, so that there are no roots of negative numbers. With p = 1 it
    is the global average, with large p the maximum.

    ``maths: legacy`` computes it as it is written, and float32 then rounds away what of x is much smaller than 1;
    ``fixed`` is the same formula by way of log(1 + u) and exp(u) − 1, which keeps it.
    """

    def __init__(self, p: float = 3.0, maths: str = "fixed"):
        super().__init__()
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p < torch.inf:
            raise UserError(f"'p' of the pooling 'ShiftedGeM' must be a number above 0, not {p!r}.")
        if maths not in MATHS:
            raise UserError(f"'maths' of the pooling 'ShiftedGeM' can't be {maths!r}: {nearest(str(maths), MATHS)}.")
        self.p, self.maths = p, maths

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        smallest = maps.amin(dim=(2, 3), keepdim=True)
        above, smallest = maps - smallest, smallest.flatten(1)
        if self.maths == "legacy":
            return (above + 1).pow(self.p).mean(dim=(2, 3)).pow(1 / self.p) + smallest - 1
        mean = torch.expm1(self.p * torch.log1p(above)).mean(dim=(2, 3))
        return smallest + torch.expm1(torch.log1p(mean) / self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, maths={self.maths}"
