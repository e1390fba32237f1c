"""Forward pass of a training step: once, in several equal chunks, or several times with dropout."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from recheck.errors import UserError
from recheck.models.precision import at_least_float32
from recheck.parts import build


class Single:
    """One embedding per image."""

    # how often each image passes through the network, which is what a step costs
    passes = 1

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return at_least_float32(model(images))


class InTurns:
    """One embedding per image, from ``parts`` forward passes over equal consecutive chunks of the batch.

    Batch norm then computes its statistics separately for each chunk: for anchors and positives, or for supports and
    queries, if the sampler orders the batch that way.
    """

    passes = 1

    def __init__(self, parts: int):
        self.parts = parts

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        if len(images) % self.parts:
            raise UserError(f"'forward.parts' ({self.parts}) must divide 'sampler.batch' ({len(images)}).")
        return torch.cat([at_least_float32(model(chunk)) for chunk in images.chunk(self.parts)])


class Recomputed(InTurns):
    """Like ``InTurns``, in about 1/``parts`` of the memory and with one more forward pass (gradient caching).

    Only the embeddings of all chunks are kept, so the loss sees the whole batch. The backward pass starts with the
    loss's gradient with respect to the embeddings, then recomputes one chunk after another with the same random
    numbers. For any loss, the gradient equals that of a single pass up to rounding, unless the network mixes images, as
    trained batch norm does, or draws random numbers, which are then assigned to other images.
    """

    passes = 2

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        def embed(chunk: torch.Tensor) -> torch.Tensor:
            return checkpoint(
                model, chunk, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), _counted_once(model))
            )

        # Otherwise torch ends the second pass with an exception, which would look like an error in the user's code.
        with set_checkpoint_early_stop(False):
            return super().__call__(embed, images)


@contextlib.contextmanager
def _counted_once(model: nn.Module) -> Iterator[None]:
    """Context in which batch norm leaves its running statistics alone: the first pass has updated them."""
    modules = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.training]
    before = [(module, module.momentum, module.num_batches_tracked) for module in modules]
    for module in modules:
        module.momentum, module.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for module, momentum, count in before:
            module.momentum, module.num_batches_tracked = momentum, count


class MultiView:
    """``passes`` × ``masks`` embeddings per image, (passes · masks, batch, dimension).

    All passes run as one large batch. They differ by the model's dropout (``model.channel_dropout``), which is
    independent for each copy of an image. ``masks`` dropout masks are then applied to each result, with probability
    ``dropout`` per element. One large batch equals several small ones only if batch norm is frozen.
    """

    def __init__(self, passes: int, masks: int, dropout: float):
        self.passes, self.masks, self.dropout = passes, masks, dropout

    def __call__(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        embeddings = at_least_float32(model(images.repeat(self.passes, 1, 1, 1)))
        embeddings = embeddings.view(self.passes, 1, len(images), -1).expand(-1, self.masks, -1, -1)
        return dropout(embeddings, self.dropout, training=model.training).flatten(0, 1)


def build_forward(spec: dict[str, Any] | None) -> Single | InTurns | MultiView:
    return build(spec, "forward", "forward pass") if spec else Single()
