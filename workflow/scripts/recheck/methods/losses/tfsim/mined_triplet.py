"""The triplet loss with one mined triplet per anchor."""

import torch
from torch.nn.functional import softplus

from recheck.errors import UserError
from recheck.methods.losses.arguments import checked_number, chosen
from recheck.methods.losses.tfsim.masked import Extreme, masked_max, masked_min
from recheck.methods.losses.tfsim.per_anchor import Pairs, PerAnchorLoss


class MinedTripletLoss(PerAnchorLoss):
    """max(0, d_p − d_n + margin), or log(1 + exp(d_p − d_n)) with ``soft_margin``, for one triplet per anchor.

    Distances are cosine distances. The positive is the farthest (``positive_mining: hard``) or the nearest (``easy``).
    The negative is the nearest (``negative_mining: hard``), the farthest (``easy``), or the nearest one that is farther
    than the farthest positive (``semi-hard``; if none exists, the farthest).

    ``incomplete_anchors`` is about anchors without positives or without negatives. With ``zero``, their loss is 0.
    With ``count``, as in both versions of the library, ``masked_max`` and ``masked_min`` supply the missing distance:
    an anchor without positives is pushed away from its negative as if it had a positive at distance 0.

    With ``maths: legacy``, an anchor without a semi-hard negative uses the distance (largest of the row) + 1e-6 and
    image 0 instead, whatever its class, and the soft margin is one log Σ exp(d_p − d_n) for the whole batch.
    """

    def __init__(
        self,
        positive_mining: str = "hard",
        negative_mining: str = "semi-hard",
        margin: float | None = None,
        soft_margin: bool = False,
        incomplete_anchors: str = "zero",
        maths: str = "fixed",
    ):
        super().__init__(maths)
        self.positive_mining = chosen("positive_mining", positive_mining, ("hard", "easy"), self)
        self.negative_mining = chosen("negative_mining", negative_mining, ("hard", "semi-hard", "easy"), self)
        if not isinstance(soft_margin, bool):
            raise UserError(
                f"'soft_margin' of the loss '{type(self).__name__}' must be true or false, found {soft_margin!r}."
            )
        if soft_margin and margin is not None:
            raise UserError(
                f"The loss '{type(self).__name__}' takes 'margin' or 'soft_margin', found both: remove one of them."
            )
        self.soft_margin = soft_margin
        self.margin = 1.0 if margin is None else checked_number("margin", margin, self)
        self.incomplete_anchors = chosen("incomplete_anchors", incomplete_anchors, ("zero", "count"), self)

    def of_pairs(self, pairs: Pairs) -> torch.Tensor:
        """Loss of each anchor; with a legacy soft margin, a single value for the batch, (1,)."""
        positive, negative = self._positive(pairs), self._negative(pairs)
        gap = positive.value - self._negative_distance(pairs, positive, negative)
        complete = pairs.positive.any(dim=1) & pairs.negative.any(dim=1)
        if self.incomplete_anchors == "count":
            complete = torch.ones_like(complete)
        if self.soft_margin and self.maths == "legacy":
            return gap[complete].logsumexp(dim=0, keepdim=True) if complete.any() else 0 * gap.sum()[None]
        loss = softplus(gap) if self.soft_margin else torch.relu(gap + self.margin)
        return loss.where(complete, 0)

    def _positive(self, pairs: Pairs) -> Extreme:
        find = masked_max if self.positive_mining == "hard" else masked_min
        return find(pairs.distance, pairs.positive)

    def _negative(self, pairs: Pairs) -> Extreme:
        if self.negative_mining == "hard":
            return masked_min(pairs.distance, pairs.negative)
        farthest = masked_max(pairs.distance, pairs.negative)
        if self.negative_mining == "easy":
            return farthest
        hardest_positive = masked_max(pairs.distance, pairs.positive).value[:, None]
        candidates = pairs.negative & (pairs.distance > hardest_positive)
        nearest = masked_min(pairs.distance, candidates)
        if self.maths == "legacy":
            return nearest
        exists = candidates.any(dim=1)
        return Extreme(*(one.where(exists, other) for one, other in zip(nearest, farthest, strict=True)))

    def _negative_distance(self, pairs: Pairs, positive: Extreme, negative: Extreme) -> torch.Tensor:
        """d_n of each triplet."""
        return negative.value
