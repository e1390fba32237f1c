"""The normalised softmax with smoothed labels."""

import torch
from torch.nn.functional import cross_entropy

from recheck.methods.losses.unbiased.proxies import ProxyLoss, direction

INIT = "normal 0.00125"


class NormProxyLoss(ProxyLoss):
    """Mean over images of −Σ_c t_ic log softmax_c(x_i · p_c / temperature), with proxies of length 1.

    t is 1 − s for the true class and s / (C − 1) for every other class, where s is ``label_smoothing``. (PyTorch's
    smoothing spreads s over all classes, including the true one.) ``sign: original`` uses −x · p as the released code
    does, which is the same model with every proxy negated.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        temperature: float = 0.05,
        label_smoothing: float = 0.1,
        sign: str = "standard",
        init: str = INIT,
    ):
        super().__init__(num_classes, embedding_size, init)
        self.temperature, self.label_smoothing = temperature, label_smoothing
        self.direction = direction(sign, type(self).__name__)

    def of_images(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = self.direction * embeddings @ self.units.T / self.temperature
        return cross_entropy(scores, self.smoothed(labels, self.label_smoothing), reduction="none")
