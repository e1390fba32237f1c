"""Distances that losses share: exact where points coincide, with a gradient of zero there."""

import torch


def distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Euclidean distances (rows of ``left``, rows of ``right``).

    From differences, not from products: equal points are exactly 0 apart, the matrix is symmetric to the last bit, and
    a distance of 0 has the gradient 0.
    """
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")


def squared_distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return distances(left, right).square()


def same_class(labels: torch.Tensor) -> torch.Tensor:
    """(batch, batch): whether two rows have one label; a row and itself do."""
    return labels[:, None] == labels[None]


def positive_pairs(labels: torch.Tensor) -> torch.Tensor:
    """(batch, batch): two different rows of one label."""
    return same_class(labels) & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
