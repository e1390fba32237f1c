"""Draw negatives so that all distances are about equally frequent."""

import torch
from torch import nn

from recheck.methods.geometry import distances, positive_pairs, same_class


class DistanceWeightedSampler(nn.Module):
    """Triplets for embeddings of length 1: every positive of every anchor, each with one randomly drawn negative.

    In n dimensions, a random pair on the sphere is at distance d with density ∝ d^(n−2) (1 − d²/4)^((n−3)/2). Negatives
    are drawn with replacement, with weights inversely proportional to this density; a distance below ``cutoff`` counts
    as ``cutoff``. Negatives at ``nonzero_loss_cutoff`` or beyond have no loss and are not drawn. An anchor without any
    candidate draws uniformly from all rows of other classes. pytorch-metric-learning's DistanceWeightedMiner has the
    same weights but draws a different number of triplets. Draws use torch's global generator.
    """

    def __init__(self, cutoff: float = 0.5, nonzero_loss_cutoff: float = 1.4):
        super().__init__()
        self.cutoff, self.nonzero_loss_cutoff = cutoff, nonzero_loss_cutoff

    @torch.no_grad()
    def forward(
        self, embeddings: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        positives = positive_pairs(labels)
        has_both = positives.any(dim=1) & (~same_class(labels)).any(dim=1)
        anchor, positive = (positives & has_both[:, None]).nonzero(as_tuple=True)
        if not len(anchor):
            return anchor, positive, positive
        anchors, row, counts = anchor.unique_consecutive(return_inverse=True, return_counts=True)
        place = torch.arange(len(anchor), device=anchor.device) - (counts.cumsum(0) - counts)[row]
        drawn = torch.multinomial(self.probabilities(embeddings, labels)[anchors], int(counts.max()), replacement=True)
        return anchor, positive, drawn[row, place]

    @torch.no_grad()
    def probabilities(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(batch, batch): probability that row i draws row j. Rows sum to 1, or to 0 if no other class exists."""
        dimensions = embeddings.shape[1]
        distance = distances(embeddings, embeddings).clamp_min(self.cutoff).fill_diagonal_(1)
        # Opposite points would have infinite weight. They are beyond the second cutoff, but must not be the maximum.
        remaining = (1 - distance.square() / 4).clamp_min(torch.finfo(distance.dtype).eps)
        log_weights = (2 - dimensions) * distance.log() - (dimensions - 3) / 2 * remaining.log()
        weights = torch.exp(log_weights - log_weights.max())
        other = ~same_class(labels)
        weights = weights * (other & (distance < self.nonzero_loss_cutoff))
        total = weights.sum(dim=1, keepdim=True)
        uniform = other.to(weights.dtype) / other.sum(dim=1, keepdim=True).clamp_min(1)
        return torch.where(total > 0, weights / total.clamp_min(torch.finfo(weights.dtype).tiny), uniform)
