"""Smooth average precision: ranks are counted with a soft step."""

import torch
from torch import nn

from recheck.methods.losses.arguments import checked_number
from recheck.methods.losses.contextual.cosine import cosine_similarities, same_class

LIMIT = 50.0


def soft_step(difference: torch.Tensor, temperature: float) -> torch.Tensor:
    """G(D) = 1/(1 + exp(clip(−D/temperature, −50, 50)))."""
    return torch.sigmoid((difference / temperature).clamp(-LIMIT, LIMIT))


class ContextualSmoothAPLoss(nn.Module):
    """1 − mean AP, with ranks from the soft step G.

    For query i and positive j (the query itself counts as a positive), with D_l = S_il − S_ij:

        rank⁺_ij = 1 + Σ_{l≠j, l positive} G(D_l),  rank_ij = rank⁺_ij + Σ_{l negative} G(D_l),
        AP_i = mean over j of rank⁺_ij / rank_ij.
    """

    def __init__(self, temperature: float = 0.01):
        super().__init__()
        self.temperature = checked_number("temperature", temperature, self, above=0)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return 1 - self.average_precision(embeddings, labels).mean()

    def average_precision(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """AP of every query."""
        scores, same = cosine_similarities(embeddings), same_class(labels)
        query, positive = same.nonzero(as_tuple=True)
        difference = scores[query] - scores[query, positive][:, None]
        places = torch.arange(len(labels), device=labels.device)
        rivals = same[query] & (places != positive[:, None])
        above = torch.where(rivals, self.of_positives(difference), 0).sum(dim=1)
        wrong = torch.where(same[query], 0, self.of_negatives(difference)).sum(dim=1)
        share = (1 + above) / (1 + above + wrong)
        return torch.zeros_like(scores[0]).index_add(0, query, share) / same.sum(dim=1)

    def of_positives(self, difference: torch.Tensor) -> torch.Tensor:
        return soft_step(difference, self.temperature)

    def of_negatives(self, difference: torch.Tensor) -> torch.Tensor:
        return soft_step(difference, self.temperature)
