"""Batches of pairs: the first half holds the anchors, the second half their positives."""

import torch

from recheck.errors import UserError


def anchors_and_positives(
    embeddings: torch.Tensor, labels: torch.Tensor, loss: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Anchors, positives and the label of each pair."""
    half = len(labels) // 2
    if 2 * half != len(labels) or not torch.equal(labels[:half], labels[half:]):
        raise UserError(
            f"The loss '{loss}' needs batches of pairs, with all anchors before all positives: use the sampler 'Pairs' "
            "with an even 'batch'."
        )
    return embeddings[:half], embeddings[half:], labels[:half]


def pair_targets(labels: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Target of a cross-entropy over pairs: row i is uniform over the pairs with the label of i."""
    same = (labels[:, None] == labels[None]).to(scores.dtype)
    return same / same.sum(dim=1, keepdim=True)


def squared_lengths(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """|a_i|² + |p_i|² of each pair."""
    return anchors.square().sum(dim=1) + positives.square().sum(dim=1)
