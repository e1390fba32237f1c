"""What losses with one proxy a class share."""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn.functional import one_hot

from recheck.errors import UserError
from recheck.models.initialisation import initialise
from recheck.models.norm import unit

UNDER_THE_ROOT = 1e-10
SIGNS = ("standard", "original")


class ProxyLoss(nn.Module, ABC):
    """Holds the raw proxies; a loss takes them at length 1. Its value is the mean over the batch of ``of_images``."""

    def __init__(self, num_classes: int, embedding_size: int, init: str):
        super().__init__()
        if num_classes < 2:
            raise UserError(f"'{type(self).__name__}' needs at least two training classes, not {num_classes}.")
        self.proxies = nn.Parameter(torch.empty(num_classes, embedding_size))
        initialise(self.proxies, init, type(self).__name__)

    @property
    def units(self) -> torch.Tensor:
        return unit(self.proxies, UNDER_THE_ROOT)

    def own(self, labels: torch.Tensor) -> torch.Tensor:
        """(batch, classes): which proxy is the image's own; all others are its negatives."""
        return one_hot(labels, len(self.proxies)).bool()

    def smoothed(self, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
        """(batch, classes): 1 − s on the own class, s / (classes − 1) on each other."""
        own = self.own(labels).to(self.proxies.dtype)
        return (1 - smoothing) * own + smoothing / (len(self.proxies) - 1) * (1 - own)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_images(embeddings, labels).mean()

    @abstractmethod
    def of_images(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of each image."""


def direction(sign: str, loss: str) -> int:
    """1 or −1. Proxies are free, so that a loss with the other sign is the same model with proxies turned round."""
    if sign not in SIGNS:
        raise UserError(f"'{loss}' needs 'standard' or 'original' as 'sign', not {sign!r}.")
    return 1 if sign == "standard" else -1
