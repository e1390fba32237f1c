"""The N-pair loss."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from recheck.methods.losses.unbiased.pair_batch import anchors_and_positives, pair_targets, squared_lengths


class NPairLoss(nn.Module):
    """Mean over pairs of −Σ_j t_ij log softmax_j(a_i · p_j) + l2 (|a_i|² + |p_i|²).

    Embeddings are [anchors; positives], two halves in the same order. t_i is 1 at pair i; if several pairs have its
    label, t_i is uniform over them. ``symmetric`` averages the first term with the same term after exchanging a and p.
    pytorch-metric-learning's NPairsLoss is the same loss, but supports neither of these two cases.
    """

    def __init__(self, l2: float = 0.0005, symmetric: bool = False):
        super().__init__()
        self.l2, self.symmetric = l2, symmetric

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_pairs(embeddings, labels).mean()

    def of_pairs(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        anchors, positives, labels = anchors_and_positives(embeddings, labels, type(self).__name__)
        terms = self._terms(anchors, positives, labels)
        if self.symmetric:
            terms = (terms + self._terms(positives, anchors, labels)) / 2
        return terms + self.l2 * squared_lengths(anchors, positives)

    def _terms(self, anchors: torch.Tensor, positives: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = self._scores(anchors, positives)
        return cross_entropy(scores, pair_targets(labels, scores), reduction="none")

    def _scores(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return anchors @ positives.T
