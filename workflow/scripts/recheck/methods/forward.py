"""The forward pass of a training step: once, or several times with dropout."""

import sys
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout

from recheck.registry import build


class Single:
    """One embedding of each image."""

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return model(images).float()


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


def build_forward(spec: dict[str, Any] | None) -> Single | MultiView:
    return build(spec, [sys.modules[__name__]], "forward pass") if spec else Single()
