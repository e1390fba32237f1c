"""Generalised-mean pooling of feature maps that may be negative, as in TensorFlow Similarity."""

import torch
from torch import nn

from recheck.errors import UserError, nearest

MATHS = ("fixed", "legacy")


class ShiftedGeM(nn.Module):
    """Maps feature maps x (batch, channels, height, width) to features (batch, channels),

        y = (mean (x − m + 1)^p)^(1/p) + m − 1,

    where m is the smallest value of the image in that channel, so that no root of a negative number occurs. p = 1 gives
    the global average, and large p approaches the maximum.

    ``maths: legacy`` computes the formula as written, so float32 loses digits of values x much smaller than 1.
    ``maths: fixed`` computes the same formula with log(1 + u) and exp(u) − 1, which keeps these digits.
    """

    def __init__(self, p: float = 3.0, maths: str = "fixed"):
        super().__init__()
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p < torch.inf:
            raise UserError(f"'p' of the pooling 'ShiftedGeM' must be a number above 0, found {p!r}.")
        if maths not in MATHS:
            hint = nearest(str(maths), MATHS)
            raise UserError(f"Unknown value {maths!r} for 'maths' of the pooling 'ShiftedGeM'; {hint}.")
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
