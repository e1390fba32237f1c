"""Losses and miners by name: from pytorch-metric-learning, from the folders here, or a user's ``module:Class``.

Each folder belongs to one paper, except ``library``; ``recheck.parts`` lists the classes. A loss is called as
``loss(embeddings, labels)``, with ``miner(embeddings, labels)`` as third argument if there is a miner. Embeddings are
the model's raw float32 outputs; labels are the ranks 0…T-1 of the fold's training classes. With the forward pass
``MultiView``, an image has several embeddings: (views, batch, dimension).
"""

from typing import Any

import torch
from torch import nn

from recheck.blame import name_of, place_of, user_code, wrong_result
from recheck.errors import UserError
from recheck.parts import build, module_of

SCALAR = "one number with a gradient: a tensor of shape (), such as the mean over the batch"
INDICES = "a tuple of 3 (anchor, positive, negative) or 4 (anchors, positives, anchors, negatives) 1-d index tensors"


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return module_of(build(spec, "loss", num_classes=num_classes, embedding_size=embedding_size), spec, "loss")


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return module_of(build(spec, "miner"), spec, "miner") if spec else None


def compute_loss(
    loss: nn.Module, miner: nn.Module | None, embeddings: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The loss of a batch: one number that can be differentiated."""
    mined = {} if miner is None else {"mined": _mine(miner, loss, embeddings, labels)}
    with user_code("loss", loss, embeddings=embeddings, labels=labels, **mined):
        try:
            value = loss(embeddings, labels, *mined.values())
        except IndexError:
            _check_range(miner, mined.get("mined"), len(labels))
            raise
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
        raise wrong_result("loss", loss, value, SCALAR)
    if embeddings.requires_grad and not value.requires_grad:
        raise wrong_result("loss", loss, value, f"{SCALAR}, but this one has no gradient: remove detach() or no_grad()")
    return value


def _mine(miner: nn.Module, loss: nn.Module, embeddings: torch.Tensor, labels: torch.Tensor) -> Any:
    """The miner's result. Losses of pytorch-metric-learning need tuples of indices; a user's loss may take anything."""
    with user_code("miner", miner, embeddings=embeddings, labels=labels):
        mined = miner(embeddings, labels)
    if type(loss).__module__.startswith("pytorch_metric_learning.") and not _are_indices(mined):
        raise wrong_result("miner", miner, mined, INDICES)
    return mined


def _check_range(miner: nn.Module | None, mined: Any, size: int) -> None:
    """Blame the miner for positions outside the batch. Called only after a failure, to keep steps fast."""
    if not _are_indices(mined):
        return
    positions = torch.cat(mined)
    if len(positions) and not 0 <= positions.min() <= positions.max() < size:
        raise UserError(
            f"{place_of(miner)}: the miner '{name_of(miner)}' returned positions from {positions.min()} to "
            f"{positions.max()}. It must return positions in the batch, from 0 to {size - 1}."
        )


def _are_indices(mined: Any) -> bool:
    return (
        isinstance(mined, tuple)
        and len(mined) in (3, 4)
        and all(isinstance(each, torch.Tensor) and each.ndim == 1 and not each.is_floating_point() for each in mined)
    )
