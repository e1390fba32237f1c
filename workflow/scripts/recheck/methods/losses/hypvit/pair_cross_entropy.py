"""Cross-entropy of every pair of images of a class against the other classes of the batch."""

import torch
from pytorch_metric_learning.distances import BaseDistance, CosineSimilarity
from torch import nn

from recheck.errors import UserError
from recheck.methods.losses.arguments import checked_count, checked_number


class PairCrossEntropyLoss(nn.Module):
    """The loss of Hyp-ViT: a sum over ordered pairs (i, j), i ≠ j, of the ``per_class`` images of each class.

    For one pair (i, j), the image i of class a has the logits sim(a_i, b_j) and sim(a_i, b_i) of all classes b of the
    batch, divided by ``temperature``, without sim(a_i, a_i). Its loss is the cross-entropy with the target
    sim(a_i, a_j), and the loss of the pair is the mean over the classes. The similarity is minus the ``distance``,
    such as ``PoincareDistance``; by default it is the cosine, which is the spherical control.
    """

    def __init__(self, per_class: int, temperature: float, distance: BaseDistance | None = None):
        super().__init__()
        self.per_class = checked_count("per_class", per_class, self, least=2)
        self.temperature = checked_number("temperature", temperature, self, above=0)
        self.distance = CosineSimilarity() if distance is None else distance

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self._check(labels)
        shape = (-1, self.per_class)
        similarities = self.distance(embeddings) if self.distance.is_inverted else -self.distance(embeddings)
        logits = (similarities / self.temperature).unflatten(0, shape).unflatten(2, shape).permute(1, 3, 0, 2)
        itself = torch.eye(logits.shape[-1], dtype=torch.bool, device=logits.device)
        with_i = logits.diagonal(dim1=0, dim2=1).permute(2, 0, 1).masked_fill(itself, -torch.inf).logsumexp(dim=-1)
        normaliser = torch.logaddexp(logits.logsumexp(dim=-1), with_i[:, None])
        of_pairs = (normaliser - logits.diagonal(dim1=2, dim2=3)).mean(dim=-1)
        return of_pairs.triu(1).sum() + of_pairs.tril(-1).sum()

    def _check(self, labels: torch.Tensor) -> None:
        whole = len(labels) % self.per_class == 0 and len(labels) > self.per_class
        if whole:
            classes = labels.view(-1, self.per_class)
            ordered = classes[:, 0].sort().values
            whole = bool((classes == classes[:, :1]).all() & (ordered[1:] != ordered[:-1]).all())
        if not whole:
            raise UserError(
                f"The loss 'PairCrossEntropyLoss' needs batches of two or more different classes with {self.per_class} "
                f"consecutive images each: use 'sampler: {{class: MPerClass, per_class: {self.per_class}}}' with "
                "'length' equal to 'batch'."
            )
