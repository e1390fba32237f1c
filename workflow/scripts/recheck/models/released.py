"""Convert released checkpoints to Recheck models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from recheck.errors import UserError, nearest
from recheck.models import pickled_module
from recheck.models.embedding import EmbeddingModel
from recheck.models.pickled import Thing, shown
from recheck.models.tensors import fit, module_tensors, read_tensors, read_torch, without_prefix

WHAT = "Released weights"
REMEDY = "use the checkpoint of this dataset"
# The head is one linear layer, `net.0`; the file may also store it as `last_linear`.
HEAD = {"net.0.weight": "weight", "net.0.bias": "bias"}
TWICE = {"last_linear.weight": "net.0.weight", "last_linear.bias": "net.0.bias"}


# Pooling of a study → class of the pooling in a pickled network.
POOLINGS = {"Max": "AdaptiveMaxPool2d", "Average": "AdaptiveAvgPool2d"}


def convert(layout: str, spec: dict[str, Any], files: Mapping[str, Path]) -> dict[str, torch.Tensor]:
    """Weights of a Recheck model with settings ``spec``, from the files of a fold in the given layout."""
    if layout not in CONVERTERS:
        raise UserError(f"Unknown layout '{layout}' of released checkpoints; {nearest(layout, CONVERTERS)}.")
    return CONVERTERS[layout](spec, **files)


def convert_mlrc(spec: dict[str, Any], trunk: Path, embedder: Path) -> dict[str, torch.Tensor]:
    """Weights of a Recheck model with settings ``spec``, from the two files of a fold in layout ``mlrc``."""
    model = EmbeddingModel(spec, load_weights=False)
    fit(model.backbone, _plain(trunk), f"{WHAT} '{trunk}'")
    what, head = f"{WHAT} '{embedder}'", _plain(embedder)
    for copy, name in TWICE.items():
        if copy in head and name in head and not torch.equal(head.pop(copy), head[name]):
            raise UserError(
                f"{what}: tensors '{copy}' and '{name}' must be equal, but they differ: download the file again."
            )
    for name in HEAD:
        if name not in head:
            raise UserError(
                f"{what} must contain tensor '{name}', found {', '.join(sorted(head)) or 'no tensors'}: {REMEDY}."
            )
    fit(model.head, {HEAD.get(name, name): tensor for name, tensor in head.items()}, what, ignored=())
    return model.state_dict()


def convert_contextual(spec: dict[str, Any], model: Path) -> dict[str, torch.Tensor]:
    """Weights of a Recheck model with settings ``spec``, from a file in layout ``contextual``.

    The file is a pickled tuple of network, losses and gradient scaler. The network has a ResNet-50 as ``backbone``, a
    linear layer ``remap`` and, on some datasets, a layer norm ``standardize`` between them. Networks of the other
    datasets have tensors of the same shapes, so the modules without tensors are compared too.
    """
    what = f"{WHAT} '{model}'"
    content = read_torch(model, WHAT)
    network = content[0] if type(content) is tuple and content else content
    if not pickled_module.is_module(network):
        raise UserError(
            f"{what} must be a tuple that starts with a pickled network, as the authors' program saves it: {REMEDY}."
        )
    network = pickled_module.unwrapped(network)
    parts = pickled_module.children(network)
    backbone, remap, norm = (parts.get(name) for name in ("backbone", "remap", "standardize"))
    listed = ", ".join(map(shown, list(parts)[:10])) or "none"
    for name, child in (("backbone", backbone), ("remap", remap)):
        if not pickled_module.is_module(child):
            raise UserError(f"{what} must have a module '{name}', found {listed}: {REMEDY}.")
    _check_modules(spec, backbone, norm, what)
    tensors = module_tensors(network, model, WHAT)
    converted = EmbeddingModel(spec, load_weights=False)
    for name, module in (("backbone", converted.backbone), ("remap", converted.head)):
        chosen = {key.removeprefix(f"{name}."): tensors.pop(key) for key in list(tensors) if key.startswith(f"{name}.")}
        fit(module, chosen, f"{what}, '{name}',", ignored=(), remedy=REMEDY)
    if tensors:
        raise UserError(f"{what} do not fit the network: it has no tensor '{shown(next(iter(tensors)))}'; {REMEDY}.")
    return converted.state_dict()


def _check_modules(spec: dict[str, Any], backbone: Thing, norm: Any, what: str) -> None:
    """Refuse a network whose pooling or head differs from the study's."""
    pooling = pickled_module.children(backbone).get("avgpool")
    actual = pooling.kind.name if pickled_module.is_module(pooling) else "nothing"
    expected = POOLINGS[(spec.get("pooling") or {"class": "Average"})["class"]]
    if actual != expected:
        raise UserError(f"{what} have the pooling {shown(actual)}, expected {expected}: {REMEDY}.")
    wanted = spec["head"]["class"] == "LayerNormLinear"
    if pickled_module.is_module(norm) != wanted:
        raise UserError(
            f"{what} have {'no' if wanted else 'a'} layer norm 'standardize', but 'model.head' is "
            f"{spec['head']['class']}: {REMEDY}."
        )


def _plain(path: Path) -> dict[str, torch.Tensor]:
    return without_prefix(read_tensors(path, WHAT), f"{WHAT} '{path}'")


CONVERTERS = {"mlrc": convert_mlrc, "contextual": convert_contextual}
