"""Projectors: layers that are used in training only."""

import torch
from torch import nn

from recheck.models.norm import unit


class LinearProjector(nn.Linear):
    """A linear layer without bias, then unit length: the loss sees its output, retrieval uses its input.

    The projector can then overfit to the training classes instead of the embedding.
    """

    def __init__(self, features: int, dim: int = 2048):
        super().__init__(features, dim, bias=False)
        self.dim = dim

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return unit(super().forward(embeddings), 1e-12)
