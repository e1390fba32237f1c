"""Proxy-NCA as first published: the denominator excludes the proxy of the image's class."""

import torch

from recheck.methods.geometry import squared_distances
from recheck.methods.losses.unbiased.proxies import ProxyLoss, direction

INIT = "normal 0.00125"


class ExclusiveProxyNCALoss(ProxyLoss):
    """Mean over images of Σ_c t_ic (q_ic + log Σ_{k ≠ y_i} exp(−q_ik)),  q_ic = |m x_i − m p_c|² / temperature.

    ``multiplier`` m scales embeddings (not normalised here) and proxies (of length 1). t is 1 − s for the true class
    and s / (C − 1) for every other class, where s is ``label_smoothing``. The loss can be negative.
    ``exclude_positive: false`` keeps the true proxy in the sum, as pytorch-metric-learning's ProxyNCALoss does.
    ``sign: original`` replaces q by −q.
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
        repelling = q.masked_fill(self.true_proxies(labels), torch.inf) if self.exclude_positive else q
        pushed = torch.logsumexp(-repelling, dim=1)
        return (self.smoothed(labels, self.label_smoothing) * (q + pushed[:, None])).sum(dim=1)
