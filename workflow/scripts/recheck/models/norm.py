"""Vectors of length 1."""

import torch


def unit(vectors: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x / sqrt(Σ x² + epsilon) for each row x; value and gradient are finite even at zero."""
    return vectors / (vectors.square().sum(dim=-1, keepdim=True) + epsilon).sqrt()
