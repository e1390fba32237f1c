"""Within-pair mining, also published as sensitivity-aware distance: each pair counts as its hardest view shows it."""

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.distances import BaseDistance
from torch import nn

from recheck.errors import UserError

# Losses that look at nothing but the distances of pairs; others would compute something else without a word.
OF_PAIRS = (
    losses.ContrastiveLoss,
    losses.TripletMarginLoss,
    losses.MarginLoss,
    losses.MultiSimilarityLoss,
    losses.NTXentLoss,
)


class WithinPairLoss(nn.Module):
    """A loss of pairs or triplets on the soft hardest value of each pair over the views of its images.

    Given views e of shape (V, batch, dimension), pair (i, j) has V values z_v, the loss's own distance or similarity of
    e_v,i and e_v,j: both from the same view. They become one by a soft maximum or minimum with ``sharpness`` a,

        smax(z) = Σ_v softmax_v(a z_v) z_v,    smin(z) = Σ_v softmax_v(−a z_v) z_v:

    a positive pair as its most distant, a negative pair as its nearest view has it. ``loss``, with its own margins and
    reducer, is then applied to these values. Nothing is detached: gradients go through the weights into all views.
    """

    def __init__(self, loss: nn.Module, sharpness: float):
        super().__init__()
        if type(loss) not in OF_PAIRS:
            known = ", ".join(known.__name__ for known in OF_PAIRS)
            raise UserError(f"'WithinPairLoss' can't have the loss '{type(loss).__name__}' inside; it knows {known}.")
        if loss.embedding_regularizer is not None:
            raise UserError("'WithinPairLoss' can't regularise embeddings: there are several of each image.")
        self.distance, self.sharpness = loss.distance, sharpness
        loss.distance = _Given(is_inverted=self.distance.is_inverted)
        self.loss = loss

    def forward(self, views: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if views.ndim != 3:
            raise UserError("'WithinPairLoss' needs several views of each image: add 'forward: {class: MultiView, …}'.")
        values = torch.vmap(self.distance)(views)
        return self.loss(self._hardest(values, labels), labels)

    def _hardest(self, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(V, batch, batch) → (batch, batch)."""
        positive = labels[:, None] == labels[None]
        largest = positive != self.distance.is_inverted
        sign = torch.where(largest, self.sharpness, -self.sharpness).to(values.dtype)
        return (torch.softmax(sign * values, dim=0) * values).sum(dim=0)


class _Given(BaseDistance):
    """In place of the embeddings, a loss is given their distances; this hands them on."""

    def forward(self, query_emb: torch.Tensor, ref_emb: torch.Tensor | None = None) -> torch.Tensor:
        return query_emb
