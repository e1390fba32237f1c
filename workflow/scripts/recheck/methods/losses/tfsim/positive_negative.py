"""The PN loss: a triplet loss that measures the negative from both ends of the positive pair."""

import torch

from recheck.methods.losses.tfsim.masked import Extreme
from recheck.methods.losses.tfsim.mined_triplet import MinedTripletLoss
from recheck.methods.losses.tfsim.per_anchor import Pairs


class PositiveNegativeLoss(MinedTripletLoss):
    """``MinedTripletLoss`` with d_n = min(d(anchor, negative), d(positive, negative)); the mining is the same.

    Of several positives or negatives at the same distance, the first one in the batch is used.
    """

    def _negative_distance(self, pairs: Pairs, positive: Extreme, negative: Extreme) -> torch.Tensor:
        return torch.minimum(negative.value, pairs.distance[positive.place, negative.place])
