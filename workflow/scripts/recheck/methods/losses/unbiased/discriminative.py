"""The discriminative loss, an upper bound of the triplet loss with fixed one-hot centroids."""

import torch
from torch import nn
from torch.nn.functional import one_hot

from recheck.errors import UserError

SCALES = ("signed", "absolute", "one")


class DiscriminativeLoss(nn.Module):
    """G Σ_i [ |f_i − e_{y_i}|² − 1/(3 (C − 1)) Σ_{c ≠ y_i} |f_i − e_c|² ],  e_c one-hot.

    An embedding f has one coordinate for each of the C classes. ``scale`` chooses G for a batch of n images:
    ``signed`` is 3 (C − 1)(n/C − 1)(n/C), which flips the sign of the objective if n < C; ``absolute`` is its absolute
    value; ``one`` is 1.
    """

    def __init__(self, num_classes: int, scale: str = "signed"):
        super().__init__()
        if scale not in SCALES:
            raise UserError(
                f"'scale' of the loss 'DiscriminativeLoss' must be one of {', '.join(SCALES)}, found {scale!r}."
            )
        if num_classes < 2:
            raise UserError(f"The loss 'DiscriminativeLoss' needs at least two training classes, found {num_classes}.")
        self.num_classes, self.scale = num_classes, scale

    def factor(self, images: int) -> float:
        """G for a batch of ``images`` images."""
        each = images / self.num_classes
        signed = 3 * (self.num_classes - 1) * (each - 1) * each
        return {"signed": signed, "absolute": abs(signed), "one": 1.0}[self.scale]

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if embeddings.shape[1] != self.num_classes:
            raise UserError(
                f"The loss 'DiscriminativeLoss' needs one dimension per training class ({self.num_classes}), found "
                f"{embeddings.shape[1]} dimensions: use the head 'DiscriminativeHead'."
            )
        squared = embeddings.square().sum(dim=1, keepdim=True) - 2 * embeddings + 1
        true = one_hot(labels, self.num_classes).to(embeddings.dtype)
        weights = true - (1 - true) / (3 * (self.num_classes - 1))
        return self.factor(len(labels)) * (weights * squared).sum()
