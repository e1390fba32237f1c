"""Regulariser that keeps the mean similarity of a batch near a target."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.methods.losses.arguments import checked_number


class SimilarityRegulariser(nn.Module):
    """(mean of S − target)², with the mean over all n² cosine similarities, including the diagonal.

    This mean equals the squared length of the mean direction, ‖Σ_i u_i / n‖².
    """

    def __init__(self, target: float):
        super().__init__()
        self.target = checked_number("target", target, self)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return ((normalize(embeddings).mean(dim=0) ** 2).sum() - self.target) ** 2


class WithSimilarityRegulariser(nn.Module):
    """base_weight · loss + weight · (mean of S − target)², for any ``loss``, with or without a miner."""

    def __init__(self, loss: nn.Module, weight: float, target: float, base_weight: float = 1.0):
        super().__init__()
        self.loss, self.regulariser = loss, SimilarityRegulariser(target)
        self.weight = checked_number("weight", weight, self)
        self.base_weight = checked_number("base_weight", base_weight, self)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, *mined: Any) -> torch.Tensor:
        return self.base_weight * self.loss(embeddings, labels, *mined) + self.weight * self.regulariser(embeddings)
