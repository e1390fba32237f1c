"""The multi-similarity loss with built-in mining."""

import torch

from recheck.errors import UserError
from recheck.methods.losses.arguments import checked_number
from recheck.methods.losses.tfsim.log_sum_exp import log_sum_exp
from recheck.methods.losses.tfsim.masked import masked_max, masked_min
from recheck.methods.losses.tfsim.per_anchor import Pairs, PerAnchorLoss


class MinedMultiSimilarityLoss(PerAnchorLoss):
    """For an anchor with cosine distances d, the loss is

        log(1 + Σ_p exp(α z_p)) / α + log(1 + Σ_n exp(−β z_n)) / β,   z = d + lmda − center,

    over the positives p farther than (nearest negative) − ε and the negatives n nearer than (farthest positive) + ε.
    It is 0 if no positive or no negative of the anchor is kept; ``MultiSimilarityLoss`` of pytorch-metric-learning with
    its miner and ``base`` = lmda (center 1) then keeps the other term. The mining has no gradient.

    With ``maths: legacy``, z = d − lmda without a center, and each 1 is replaced by exp(largest exponent of the row),
    see ``log_sum_exp``. Its defaults were α 1, β 20, ε 0.2 and lmda 0.5.
    """

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 40.0,
        epsilon: float = 0.1,
        lmda: float = 0.5,
        center: float | None = None,
        maths: str = "fixed",
    ):
        super().__init__(maths)
        if maths == "legacy" and center is not None:
            raise UserError(
                "'center' of the loss 'MinedMultiSimilarityLoss' needs 'maths: fixed', found 'maths: legacy': remove "
                "one of them."
            )
        self.alpha = checked_number("alpha", alpha, self, above=0)
        self.beta = checked_number("beta", beta, self, above=0)
        self.epsilon = checked_number("epsilon", epsilon, self)
        lmda = checked_number("lmda", lmda, self)
        center = 1.0 if center is None else checked_number("center", center, self)
        self.shift = -lmda if maths == "legacy" else lmda - center

    def of_pairs(self, pairs: Pairs) -> torch.Tensor:
        distance, positive, negative = pairs
        mining = distance.detach()
        nearest_negative = masked_min(mining, negative).value[:, None]
        farthest_positive = masked_max(mining, positive).value[:, None]
        positive = positive & (mining > nearest_negative - self.epsilon)
        negative = negative & (mining < farthest_positive + self.epsilon)
        attract = log_sum_exp(self.alpha * (distance + self.shift), positive, self.maths) / self.alpha
        repel = log_sum_exp(-self.beta * (distance + self.shift), negative, self.maths) / self.beta
        return (attract + repel).where(positive.any(dim=1) & negative.any(dim=1), 0)
