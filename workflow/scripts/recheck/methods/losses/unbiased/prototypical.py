"""Prototypical networks: classify a query by the nearest mean of a few support images."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from recheck.errors import UserError
from recheck.methods.geometry import squared_distances


class PrototypicalLoss(nn.Module):
    """Mean over queries of the cross-entropy of softmax_c(−|q − prototype_c|²); a prototype is a mean of supports.

    Embeddings are [supports; queries], both sorted by class in the same order, as the sampler ``Episodes`` draws them.
    """

    def __init__(self, classes: int, supports: int, queries: int):
        super().__init__()
        self.classes, self.supports, self.queries = classes, supports, queries

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_queries(embeddings, labels).mean()

    def of_queries(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self._check(labels)
        first_query = self.classes * self.supports
        prototypes = embeddings[:first_query].unflatten(0, (self.classes, self.supports)).mean(dim=1)
        logits = -squared_distances(embeddings[first_query:], prototypes)
        targets = torch.arange(self.classes, device=logits.device).repeat_interleave(self.queries)
        return cross_entropy(logits, targets, reduction="none")

    def _check(self, labels: torch.Tensor) -> None:
        first_query = self.classes * self.supports
        whole = len(labels) == first_query + self.classes * self.queries
        if whole:
            supports, queries = labels[:first_query], labels[first_query:]
            order = supports[:: self.supports]
            whole = torch.equal(supports, order.repeat_interleave(self.supports)) and torch.equal(
                queries, order.repeat_interleave(self.queries)
            )
        if not whole:
            raise UserError(
                f"The loss 'PrototypicalLoss' needs batches of {self.classes} classes x ({self.supports} supports + "
                f"{self.queries} queries): use the sampler 'Episodes' with the same numbers."
            )
