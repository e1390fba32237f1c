"""Cosine similarities and label agreement of a batch."""

import torch
from torch.nn.functional import normalize


def cosine_similarities(embeddings: torch.Tensor) -> torch.Tensor:
    """S = U Uᵀ, (batch, batch) including the diagonal, where the rows of U are u = x/‖x‖."""
    unit = normalize(embeddings)
    return unit @ unit.T


def same_class(labels: torch.Tensor) -> torch.Tensor:
    """Y, boolean: whether two images have the same label; true on the diagonal."""
    return labels[:, None] == labels[None]
