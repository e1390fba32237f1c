"""Heads, which map a backbone's features to the embedding. ``dim`` of a head is the size of its output."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear

from recheck.errors import UserError
from recheck.models.initialisation import initialise
from recheck.models.norm import unit
from recheck.models.precision import at_least_float32
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


class PoincareBall(Linear):
    """A linear layer, then the exponential map at the origin into the Poincaré ball of curvature −``curvature``.

    With c = ``curvature`` the ball has radius 1/√c. The layer's output x is first shortened to length ``clip``, if it
    is longer, and becomes tanh(√c |x|) x / (√c |x|). Points stay 0.1 % of the radius away from the boundary, where
    float32 could not tell distances apart.
    """

    INSIDE = 1 - 1e-3

    def __init__(
        self,
        features: int,
        dim: int,
        curvature: float,
        clip: float | None = None,
        bias: bool = True,
        init: str = "torch",
    ):
        super().__init__(features, dim, bias, init=init)
        for key, value in (("curvature", curvature), ("clip", 1 if clip is None else clip)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
                raise UserError(f"'model.head.{key}' of 'PoincareBall' must be a number above 0, found {value!r}.")
        self.curvature, self.clip = curvature, clip

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        flat = at_least_float32(super().forward(features))
        length = torch.linalg.vector_norm(flat, dim=-1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny ** 0.5)
        shorter = length if self.clip is None else length.clamp(max=self.clip)
        root = math.sqrt(self.curvature)
        return flat / length * (root * shorter).tanh().clamp(max=self.INSIDE) / root


class Identity(nn.Identity):
    """No head: the backbone's features are the embedding; with ``normalise``, they are scaled to length 1."""

    def __init__(self, features: int, normalise: float | None = None):
        super().__init__()
        self.dim, self.normalise = features, normalise

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features if self.normalise is None else unit(at_least_float32(features), self.normalise)


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
