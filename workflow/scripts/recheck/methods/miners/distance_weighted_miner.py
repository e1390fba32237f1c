"""pytorch-metric-learning's DistanceWeightedMiner with the same draws, but without waiting for the GPU per class."""

import numpy as np
import pytorch_metric_learning.miners as library
import torch


class DistanceWeightedMiner(library.DistanceWeightedMiner):
    """Exactly the triplets that the library's miner draws from the same generator on a CPU.

    Each anchor has as many triplets as its class has images. Their positives are drawn uniformly, their negatives with
    weights inversely proportional to the density of their distance. The weights are computed on the device for the
    whole batch. All draws happen on the host, class by class in the library's order, so the host waits for a GPU
    only twice per batch, and draws are the same as on a CPU. Triplets with embeddings from outside the batch (a memory)
    are left to the library.
    """

    def mine(
        self, embeddings: torch.Tensor, labels: torch.Tensor, ref_emb: torch.Tensor, ref_labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if ref_labels is not labels:
            return super().mine(embeddings, labels, ref_emb, ref_labels)
        weights = self.probabilities(embeddings, labels)
        triplets = draw(weights.cpu(), labels.cpu().numpy())
        return triplets.to(labels.device, non_blocking=True).unbind()

    def probabilities(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(batch, batch): probability that row i draws row j as a negative; NaN in rows without a candidate."""
        dimensions = float(embeddings.shape[1])
        distance = self.distance(embeddings, embeddings).clamp_min(self.cutoff)
        log_weights = (2.0 - dimensions) * distance.log() - ((dimensions - 3) / 2) * (1.0 - 0.25 * distance**2.0).log()
        usable = log_weights.isfinite()
        other = labels[:, None] != labels
        # the library's maximum includes pairs of the same class, as 0
        log_weights = torch.where(other, log_weights, 0)
        largest = torch.where(usable, log_weights, -torch.inf).max()
        drawn = usable & other & (distance < self.nonzero_loss_cutoff)
        weights = torch.where(drawn, torch.exp(log_weights - largest), 0)
        return weights / weights.sum(dim=1, keepdim=True)


def draw(weights: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
    """(3, triplets): anchors, positives, negatives; ``weights`` (batch, batch) of the negatives are on the host."""
    has_negative = (weights > 0).any(dim=1).numpy()
    triplets = [np.empty((3, 0), np.int64)]
    for label in np.unique(labels):
        is_member = labels == label
        members, others = np.flatnonzero(is_member), np.flatnonzero(~is_member)
        if len(members) < 2 or not len(others):
            continue
        anchors = np.repeat(np.arange(len(members)), len(members))
        positives = torch.randint(0, len(members) - 1, (len(anchors),)).numpy()
        positives = positives + (positives >= anchors)  # an anchor is not its own positive
        kept = has_negative[members[anchors]]
        if not kept.any():
            continue
        anchors, positives = members[anchors[kept]], members[positives[kept]]
        rows = weights[torch.from_numpy(anchors)[:, None], torch.from_numpy(others)]
        negatives = others[torch.multinomial(rows, 1, replacement=True).flatten().numpy()]
        triplets.append(np.stack((anchors, positives, negatives)))
    return torch.from_numpy(np.concatenate(triplets, axis=1))
