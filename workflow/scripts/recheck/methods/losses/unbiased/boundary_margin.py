"""The margin loss with learned boundaries."""

import torch
from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_triplets
from torch import nn

from recheck.errors import UserError

UNDER_THE_ROOT = 1e-8
INDICES = ("class", "position")


class BoundaryMarginLoss(nn.Module):
    """Loss of triplets (a, p, n), with d = sqrt(Σ differences² + 1e-8) and the boundary β of the anchor:

        l⁺ = max(0, d_ap − β + margin),    l⁻ = max(0, β − d_an + margin),
        L = (Σ l⁺ + Σ l⁻ + nu Σ β) / max(1, #{l⁺ > 0} + #{l⁻ > 0}).

    Each training class has a boundary. ``beta_index: position`` instead looks up the boundary by the anchor's position
    in the batch, with positions beyond the table mapped to its last entry, as in the released code of the study.
    pytorch-metric-learning's MarginLoss has no term under the root and no boundaries by position. Without a miner, all
    triplets are used.
    """

    def __init__(
        self, num_classes: int, margin: float = 0.2, beta: float = 1.2, nu: float = 0.0, beta_index: str = "class"
    ):
        super().__init__()
        if beta_index not in INDICES:
            raise UserError(
                f"'beta_index' of the loss 'BoundaryMarginLoss' must be 'class' or 'position', found {beta_index!r}."
            )
        self.margin, self.nu, self.beta_index = margin, nu, beta_index
        self.beta = nn.Parameter(torch.full((num_classes,), float(beta)))

    def forward(
        self, embeddings: torch.Tensor, labels: torch.Tensor, mined: tuple[torch.Tensor, ...] | None = None
    ) -> torch.Tensor:
        anchor, positive, negative = convert_to_triplets(mined, labels, labels, t_per_anchor="all")
        if self.beta_index == "class":
            beta = self.beta[labels[anchor]]
        else:
            beta = self.beta[anchor.clamp_max(len(self.beta) - 1)]
        pulled = torch.relu(_between(embeddings, anchor, positive) - beta + self.margin)
        pushed = torch.relu(beta - _between(embeddings, anchor, negative) + self.margin)
        active = ((pulled > 0).sum() + (pushed > 0).sum()).clamp_min(1)
        return (pulled.sum() + pushed.sum() + self.nu * beta.sum()) / active


def _between(embeddings: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return ((embeddings[left] - embeddings[right]).square().sum(dim=1) + UNDER_THE_ROOT).sqrt()
