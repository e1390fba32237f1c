"""The ranked list loss."""

import torch
from torch import nn

from recheck.errors import UserError
from recheck.methods.geometry import distances, same_class


class UnbiasedRankedListLoss(nn.Module):
    """Pulls positives within alpha − margin and pushes negatives beyond alpha, the nearest ones most.

        P_i = {j : y_j = y_i, d_ij > alpha − margin},    N_i = {j : y_j ≠ y_i, d_ij < alpha},
        L_i = Σ_{P_i} (d_ij − (alpha − margin)) / max(1, |P_i|) + Σ_{N_i} w_ij (alpha − d_ij),
        w_i = softmax over N_i of temperature · (alpha − d_ij),

    and L = Σ L_i / max(1, #{L_i > 0}). Gradients flow through the weights too.
    """

    def __init__(self, alpha: float = 1.2, margin: float = 0.4, temperature: float = 10.0):
        super().__init__()
        if not 0 <= margin <= alpha:
            raise UserError(
                f"'margin' of the loss 'UnbiasedRankedListLoss' must be from 0 to 'alpha' ({alpha}), found {margin}."
            )
        self.alpha, self.margin, self.temperature = alpha, margin, temperature

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        of_anchors = self.of_anchors(embeddings, labels)
        return of_anchors.sum() / (of_anchors > 0).sum().clamp_min(1)

    def of_anchors(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        matrix = distances(embeddings, embeddings)
        same = same_class(labels)
        too_far = same & (matrix > self.alpha - self.margin)
        too_near = ~same & (matrix < self.alpha)
        pulled = ((matrix - (self.alpha - self.margin)) * too_far).sum(dim=1) / too_far.sum(dim=1).clamp_min(1)
        inside = self.alpha - matrix
        lowest = torch.finfo(matrix.dtype).min
        weights = torch.softmax((self.temperature * inside).masked_fill(~too_near, lowest), dim=1)
        return pulled + (weights * inside * too_near).sum(dim=1)
