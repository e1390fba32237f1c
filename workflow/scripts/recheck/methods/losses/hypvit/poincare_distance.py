"""Hyperbolic distance in the Poincaré ball."""

import math

import torch
from pytorch_metric_learning.distances import BaseDistance


class PoincareDistance(BaseDistance):
    """Distance of points in the Poincaré ball of curvature −c, for any loss of pytorch-metric-learning.

    d(x, y) = (2/√c) arsinh(√c |x − y| / √((1 − c|x|²)(1 − c|y|²))). This equals (2/√c) artanh(√c |(−x) ⊕ y|) with
    Möbius addition ⊕, and keeps its digits for close points. For c → 0 it becomes 2 |x − y|.
    """

    def __init__(self, curvature: float, **kwargs):
        super().__init__(normalize_embeddings=False, is_inverted=False, **kwargs)
        if not 0 < curvature < math.inf:
            raise ValueError(f"'curvature' must be a number above 0, found {curvature!r}")
        self.curvature = curvature

    def compute_mat(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        straight = torch.cdist(query_emb, ref_emb, compute_mode="donot_use_mm_for_euclid_dist")
        return self._curved(straight, self._room(query_emb)[:, None] * self._room(ref_emb)[None])

    def pairwise_distance(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
        straight = torch.linalg.vector_norm(query_emb - ref_emb, dim=-1)
        return self._curved(straight, self._room(query_emb) * self._room(ref_emb))

    def _room(self, points: torch.Tensor) -> torch.Tensor:
        """1 − c|x|², which is 1 at the centre and 0 at the boundary."""
        return 1 - self.curvature * points.square().sum(dim=-1)

    def _curved(self, straight: torch.Tensor, rooms: torch.Tensor) -> torch.Tensor:
        root = math.sqrt(self.curvature)
        return (2 / root) * torch.asinh(root * straight / rooms.sqrt())
