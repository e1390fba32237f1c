"""Distances and pair masks shared by losses. The distance of equal points is exactly 0, with gradient 0."""

import torch


def distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Euclidean distances (rows of ``left``, rows of ``right``).

    Computed from differences, not from products: equal points are exactly 0 apart, the matrix is symmetric to the last
    bit, and the gradient of a distance of 0 is 0.
    """
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")


def squared_distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return distances(left, right).square()


def same_class(labels: torch.Tensor) -> torch.Tensor:
    """(batch, batch): whether two rows have the same label; true on the diagonal."""
    return labels[:, None] == labels[None]


def positive_pairs(labels: torch.Tensor) -> torch.Tensor:
    """(batch, batch): whether two different rows have the same label."""
    return same_class(labels) & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
