"""Base of the TensorFlow Similarity losses: one value per image, as two versions of the library compute it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.errors import UserError
from recheck.methods.losses.arguments import chosen

MATHS = ("fixed", "legacy")


class Pairs(NamedTuple):
    """All pairs of a batch, (batch, batch) each; an image is not paired with itself."""

    distance: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor


class PerAnchorLoss(nn.Module, ABC):
    """Mean over all images of the batch, with each image as anchor once.

    ``maths: fixed`` is the corrected form of the library's last release (0.18). ``maths: legacy`` reproduces the
    release of the published benchmark (0.16), including its mistakes, to show their effect.
    """

    def __init__(self, maths: str):
        super().__init__()
        self.maths = chosen("maths", maths, MATHS, self)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, mined: object = None) -> torch.Tensor:
        name = type(self).__name__
        if mined is not None:
            raise UserError(f"The loss '{name}' mines its pairs itself: remove 'miner'.")
        if embeddings.ndim != 2:
            raise UserError(f"The loss '{name}' needs one embedding per image: remove 'forward'.")
        return self.per_anchor(embeddings, labels).mean()

    def per_anchor(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Loss of each anchor, (batch,); 0 without gradient for an anchor that has no pairs."""
        return self.of_pairs(pairs_of(embeddings, labels))

    @abstractmethod
    def of_pairs(self, pairs: Pairs) -> torch.Tensor:
        """Loss of each anchor, from the pairs."""


def pairs_of(embeddings: torch.Tensor, labels: torch.Tensor) -> Pairs:
    """Cosine distances max(0, 1 − e_i·e_j) with e = x / max(‖x‖, 1e-6), and which pairs are positive and negative."""
    unit = normalize(embeddings, eps=1e-6)
    same = labels[:, None] == labels[None]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return Pairs((1 - unit @ unit.T).clamp(min=0), same & ~itself, ~same)
