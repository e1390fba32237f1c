"""Base of losses with one proxy per class."""

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
    """Holds the raw proxies, which subclasses use at length 1. The loss is the mean of ``of_images`` over the batch."""

    def __init__(self, num_classes: int, embedding_size: int, init: str):
        super().__init__()
        if num_classes < 2:
            raise UserError(
                f"The loss '{type(self).__name__}' needs at least two training classes, found {num_classes}."
            )
        self.proxies = nn.Parameter(torch.empty(num_classes, embedding_size))
        initialise(self.proxies, init, f"the loss '{type(self).__name__}'")

    @property
    def units(self) -> torch.Tensor:
        return unit(self.proxies, UNDER_THE_ROOT)

    def true_proxies(self, labels: torch.Tensor) -> torch.Tensor:
        """(batch, classes): true for the proxy of the image's class; all other proxies are negatives."""
        return one_hot(labels, len(self.proxies)).bool()

    def smoothed(self, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
        """(batch, classes): 1 − s for the true class, s / (classes − 1) for every other class."""
        true = self.true_proxies(labels).to(self.proxies.dtype)
        return (1 - smoothing) * true + smoothing / (len(self.proxies) - 1) * (1 - true)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_images(embeddings, labels).mean()

    @abstractmethod
    def of_images(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Loss of each image."""


def direction(sign: str, loss: str) -> int:
    """1 or −1, the sign of the scores. The other sign gives the same model with negated proxies."""
    if sign not in SIGNS:
        raise UserError(f"'sign' of the loss '{loss}' must be 'standard' or 'original', found {sign!r}.")
    return 1 if sign == "standard" else -1
