"""From a map of features, (batch, channels, height, width), to one value a channel, (batch, channels)."""

import torch
from torch import nn


class Average(nn.Module):
    """The mean over all places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


class Max(nn.Module):
    """The largest value of each channel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax((2, 3))
