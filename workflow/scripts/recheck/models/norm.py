"""Vectors of length 1."""

import torch


def unit(vectors: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x / sqrt(Σ x² + epsilon) of each row: finite, with a finite gradient, at zero too."""
    return vectors / (vectors.square().sum(dim=-1, keepdim=True) + epsilon).sqrt()
