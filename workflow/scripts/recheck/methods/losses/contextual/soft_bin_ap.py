"""Average precision from soft histograms of similarities."""

import torch
from torch import nn

from recheck.methods.losses.arguments import checked_count
from recheck.methods.losses.contextual.cosine import cosine_similarities, same_class


class SoftBinAPLoss(nn.Module):
    """1 − mean AP of a ranking into ``bins`` soft bins with centres from 1 down to −1.

    q_m(S) = relu(1 − |S − centre_m| / spacing). c_im is its sum over the batch, c⁺_im its sum over the positives of i
    (including i). The precision at bin m is the cumulative c⁺ over the cumulative c, and has weight
    c⁺_im / Σ_m c⁺_im.
    """

    def __init__(self, bins: int = 20):
        super().__init__()
        self.bins = checked_count("bins", bins, self, least=2)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores, same = cosine_similarities(embeddings), same_class(labels)
        centres = torch.linspace(1, -1, self.bins, dtype=scores.dtype, device=scores.device)
        share = torch.relu(1 - (self.bins - 1) / 2 * (scores[:, :, None] - centres).abs())
        count = share.sum(dim=1)
        positive = (share * same[:, :, None]).sum(dim=1)
        precision = positive.cumsum(dim=1) / (1e-16 + count.cumsum(dim=1))
        weight = positive / positive.sum(dim=1, keepdim=True)
        return 1 - (precision * weight).sum(dim=1).mean()
