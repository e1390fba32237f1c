"""The triplet loss of an image, the proxy of its class and every other proxy."""

import torch

from recheck.methods.geometry import squared_distances
from recheck.methods.losses.unbiased.proxies import ProxyLoss

INIT = "uniform 0.2"


class ProxyTripletLoss(ProxyLoss):
    """Mean over images of Σ_{c ≠ y_i} max(0, |x_i − p_{y_i}|² − |x_i − p_c|² + margin), with proxies of length 1."""

    def __init__(self, num_classes: int, embedding_size: int, margin: float = 1.0, init: str = INIT):
        super().__init__(num_classes, embedding_size, init)
        self.margin = margin

    def of_images(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        squared = squared_distances(embeddings, self.units)
        to_own = squared.gather(1, labels[:, None])
        terms = torch.relu(to_own - squared + self.margin)
        return terms.masked_fill(self.true_proxies(labels), 0).sum(dim=1)
