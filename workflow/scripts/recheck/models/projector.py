"""Modules between the embedding and the loss that exist in training only: retrieval never sees their output."""

import torch
from torch import nn


class LinearProjector(nn.Module):
    """One linear layer without bias, then length 1: y = Wx / sqrt(sum (Wx)² + 1e-12)."""

    def __init__(self, features: int, dim: int):
        super().__init__()
        self.dim = dim
        self.linear = nn.Linear(features, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y / (y.square().sum(-1, keepdim=True) + 1e-12).sqrt()
