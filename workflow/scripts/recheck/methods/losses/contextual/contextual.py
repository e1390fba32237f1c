"""Contextual loss: images of a class should have the same neighbours."""

from typing import Any

import torch
from torch import nn

from recheck.errors import UserError
from recheck.methods.losses.contextual.contextual_similarity import VARIANTS, ContextualSimilarity
from recheck.methods.losses.contextual.cosine import cosine_similarities, same_class


class ContextualLoss(nn.Module):
    """(1/n²) Σ_{i≠j} (Y_ij − W_ij)², where W is the contextual similarity of the batch and Y is 1 for equal classes.

    ``k`` is the number of images per class in a batch. ``variant`` is the number of a published ablation; a switch or
    ``eps`` set explicitly overrides it. ``eps`` is 1e-5 in variants 1 and 2 and 0.05 in all others.
    """

    def __init__(
        self,
        k: int,
        eps: float | None = None,
        variant: int = 0,
        step: str | None = None,
        temperature: float | None = None,
        intersection: str | None = None,
        conjunction: str | None = None,
        expansion: bool | None = None,
        detach_counts: bool | None = None,
        detach_expansion: bool | None = None,
    ):
        super().__init__()
        if not isinstance(variant, int) or isinstance(variant, bool) or variant not in VARIANTS:
            raise UserError(
                f"'variant' of the loss '{type(self).__name__}' must be a whole number from 0 to 10, found {variant!r}."
            )
        given: dict[str, Any] = {
            "eps": eps,
            "step": step,
            "temperature": temperature,
            "intersection": intersection,
            "conjunction": conjunction,
            "expansion": expansion,
            "detach_counts": detach_counts,
            "detach_expansion": detach_expansion,
        }
        settings = VARIANTS[variant] | {key: value for key, value in given.items() if value is not None}
        self.similarity = ContextualSimilarity(k, **settings)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_scores(cosine_similarities(embeddings), labels)

    def of_scores(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        error = same_class(labels).to(scores.dtype) - self.similarity(scores)
        return (error**2).fill_diagonal_(0).mean()
