"""The forward pass of a training step: once, in turns, or several times with dropout."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout

from recheck.errors import UserError
from recheck.parts import build


class Single:
    """One embedding of each image."""

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return model(images).float()


class InTurns:
    """One embedding of each image, from ``parts`` forward passes over equal consecutive parts of the batch.

    Batch-norm then takes its statistics from each part alone: anchors by themselves and positives by themselves, or
    supports and queries, where the sampler puts them into the batch in that order.
    """

    def __init__(self, parts: int):
        self.parts = parts

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        if len(images) % self.parts:
            raise UserError(f"'forward': a batch of {len(images)} images can't be cut into {self.parts} equal parts.")
        return torch.cat([model(part).float() for part in images.chunk(self.parts)])


class MultiView:
    """``passes`` × ``masks`` embeddings of each image, (passes · masks, batch, dimension).

    All passes are one large batch: they differ by the model's own dropout (``model.channel_dropout``), which is
    independent for each copy. Each result is then dropped out ``masks`` times, elements with probability ``dropout``.
    One large pass is the same as several small ones only where batch-norm is frozen.
    """

    def __init__(self, passes: int, masks: int, dropout: float):
        self.passes, self.masks, self.dropout = passes, masks, dropout

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        embeddings = model(images.repeat(self.passes, 1, 1, 1)).float()
        embeddings = embeddings.view(self.passes, 1, len(images), -1).expand(-1, self.masks, -1, -1)
        return dropout(embeddings, self.dropout, training=model.training).flatten(0, 1)


def build_forward(spec: dict[str, Any] | None) -> Single | InTurns | MultiView:
    return build(spec, "forward", "forward pass") if spec else Single()
