"""Losses and miners by name: from pytorch-metric-learning, from the folders here, or a user's ``module:Class``.

Each folder belongs to one paper; ``recheck.parts`` lists the classes. A loss is called as ``loss(embeddings, labels)``,
with ``miner(embeddings, labels)`` as third argument if there is a miner. Embeddings are the model's raw float32
outputs; labels are the ranks 0…T-1 of the fold's training classes. With the forward pass ``MultiView``, an image has
several embeddings: (views, batch, dimension).
"""

from typing import Any

from torch import nn

from recheck.parts import build


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return build(spec, "loss", num_classes=num_classes, embedding_size=embedding_size)


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return build(spec, "miner") if spec else None
