"""Convert released checkpoints to Recheck models."""

from pathlib import Path
from typing import Any

import torch

from recheck.errors import UserError
from recheck.models.embedding import EmbeddingModel
from recheck.models.tensors import fit, read_tensors

WHAT = "Released weights"
# The head is one linear layer, `net.0`; the file may also store it as `last_linear`.
HEAD = {"net.0.weight": "weight", "net.0.bias": "bias"}
TWICE = {"last_linear.weight": "net.0.weight", "last_linear.bias": "net.0.bias"}


def convert_mlrc(spec: dict[str, Any], trunk: Path, embedder: Path) -> dict[str, torch.Tensor]:
    """Weights of a Recheck model with settings ``spec``, from the two files of a fold in layout ``mlrc``."""
    model = EmbeddingModel(spec, load_weights=False)
    fit(model.backbone, _plain(trunk), f"{WHAT} '{trunk}'")
    what, head = f"{WHAT} '{embedder}'", _plain(embedder)
    for copy, name in TWICE.items():
        if copy in head and name in head and not torch.equal(head.pop(copy), head[name]):
            raise UserError(f"{what}: tensors '{copy}' and '{name}' must be equal, but they differ.")
    for name in HEAD:
        if name not in head:
            raise UserError(f"{what} must contain tensor '{name}', found {', '.join(sorted(head)) or 'no tensors'}.")
    fit(model.head, {HEAD.get(name, name): tensor for name, tensor in head.items()}, what, ignored=())
    return model.state_dict()


def _plain(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a file, with the prefix ``module.`` (from training on several GPUs) removed from their names."""
    return {name.removeprefix("module."): tensor for name, tensor in read_tensors(path, WHAT).items()}
