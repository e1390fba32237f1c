"""A layer that only training sees."""

import torch
from torch import nn

from recheck.models.norm import unit


class LinearProjector(nn.Linear):
    """The loss sees this layer's output, without bias and of length 1; retrieval uses what goes into it.

    What overfits to the training classes then lies behind the embedding instead of in it.
    """

    def __init__(self, features: int, dim: int = 2048):
        super().__init__(features, dim, bias=False)
        self.dim = dim

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return unit(super().forward(embeddings), 1e-12)
