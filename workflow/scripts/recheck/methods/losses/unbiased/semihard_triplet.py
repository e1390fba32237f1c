"""The triplet loss with one semi-hard negative per positive pair (FaceNet)."""

import torch
from torch import nn

from recheck.methods.geometry import positive_pairs, same_class, squared_distances


class SemiHardTripletLoss(nn.Module):
    """Mean over ordered positive pairs (i, j) of max(0, margin + D_ij − n_ij), where D are squared distances.

        n_ij = min {D_ik : y_k ≠ y_i, D_ik > D_ij}, or max {D_ik : y_k ≠ y_i} if there is no such k.

    The mean is over all pairs, including those with loss 0; a pair without any negative in the batch counts as 0.
    pytorch-metric-learning's semi-hard miner differs: it uses every semi-hard negative and no farther ones, and
    averages over active triplets only.
    """

    def __init__(self, margin: float = 1.0):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        squared = squared_distances(embeddings, embeddings)
        anchor, positive = positive_pairs(labels).nonzero(as_tuple=True)
        negative, exists = self._negatives(squared.detach(), ~same_class(labels), anchor, positive)
        terms = torch.relu(self.margin + squared[anchor, positive] - squared[anchor, negative])
        return (terms * exists).sum() / max(1, len(anchor))

    def _negatives(
        self, squared: torch.Tensor, different: torch.Tensor, anchor: torch.Tensor, positive: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Negative of each pair, and whether the pair has one."""
        to_all, different = squared[anchor], different[anchor]
        semihard = different & (to_all > squared[anchor, positive][:, None])
        nearest = to_all.masked_fill(~semihard, torch.inf).argmin(dim=1)
        farthest = to_all.masked_fill(~different, -torch.inf).argmax(dim=1)
        return torch.where(semihard.any(dim=1), nearest, farthest), different.any(dim=1)
