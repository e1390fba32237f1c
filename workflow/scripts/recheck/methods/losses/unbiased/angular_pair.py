"""The angular loss on batches of N pairs."""

import math

import torch

from recheck.errors import UserError
from recheck.methods.losses.unbiased.npair import NPairLoss


class AngularPairLoss(NPairLoss):
    """The N-pair loss with scores defined by an angle ``alpha`` in degrees; with t = tan²(alpha):

        s_ii = 2 (1 + t) a_i · p_i,    s_ij = 4 t (a_i + p_i) · p_j for j ≠ i,

    that is log(1 + Σ_j exp(f(a_i, p_i, p_j))) with the positives of the other pairs as negatives.
    pytorch-metric-learning's AngularLoss normalises the embeddings and uses other triplets.
    """

    def __init__(self, alpha: float = 45.0, l2: float = 0.0005, symmetric: bool = False):
        super().__init__(l2, symmetric)
        if not 0 < alpha < 90:
            raise UserError(
                f"'alpha' of the loss 'AngularPairLoss' must be an angle between 0 and 90 degrees, found {alpha!r}."
            )
        self.squared_tangent = math.tan(math.radians(alpha)) ** 2

    def _scores(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        diagonal = 2 * (1 + self.squared_tangent) * (anchors * positives).sum(dim=1)
        others = 4 * self.squared_tangent * (anchors + positives) @ positives.T
        on_diagonal = torch.eye(len(diagonal), dtype=torch.bool, device=diagonal.device)
        return torch.where(on_diagonal, diagonal[:, None], others)
