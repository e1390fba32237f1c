"""Checkpoints that others have published, as models of ours."""

from pathlib import Path
from typing import Any

import torch

from recheck.errors import UserError
from recheck.models.embedding import EmbeddingModel
from recheck.models.tensors import fit, read_tensors

WHAT = "Released weights"
# one layer, which that program's network also knows by another name
HEAD = {"net.0.weight": "weight", "net.0.bias": "bias"}
TWICE = {"last_linear.weight": "net.0.weight", "last_linear.bias": "net.0.bias"}


def convert_mlrc(spec: dict[str, Any], trunk: Path, embedder: Path) -> dict[str, torch.Tensor]:
    """The weights of our model of that specification, from the two files of a fold of layout ``mlrc``."""
    model = EmbeddingModel(spec, load_weights=False)
    fit(model.backbone, _plain(trunk), f"{WHAT} '{trunk}'")
    what, head = f"{WHAT} '{embedder}'", _plain(embedder)
    for copy, name in TWICE.items():
        if copy in head and name in head and not torch.equal(head.pop(copy), head[name]):
            raise UserError(f"{what}: '{copy}' and '{name}' should be the same tensor, and are not.")
    for name in HEAD:
        if name not in head:
            raise UserError(f"{what} have no tensor '{name}', only {', '.join(sorted(head)) or 'none'}.")
    fit(model.head, {HEAD.get(name, name): tensor for name, tensor in head.items()}, what, ignored=())
    return model.state_dict()


def _plain(path: Path) -> dict[str, torch.Tensor]:
    """Names without the ``module.`` that training on several GPUs puts before them."""
    return {name.removeprefix("module."): tensor for name, tensor in read_tensors(path, WHAT).items()}
