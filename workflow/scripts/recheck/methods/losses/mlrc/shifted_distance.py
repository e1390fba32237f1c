"""The Euclidean distance as libraries computed it in 2020."""

import torch
from pytorch_metric_learning.distances import LpDistance


class ShiftedLpDistance(LpDistance):
    """‖x − y + shift‖: ``shift`` is added to every coordinate of the difference before the norm.

    Libraries did this in 2020 (``torch.nn.PairwiseDistance``, 1e-6) to keep the gradient of equal points finite. It
    changes the fifth digit of a triplet loss, and makes the distance slightly asymmetric.
    """

    def __init__(self, shift: float, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift

    def compute_mat(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        # Use differences: the faster computation by products would lose the shift to rounding.
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(query_emb + self.shift, ref_emb, p=self.p, compute_mode=mode)

    def pairwise_distance(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pairwise_distance(query_emb, ref_emb, p=self.p, eps=self.shift)
