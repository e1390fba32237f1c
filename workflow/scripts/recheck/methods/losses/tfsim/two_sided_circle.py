"""The circle loss with separate sums for positives and negatives."""

import torch

from recheck.methods.losses.arguments import checked_number
from recheck.methods.losses.tfsim.log_sum_exp import log_sum_exp
from recheck.methods.losses.tfsim.per_anchor import Pairs, PerAnchorLoss


class TwoSidedCircleLoss(PerAnchorLoss):
    """For an anchor with cosine distances d_p to its positives and d_n to its negatives, the loss is

        log(1 + Σ_p exp(−γ a_p (m − d_p))) + log(1 + Σ_n exp(γ a_n (1 − m − d_n))),
        a_p = max(0, m + d_p),  a_n = max(0, 1 + m − d_n).

    It is 0 for an anchor without positives or without negatives. ``CircleLoss`` of pytorch-metric-learning differs: it
    is the softplus of the sum of both log-sum-exps, without gradient through the weights a. With ``maths: legacy``,
    each 1 is replaced by exp(largest exponent of the row), see ``log_sum_exp``.
    """

    def __init__(self, gamma: float = 80.0, margin: float = 0.4, maths: str = "fixed"):
        super().__init__(maths)
        self.gamma = checked_number("gamma", gamma, self, above=0)
        self.margin = checked_number("margin", margin, self)

    def of_pairs(self, pairs: Pairs) -> torch.Tensor:
        distance, positive, negative = pairs
        positive_weight = torch.relu((self.margin + distance) * positive)
        negative_weight = torch.relu((1 + self.margin - distance) * negative)
        attract = -self.gamma * positive_weight * (self.margin - distance)
        repel = self.gamma * negative_weight * (1 - self.margin - distance)
        loss = log_sum_exp(attract, positive, self.maths) + log_sum_exp(repel, negative, self.maths)
        return loss.where(positive.any(dim=1) & negative.any(dim=1), 0)
