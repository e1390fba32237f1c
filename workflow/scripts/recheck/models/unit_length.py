"""Vectors to length 1."""

import torch


def unit_length(vectors: torch.Tensor) -> torch.Tensor:
    """x / sqrt(Σ x² + 1e-12), by rows: a zero row stays zero, and its gradient finite."""
    return vectors / ((vectors**2).sum(dim=-1, keepdim=True) + 1e-12).sqrt()
