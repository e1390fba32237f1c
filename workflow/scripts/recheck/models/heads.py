"""From a backbone's features to the embedding."""

import sys
from typing import Any

from torch import nn

from recheck.registry import build


class Linear(nn.Linear):
    """The usual head: one linear layer with bias, PyTorch's initialisation."""

    def __init__(self, features: int, dim: int, bias: bool = True):
        super().__init__(features, dim, bias)


class Identity(nn.Identity):
    """No head: the backbone's own features are the embedding."""


def build_head(spec: dict[str, Any], features: int) -> nn.Module:
    return build(spec, [sys.modules[__name__]], "head", features=features)
