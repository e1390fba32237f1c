"""Losses and miners by name: pytorch-metric-learning's, those of the folders here, or a user's own ``module:Class``.

There is one folder per paper, and ``recheck.parts`` lists their classes. A loss is called as
``loss(embeddings, labels)``, and with ``miner(embeddings, labels)`` as third argument if there is a miner. Embeddings
are the model's raw float32 outputs, labels the ranks 0…T-1 of the fold's training classes. With the forward pass
``MultiView`` there are several embeddings of each image: (views, batch, dimension).
"""

from typing import Any

from torch import nn

from recheck.parts import build


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return build(spec, "loss", num_classes=num_classes, embedding_size=embedding_size)


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return build(spec, "miner") if spec else None
