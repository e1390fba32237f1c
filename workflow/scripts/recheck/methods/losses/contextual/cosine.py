"""What losses of a batch's similarity matrix start from."""

import torch
from torch.nn.functional import normalize


def cosine_similarities(embeddings: torch.Tensor) -> torch.Tensor:
    """S = U Uᵀ of the rows' directions u = x/‖x‖, (batch, batch), the diagonal included."""
    unit = normalize(embeddings)
    return unit @ unit.T


def same_class(labels: torch.Tensor) -> torch.Tensor:
    """Y, boolean: whether two images have the same label; the diagonal is true."""
    return labels[:, None] == labels[None]
