"""Contrastive loss on cosine similarities, and its weighted mean with another loss."""

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.losses import ContrastiveLoss
from torch import nn

from recheck.methods.losses.arguments import checked_number


def cosine_contrastive(pos_margin: float, neg_margin: float, loss: nn.Module) -> ContrastiveLoss:
    """Mean of relu(pos_margin − S) over positive pairs, plus mean of relu(S − neg_margin) over negative pairs.

    Each mean is over the nonzero terms only, and 0 if there are none. ``loss`` is the loss that uses this one; errors
    name it.
    """
    for key, margin in (("pos_margin", pos_margin), ("neg_margin", neg_margin)):
        checked_number(key, margin, loss)
    return ContrastiveLoss(pos_margin=pos_margin, neg_margin=neg_margin, distance=CosineSimilarity())


class WithContrastive(nn.Module):
    """(1 − weight) · loss + weight · contrastive."""

    def __init__(self, loss: nn.Module, weight: float = 0.5, pos_margin: float = 0.9, neg_margin: float = 0.6):
        super().__init__()
        self.loss, self.contrastive = loss, cosine_contrastive(pos_margin, neg_margin, self)
        self.weight = checked_number("weight", weight, self)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (1 - self.weight) * self.loss(embeddings, labels) + self.weight * self.contrastive(embeddings, labels)
