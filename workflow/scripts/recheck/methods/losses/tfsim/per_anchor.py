"""What the losses of TensorFlow Similarity share: one value for each image, and two states of that library."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.errors import UserError
from recheck.methods.losses.arguments import chosen

MATHS = ("fixed", "legacy")


class Pairs(NamedTuple):
    """All pairs of a batch, (batch, batch) each; an image makes no pair with itself."""

    distance: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor


class PerAnchorLoss(nn.Module, ABC):
    """The mean over all images of the batch, each the anchor once.

    ``maths: fixed`` is the corrected form, that of the library's last release (0.18). ``maths: legacy`` repeats what
    it computed when the benchmark was published (0.16), mistakes included; it is there to show what they do.
    """

    def __init__(self, maths: str):
        super().__init__()
        self.maths = chosen("maths", maths, MATHS, self)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, mined: object = None) -> torch.Tensor:
        name = type(self).__name__
        if mined is not None:
            raise UserError(f"The loss '{name}' chooses its pairs itself: remove 'miner'.")
        if embeddings.ndim != 2:
            raise UserError(f"The loss '{name}' needs one embedding of each image: remove 'forward'.")
        return self.per_anchor(embeddings, labels).mean()

    def per_anchor(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of each anchor, (batch,); zero, and without gradient, for an anchor that makes no pairs."""
        return self.of_pairs(pairs_of(embeddings, labels))

    @abstractmethod
    def of_pairs(self, pairs: Pairs) -> torch.Tensor:
        """The same, from the pairs."""


def pairs_of(embeddings: torch.Tensor, labels: torch.Tensor) -> Pairs:
    """Cosine distances max(0, 1 − e_i·e_j) with e = x / max(‖x‖, 1e-6), and which pairs are positive and negative."""
    unit = normalize(embeddings, eps=1e-6)
    same = labels[:, None] == labels[None]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return Pairs((1 - unit @ unit.T).clamp(min=0), same & ~itself, ~same)
