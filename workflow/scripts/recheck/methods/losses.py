"""Losses and miners by name: pytorch-metric-learning's, or a user's own ``module:Class``.

A loss is called as ``loss(embeddings, labels)``, and with ``miner(embeddings, labels)`` as third argument if there is a
miner. Embeddings are the model's raw float32 outputs, labels the ranks 0…T-1 of the fold's training classes.
"""

from typing import Any

from pytorch_metric_learning import losses, miners
from torch import nn

from recheck.registry import build


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return build(spec, [losses], "loss", num_classes=num_classes, embedding_size=embedding_size)


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return build(spec, [miners], "miner") if spec else None
