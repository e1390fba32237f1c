"""The discriminative loss, an upper bound of the triplet loss with fixed one-hot centroids."""

import torch
from torch import nn
from torch.nn.functional import one_hot

from recheck.errors import UserError

SCALES = ("signed", "absolute", "one")


class DiscriminativeLoss(nn.Module):
    """G Σ_i [ |f_i − e_{y_i}|² − 1/(3 (C − 1)) Σ_{c ≠ y_i} |f_i − e_c|² ],  e_c one-hot.

    An embedding f has one coordinate for each of the C classes.
    ``scale`` tells G, for n images of C classes: ``signed`` is 3 (C − 1)(n/C − 1)(n/C), which turns the objective
    round when a batch has fewer images than there are classes; ``absolute`` is its size, ``one`` is 1.
    """

    def __init__(self, num_classes: int, scale: str = "signed"):
        super().__init__()
        if scale not in SCALES:
            raise UserError(f"'DiscriminativeLoss' needs one of {', '.join(SCALES)} as 'scale', not {scale!r}.")
        if num_classes < 2:
            raise UserError(f"'DiscriminativeLoss' needs at least two training classes, not {num_classes}.")
        self.num_classes, self.scale = num_classes, scale

    def factor(self, images: int) -> float:
        """G."""
        each = images / self.num_classes
        signed = 3 * (self.num_classes - 1) * (each - 1) * each
        return {"signed": signed, "absolute": abs(signed), "one": 1.0}[self.scale]

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if embeddings.shape[1] != self.num_classes:
            raise UserError(
                f"'DiscriminativeLoss' needs embeddings as wide as there are training classes, {self.num_classes}, not "
                f"{embeddings.shape[1]}: use the head 'DiscriminativeHead'."
            )
        squared = embeddings.square().sum(dim=1, keepdim=True) - 2 * embeddings + 1
        own = one_hot(labels, self.num_classes).to(embeddings.dtype)
        weights = own - (1 - own) / (3 * (self.num_classes - 1))
        return self.factor(len(labels)) * (weights * squared).sum()
