"""Within-pair mining, also published as sensitivity-aware distance: each pair is judged by its hardest view."""

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.distances import BaseDistance
from torch import nn

from recheck.errors import UserError

# Losses that depend only on the distances of pairs. Others would silently compute something else.
OF_PAIRS = (
    losses.ContrastiveLoss,
    losses.TripletMarginLoss,
    losses.MarginLoss,
    losses.MultiSimilarityLoss,
    losses.NTXentLoss,
)


class WithinPairLoss(nn.Module):
    """A pair or triplet loss, applied to a soft extreme of each pair's distances over several views.

    For views e of shape (V, batch, dimension), pair (i, j) has V values z_v: the distance or similarity (as the loss
    defines it) of e_v,i and e_v,j, both from the same view. A soft maximum or minimum with ``sharpness`` a combines
    them,

        smax(z) = Σ_v softmax_v(a z_v) z_v,    smin(z) = Σ_v softmax_v(−a z_v) z_v:

    a positive pair takes the value of its most distant view, a negative pair that of its nearest view. ``loss``, with
    its margins and reducer, is then applied to these values. Nothing is detached: gradients flow through the softmax
    weights into all views.
    """

    def __init__(self, loss: nn.Module, sharpness: float):
        super().__init__()
        if type(loss) not in OF_PAIRS:
            known = ", ".join(known.__name__ for known in OF_PAIRS)
            raise UserError(f"'loss' of 'WithinPairLoss' must be one of {known}, found {type(loss).__name__}.")
        if loss.embedding_regularizer is not None:
            raise UserError(
                "'WithinPairLoss' cannot regularise embeddings, because an image has several embeddings: remove "
                "'embedding_regularizer'."
            )
        self.distance, self.sharpness = loss.distance, sharpness
        loss.distance = _Given(is_inverted=self.distance.is_inverted)
        self.loss = loss

    def forward(self, views: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if views.ndim != 3:
            raise UserError(
                "'WithinPairLoss' needs several views per image: embeddings of shape (views, batch, dimensions), found "
                f"{tuple(views.shape)}. In a study, add 'forward: {{class: MultiView, …}}'."
            )
        values = torch.vmap(self.distance)(views)
        return self.loss(self._hardest(values, labels), labels)

    def _hardest(self, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(V, batch, batch) → (batch, batch)."""
        positive = labels[:, None] == labels[None]
        largest = positive != self.distance.is_inverted
        sign = torch.where(largest, self.sharpness, -self.sharpness).to(values.dtype)
        return (torch.softmax(sign * values, dim=0) * values).sum(dim=0)


class _Given(BaseDistance):
    """Returns precomputed distances, which the loss receives in place of embeddings."""

    def forward(self, query_emb: torch.Tensor, ref_emb: torch.Tensor | None = None) -> torch.Tensor:
        return query_emb
