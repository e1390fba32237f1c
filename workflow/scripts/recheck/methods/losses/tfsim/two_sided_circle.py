"""The circle loss with a sum for each side of its own."""

import torch

from recheck.methods.losses.arguments import checked_number
from recheck.methods.losses.tfsim.log_sum_exp import log_sum_exp
from recheck.methods.losses.tfsim.per_anchor import Pairs, PerAnchorLoss


class TwoSidedCircleLoss(PerAnchorLoss):
    """For an anchor with cosine distances d_p to its positives and d_n to its negatives

        log(1 + Σ_p exp(−γ a_p (m − d_p))) + log(1 + Σ_n exp(γ a_n (1 − m − d_n))),
        a_p = max(0, m + d_p),  a_n = max(0, 1 + m − d_n),

    and 0 for an anchor without positives or without negatives. ``CircleLoss`` of pytorch-metric-learning is another
    one: softplus of the sum of both log-sum-exps, and no gradient through the weights a. ``maths: legacy`` has
    exp(largest exponent of the row) in place of each 1, see ``log_sum_exp``.
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
