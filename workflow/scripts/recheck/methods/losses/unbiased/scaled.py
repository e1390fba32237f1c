"""A loss times a constant, for optimisers that depend on the scale of gradients."""

from typing import Any

import torch
from torch import nn


class ScaledLoss(nn.Module):
    """factor · loss; with ``per_image``, also divided by the number of images in the batch."""

    def __init__(self, loss: nn.Module, factor: float = 1.0, per_image: bool = False):
        super().__init__()
        self.loss, self.factor, self.per_image = loss, factor, per_image

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, *mined: Any) -> torch.Tensor:
        factor = self.factor / len(labels) if self.per_image else self.factor
        return factor * self.loss(embeddings, labels, *mined)
