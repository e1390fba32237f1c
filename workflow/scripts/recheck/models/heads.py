"""Heads, which map a backbone's features to the embedding. ``dim`` of a head is the size of its output."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear

from recheck.models.initialisation import initialise
from recheck.models.norm import unit
from recheck.parts import build, module_of


class Linear(nn.Linear):
    """The usual head: one linear layer. With ``normalise``, its output x becomes x / sqrt(Σ x² + normalise).

    ``init`` is ``torch`` for PyTorch's default, or a rule such as ``uniform 0.2``; with a rule the bias starts at 0.
    """

    def __init__(
        self,
        features: int,
        dim: int,
        bias: bool = True,
        normalise: float | None = None,
        init: str = "torch",
    ):
        super().__init__(features, dim, bias)
        self.dim, self.normalise = dim, normalise
        _start(self, init, "the head 'Linear'")

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return _normalised(super().forward(features), self.normalise)


class Identity(nn.Identity):
    """No head: the backbone's features are the embedding."""

    def __init__(self, features: int):
        super().__init__()
        self.dim = features


class LayerNormLinear(nn.Linear):
    """Layer norm without scale and shift, a linear layer with bias (PyTorch's initialisation), then unit length."""

    def __init__(self, features: int, dim: int, normalise: float = 1e-12):
        super().__init__(features, dim)
        self.dim, self.normalise = dim, normalise

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return unit(super().forward(layer_norm(features, features.shape[-1:])), self.normalise)


class NormProxyHead(nn.Module):
    """Layer norm, a linear layer with weight g V / sqrt(|V|² + 1e-7) and no bias, dropout, then unit length.

    |V| is the norm of the whole matrix and g is a single number. With ``binarise``, each coordinate of an embedding is
    1 in evaluation if it is above 0, else 0.
    """

    UNDER_THE_ROOT = 1e-7

    def __init__(
        self,
        features: int,
        dim: int,
        dropout: float = 0.5,
        normalise: float = 1e-10,
        binarise: bool = False,
        init: str | None = None,
    ):
        super().__init__()
        self.dim, self.normalise, self.binarise = dim, normalise, binarise
        self.layer_norm = nn.LayerNorm(features, eps=1e-5)
        self.direction = nn.Parameter(torch.empty(dim, features))
        self.gain = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(dropout)
        initialise(self.direction, init or "truncated_normal 0.001", "the head 'NormProxyHead'")

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        norm = (self.direction.square().sum() + self.UNDER_THE_ROOT).sqrt()
        projected = linear(self.layer_norm(features), self.gain * self.direction / norm)
        embeddings = unit(self.dropout(projected), self.normalise)
        return (embeddings > 0).to(embeddings.dtype) if self.binarise and not self.training else embeddings


class DiscriminativeHead(nn.Module):
    """Linear layer to ``hidden``, dropout, linear layer without bias to one output per class, then unit length."""

    def __init__(
        self,
        features: int,
        num_classes: int,
        hidden: int = 64,
        dropout: float = 0.5,
        normalise: float = 1e-10,
        init: str | None = None,
    ):
        super().__init__()
        self.dim, self.normalise = num_classes, normalise
        self.hidden = nn.Linear(features, hidden)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, num_classes, bias=False)
        for layer in (self.hidden, self.output):
            _start(layer, init or "uniform 0.2", "the head 'DiscriminativeHead'")

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return unit(self.output(self.dropout(self.hidden(features))), self.normalise)


def build_head(spec: dict[str, Any], features: int, **known: Any) -> nn.Module:
    """Head by name. ``known`` holds values of the run (``num_classes``) for heads that take them as arguments."""
    return module_of(build(spec, "head", features=features, **known), spec, "head")


def _start(layer: nn.Linear, init: str, what: str) -> None:
    if init != "torch":
        initialise(layer.weight, init, what)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _normalised(embeddings: torch.Tensor, epsilon: float | None) -> torch.Tensor:
    return embeddings if epsilon is None else unit(embeddings, epsilon)
