"""The loss that the contextual-similarity study proposes."""

import torch

from recheck.methods.losses.arguments import checked_number
from recheck.methods.losses.contextual.contextual import ContextualLoss
from recheck.methods.losses.contextual.contrastive import cosine_contrastive
from recheck.methods.losses.contextual.similarity_regulariser import SimilarityRegulariser


class HybridLoss(ContextualLoss):
    """w_context · contextual + w_contrastive · contrastive + w_reg · (mean of S − target)².

    The original has a single number, lambda, which is the weight of the contextual term in one of its protocols and of
    the contrastive term in the other; here the weights are separate. ``k``, ``eps``, ``variant`` and the switches are
    passed to ``ContextualLoss``.
    """

    def __init__(
        self,
        w_context: float,
        w_contrastive: float,
        w_reg: float,
        target: float,
        pos_margin: float = 0.75,
        neg_margin: float = 0.6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.w_context = checked_number("w_context", w_context, self)
        self.w_contrastive = checked_number("w_contrastive", w_contrastive, self)
        self.w_reg = checked_number("w_reg", w_reg, self)
        self.contrastive = cosine_contrastive(pos_margin, neg_margin, self)
        self.regulariser = SimilarityRegulariser(target)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (
            self.w_context * super().forward(embeddings, labels)
            + self.w_contrastive * self.contrastive(embeddings, labels)
            + self.w_reg * self.regulariser(embeddings)
        )
