"""Projectors: layers that are used in training only."""

import torch
from torch import nn

from recheck.models.norm import unit
from recheck.models.precision import at_least_float32, without_autocast


class LinearProjector(nn.Linear):
    """A linear layer without bias, then unit length: the loss sees its output, retrieval uses its input.

    The projector, rather than the embedding, can then overfit to the training classes. ``full_precision`` computes it
    outside the mixed precision of the forward pass.
    """

    def __init__(self, features: int, dim: int = 2048, full_precision: bool = False):
        super().__init__(features, dim, bias=False)
        self.dim, self.full_precision = dim, full_precision

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        if not self.full_precision:
            return self._projected(embeddings)
        with without_autocast(embeddings.device):
            return self._projected(at_least_float32(embeddings))

    def _projected(self, embeddings: torch.Tensor) -> torch.Tensor:
        return unit(super().forward(embeddings), 1e-12)
