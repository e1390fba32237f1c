"""Histogram loss."""

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.utils import common_functions, loss_and_miner_utils


class HistogramLoss(losses.HistogramLoss):
    """pytorch-metric-learning's ``HistogramLoss``, which also accepts pairs with a cosine of 1.

    The library's version fails if two images have the same embedding, and indexes in a way that torch has deprecated.
    """

    def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
        common_functions.labels_or_indices_tuple_required(labels, indices_tuple)
        common_functions.ref_not_supported(embeddings, labels, ref_emb, ref_labels)
        anchor, positive, negative = loss_and_miner_utils.convert_to_triplets(
            indices_tuple, labels, ref_labels, t_per_anchor="all"
        )
        if len(anchor) == 0:
            return self.zero_losses()
        similarities = self.distance(embeddings, ref_emb)
        of_positives = self.compute_density(similarities[_pairs(anchor, positive)])
        of_negatives = self.compute_density(similarities[_pairs(anchor, negative)])
        value = (of_negatives * of_positives.cumsum(dim=0)).sum()
        return {"loss": {"losses": value, "indices": None, "reduction_type": "already_reduced"}}

    def compute_density(self, distances: torch.Tensor) -> torch.Tensor:
        """Share of the pairs at each node of the histogram; a pair counts for the two nodes next to it."""
        bins = round(2 / self.delta)
        place = (distances + 1) / self.delta
        lower = place.detach().floor().clamp(0, bins - 1).long()
        upper_share = place - lower
        density = torch.zeros(bins + 1, dtype=distances.dtype, device=distances.device)
        density = density.scatter_add(0, lower + 1, upper_share).scatter_add(0, lower, 1 - upper_share)
        return density / len(distances)


def _pairs(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows and columns of the pairs, each once."""
    return torch.stack((first, second)).sort(dim=0).values.unique(dim=1).unbind()
