"""NT-Xent as computed when the reality check was run."""

import torch
from pytorch_metric_learning.losses import NTXentLoss


class FlooredNTXentLoss(NTXentLoss):
    """Mean over positive pairs of −log(ratio + floor); NT-Xent itself is the mean of −log(ratio).

    In 2020, pytorch-metric-learning used a floor of 1e-20: a pair with −log(ratio) above about 46 counts as 46 and has
    almost no gradient. At a small temperature (2.4e-4 on SOP), a similarity gap of 0.011 is enough for that.
    """

    def __init__(self, floor: float, **kwargs):
        super().__init__(**kwargs)
        self.floor = floor

    def _compute_loss(self, pos_pairs, neg_pairs, indices_tuple):
        terms = super()._compute_loss(pos_pairs, neg_pairs, indices_tuple)
        pairs = terms["loss"]
        if pairs["reduction_type"] == "pos_pair":
            pairs["losses"] = -torch.log(torch.exp(-pairs["losses"]) + self.floor)
        return terms
