"""How much two images of a batch have their neighbours in common."""

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
"""What can be varied, the published choice first."""

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
"""The published ablations by number: what each changes."""


class Context(NamedTuple):
    """The steps from similarities to contextual similarity; None where a variant leaves one out."""

    nearest: torch.Tensor
    """(n, k), t_i(1) … t_i(k): the k smallest distances of each row, the point itself first."""
    neighbours: torch.Tensor
    """N: who is in whose k-neighbourhood."""
    overlap: torch.Tensor
    """W̃: what neighbours have in common."""
    close: torch.Tensor | None
    """h: who is in whose k/2-neighbourhood."""
    reciprocal: torch.Tensor | None
    """R: those that are in each other's."""
    similarity: torch.Tensor
    """W."""


class ContextualSimilarity:
    """W(S): from cosine similarities, (n, n), to contextual similarities between 0 and 1.

    With d = max(0, 2 − 2S) and t_i(m) the m-th smallest entry of row i (the point itself counts; a constant),

        N_ij  = step(t_i(k) + eps − d_ij),  N̄ = 1 − N            neighbours
        C⁺_ij = Σ_p N_ip N_jp / |N_i|,  C⁻ likewise of N̄        intersection; |·| is a constant
        W̃_ij  = ½ (C⁺_ij + C⁻_ij) N_ij
        h_ij  = step(t_i(k//2) + eps − d_ij),  R_ij = h_ij h_ji
        W̄     = R W̃ / |R_i|,  W = ½ (W̄ + W̄ᵀ)                    expansion; |·| is no constant

    Gradients go through every factor. A row without any non-neighbour shares all of them: its C⁻ is 1.

    The switches, the published choice first (``SWITCHES``); ``VARIANTS`` has the published ablations:

    - ``step``: ``heuristic``, 0 or 1 with a slope of 10 everywhere, or ``sigmoid``, σ(·/``temperature``);
    - ``intersection``: ``both`` C⁺ and C⁻; ``neighbours``, W̃ = C⁺ N; or ``none``, W̃ = N;
    - ``conjunction``: ``product``, or ``min`` for every logical and, ties sharing the gradient equally;
    - ``expansion``: if false, W = W̃, not symmetrised;
    - ``detach_counts``, ``detach_expansion``: whether |N_i| and |N̄_i|, whether |R_i| are constants.
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
                raise UserError(f"contextual similarity: '{name}' can't be '{value}'; {known}.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 2:
            raise UserError(
                f"contextual similarity: 'k' is {k!r}, but half of it must be a neighbour: take a whole number from 2."
            )
        for name, value, least in (("eps", eps, 0), ("temperature", temperature, 1e-12)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
                above = "from 0" if name == "eps" else "above 0"
                raise UserError(f"contextual similarity: '{name}' must be a number {above}, not {value!r}.")
        if conjunction == "min" and step != "heuristic":
            raise UserError("contextual similarity: 'conjunction: min' is for memberships 0 and 1: 'step: heuristic'.")
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
        """Σ_p m_ip m_jp / |m_i|, and 1 for an empty m_i."""
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
