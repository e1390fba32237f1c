"""Global pooling: from a feature map, (images, channels, height, width), to one number per channel."""

from typing import Any

import torch
from torch import nn

from recheck.models.precision import at_least_float32
from recheck.parts import build


class Average(nn.Module):
    """Mean over all positions."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.mean(dim=(2, 3))


class Max(nn.Module):
    """Maximum over all positions."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.amax(dim=(2, 3))


class AveragePlusMax(nn.Module):
    """Mean plus maximum over all positions."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.mean(dim=(2, 3)) + features.amax(dim=(2, 3))


class GeM(nn.Module):
    """Generalised mean, (mean of x^p)^(1/p), of features clamped below at ``floor``; p is not learned.

    Half-precision features are converted to float32 first: in float16 the power of a small feature is 0, where the root
    has an infinite slope.
    """

    def __init__(self, p: float = 3.0, floor: float = 1e-6):
        super().__init__()
        self.p, self.floor = p, floor

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return at_least_float32(features).clamp(min=self.floor).pow(self.p).mean(dim=(2, 3)).pow(1 / self.p)


def build_pooling(spec: dict[str, Any]) -> nn.Module:
    return build(spec, "pooling")
