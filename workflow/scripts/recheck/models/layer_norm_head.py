"""A head that standardises each image's features first."""

import torch
from torch import nn
from torch.nn.functional import layer_norm

from recheck.models.unit_length import unit_length


class LayerNormLinear(nn.Linear):
    """Layer norm without scale and shift, one linear layer with bias (PyTorch's initialisation), length 1."""

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return unit_length(super().forward(layer_norm(features, features.shape[-1:])))
