"""Proxy-NCA as first published: the own proxy is not among those that the image is pushed from."""

import torch

from recheck.methods.geometry import squared_distances
from recheck.methods.losses.unbiased.proxies import ProxyLoss, direction

INIT = "normal 0.00125"


class ExclusiveProxyNCALoss(ProxyLoss):
    """Mean over images of Σ_c t_ic (q_ic + log Σ_{k ≠ y_i} exp(−q_ik)),  q_ic = |m x_i − m p_c|² / temperature.

    m is the ``multiplier`` of embeddings (used as given) and of proxies (at length 1); t is 1 on the own class, or with
    ``label_smoothing`` s, 1 − s there and s / (C − 1) elsewhere. It can be negative. ``exclude_positive: false`` keeps
    the own proxy in the sum, as pytorch-metric-learning's ProxyNCALoss does; ``sign: original`` takes −q for q.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        multiplier: float = 3.0,
        temperature: float = 1.0,
        label_smoothing: float = 0.0,
        exclude_positive: bool = True,
        sign: str = "standard",
        init: str = INIT,
    ):
        super().__init__(num_classes, embedding_size, init)
        self.multiplier, self.temperature = multiplier, temperature
        self.label_smoothing, self.exclude_positive = label_smoothing, exclude_positive
        self.direction = direction(sign, type(self).__name__)

    def of_images(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        squared = squared_distances(self.multiplier * embeddings, self.multiplier * self.units)
        q = self.direction * squared / self.temperature
        repelling = q.masked_fill(self.own(labels), torch.inf) if self.exclude_positive else q
        pushed = torch.logsumexp(-repelling, dim=1)
        return (self.smoothed(labels, self.label_smoothing) * (q + pushed[:, None])).sum(dim=1)
