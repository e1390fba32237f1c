"""The Euclidean distance as libraries of 2020 computed it."""

import torch
from pytorch_metric_learning.distances import LpDistance


class ShiftedLpDistance(LpDistance):
    """‖x − y + shift‖: ``shift`` is added to every coordinate of the difference before the norm.

    Libraries of 2020 did so (``torch.nn.PairwiseDistance``, 1e-6) to keep the gradient of equal points finite; it
    changes a triplet loss in the fifth digit. The distance from x to y is no longer quite that from y to x.
    """

    def __init__(self, shift: float, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift

    def compute_mat(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        # By differences: the faster way through products would lose the shift to rounding.
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(query_emb + self.shift, ref_emb, p=self.p, compute_mode=mode)

    def pairwise_distance(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pairwise_distance(query_emb, ref_emb, p=self.p, eps=self.shift)
