"""Contextual similarity: how many neighbours two images of a batch have in common."""

import math
from typing import NamedTuple

import torch

from recheck.errors import UserError, nearest
from recheck.methods.losses.contextual.min_product import min_product
from recheck.methods.losses.contextual.step_functions import heuristic_step, sigmoid_step

DEFAULT_EPS = 0.05
SWITCHES = {
    "step": ("heuristic", "sigmoid"),
    "intersection": ("both", "neighbours", "none"),
    "conjunction": ("product", "min"),
    "expansion": (True, False),
    "detach_counts": (True, False),
    "detach_expansion": (False, True),
}
"""Switches and their values; the published choice comes first."""

VARIANTS = {
    0: {},
    1: {"intersection": "none", "expansion": False, "eps": 1e-5},
    2: {"intersection": "none", "expansion": False, "eps": 1e-5, "step": "sigmoid"},
    3: {"expansion": False},
    4: {"expansion": False, "intersection": "neighbours"},
    5: {"conjunction": "min"},
    6: {"step": "sigmoid"},
    7: {"intersection": "neighbours"},
    8: {"intersection": "none"},
    9: {"detach_expansion": True},
    10: {"detach_counts": False},
}
"""Number of a published ablation → the settings that it changes."""


class Context(NamedTuple):
    """Intermediate results from similarities to contextual similarity; None for a step that a variant skips."""

    nearest: torch.Tensor
    """(n, k), t_i(1) … t_i(k): the k smallest distances of each row, the point itself first."""
    neighbours: torch.Tensor
    """N: whether j is in the k-neighbourhood of i."""
    overlap: torch.Tensor
    """W̃: share of common neighbours."""
    close: torch.Tensor | None
    """h: whether j is in the k/2-neighbourhood of i."""
    reciprocal: torch.Tensor | None
    """R: whether i and j are in each other's k/2-neighbourhood."""
    similarity: torch.Tensor
    """W: contextual similarity."""


class ContextualSimilarity:
    """W(S): maps cosine similarities, (n, n), to contextual similarities between 0 and 1.

    With d = max(0, 2 − 2S) and t_i(m) the m-th smallest entry of row i of d (counting the point itself; a constant),

        N_ij  = step(t_i(k) + eps − d_ij),  N̄ = 1 − N            neighbours
        C⁺_ij = Σ_p N_ip N_jp / |N_i|,  C⁻ likewise for N̄       intersection; |·| is a constant
        W̃_ij  = ½ (C⁺_ij + C⁻_ij) N_ij
        h_ij  = step(t_i(k//2) + eps − d_ij),  R_ij = h_ij h_ji
        W̄     = R W̃ / |R_i|,  W = ½ (W̄ + W̄ᵀ)                    expansion; |·| is not a constant

    Gradients flow through every factor that is not a constant. If every point is a neighbour of i, C⁻_ij is 1.

    Switches, with the published choice first (``SWITCHES``; ``VARIANTS`` lists the published ablations):

    - ``step``: ``heuristic`` is 0 or 1 with a slope of 10 everywhere, ``sigmoid`` is σ(·/``temperature``);
    - ``intersection``: ``both`` uses C⁺ and C⁻, ``neighbours`` sets W̃ = C⁺ N, ``none`` sets W̃ = N;
    - ``conjunction``: every logical "and" is a ``product`` or a ``min``, whose ties share the gradient equally;
    - ``expansion``: if false, W = W̃, which is not symmetric;
    - ``detach_counts``: whether |N_i| and |N̄_i| are constants;
    - ``detach_expansion``: whether |R_i| is a constant.
    """

    def __init__(
        self,
        k: int,
        eps: float = DEFAULT_EPS,
        step: str = "heuristic",
        temperature: float = 0.01,
        intersection: str = "both",
        conjunction: str = "product",
        expansion: bool = True,
        detach_counts: bool = True,
        detach_expansion: bool = False,
    ):
        chosen = {"step": step, "intersection": intersection, "conjunction": conjunction}
        chosen |= {"expansion": expansion, "detach_counts": detach_counts, "detach_expansion": detach_expansion}
        for name, value in chosen.items():
            if value not in SWITCHES[name]:
                known = nearest(str(value), map(str, SWITCHES[name]))
                raise UserError(f"Unknown value '{value}' for '{name}' of the contextual similarity; {known}.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 2:
            raise UserError(f"'k' of the contextual similarity must be a whole number of at least 2, found {k!r}.")
        for name, value, least in (("eps", eps, 0), ("temperature", temperature, 1e-12)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
                above = "of at least 0" if name == "eps" else "above 0"
                raise UserError(f"'{name}' of the contextual similarity must be a number {above}, found {value!r}.")
        if conjunction == "min" and step != "heuristic":
            raise UserError(f"'conjunction: min' of the contextual similarity needs 'step: heuristic', found '{step}'.")
        self.k, self.eps = k, eps
        self.step, self.temperature = step, temperature
        self.intersection, self.conjunction, self.expansion = intersection, conjunction, expansion
        self.detach_counts, self.detach_expansion = detach_counts, detach_expansion

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        return self.context(scores).similarity

    def context(self, scores: torch.Tensor) -> Context:
        distance = (2 - 2 * scores).clamp(min=0)
        k = min(self.k, len(scores))
        nearest_distances = distance.detach().topk(k, largest=False).values
        neighbours = self._within(nearest_distances[:, k - 1], distance)
        overlap = self._overlap(neighbours)
        if not self.expansion:
            return Context(nearest_distances, neighbours, overlap, None, None, overlap)
        close = self._within(nearest_distances[:, max(k // 2, 1) - 1], distance)
        reciprocal = self._and(close, close.T)
        size = reciprocal.sum(dim=1, keepdim=True)
        expanded = self._matrix_and(reciprocal, overlap) / (size.detach() if self.detach_expansion else size)
        similarity = (expanded + expanded.T) / 2
        return Context(nearest_distances, neighbours, overlap, close, reciprocal, similarity)

    def _within(self, radius: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        inside = radius[:, None] + self.eps - distance
        return heuristic_step(inside) if self.step == "heuristic" else sigmoid_step(inside, self.temperature)

    def _overlap(self, neighbours: torch.Tensor) -> torch.Tensor:
        if self.intersection == "none":
            return neighbours
        common = self._common(neighbours)
        if self.intersection == "both":
            common = (common + self._common(1 - neighbours)) / 2
        return self._and(common, neighbours)

    def _common(self, members: torch.Tensor) -> torch.Tensor:
        """Σ_p m_ip m_jp / |m_i|, or 1 if m_i is empty."""
        size = members.sum(dim=1, keepdim=True)
        if self.detach_counts:
            size = size.detach()
        empty = size == 0
        shared = self._matrix_and(members, members.T)
        return torch.where(empty, torch.ones_like(shared), shared / torch.where(empty, torch.ones_like(size), size))

    def _and(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left * right if self.conjunction == "product" else torch.minimum(left, right)

    def _matrix_and(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right if self.conjunction == "product" else min_product(left, right)
