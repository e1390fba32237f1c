"""The N-pair loss."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from recheck.methods.losses.unbiased.pair_batch import anchors_and_positives, own_pairs, squared_lengths


class NPairLoss(nn.Module):
    """Mean over pairs of −Σ_j t_ij log softmax_j(a_i · p_j) + l2 (|a_i|² + |p_i|²).

    Embeddings are [anchors; positives], two halves in the same order. t_i is 1 at pair i; where labels repeat, it is
    uniform over the pairs of that label. ``symmetric``: the mean of this and of the same with a and p exchanged in
    the products. Without either it is pytorch-metric-learning's NPairsLoss, which can't do these two.
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
        return cross_entropy(scores, own_pairs(labels, scores), reduction="none")

    def _scores(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return anchors @ positives.T
