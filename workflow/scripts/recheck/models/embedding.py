"""The model that every run trains: uint8 images in, embeddings out."""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from recheck import seal
from recheck.blame import user_code, wrong_result
from recheck.errors import UserError, nearest
from recheck.files import fingerprint
from recheck.models import heads
from recheck.models.backbones import build_backbone, replace_pooling
from recheck.models.batch_norm import track_biased_variance
from recheck.models.precision import at_least_float32
from recheck.models.tensors import fit
from recheck.names import BEST_ON_TEST
from recheck.parts import takes

FROZEN = ("frozen", "frozen_affine")
BEST = f"{BEST_ON_TEST}/"
LOSS = "loss/"
"""Prefix of the loss's tensors in a model file: learned temperatures, proxies and so on."""
LONGEST = 300
"""Maximum number of characters that a message quotes from an error."""


class EmbeddingModel(nn.Module):
    """Backbone and head.

    The input is uint8 RGB images. The model itself orders their channels and normalises them, so that this happens
    exactly once. ``num_classes`` is the number of training classes, for heads that take it as an argument. ``dim`` is
    the size of an embedding.
    """

    def __init__(self, spec: dict[str, Any], load_weights: bool = True, num_classes: int | None = None):
        super().__init__()
        backbone = build_backbone(spec["backbone"], load_weights)
        if spec.get("pooling"):
            replace_pooling(backbone, spec["pooling"], spec["backbone"]["name"])
        self.backbone, self.features = backbone.network, backbone.features
        self.run_backbone: Callable[[torch.Tensor], torch.Tensor] | None = None  # a faster way to compute its output
        self.backbone_name, self.weights_file = spec["backbone"]["name"], backbone.weights
        known = {} if num_classes is None else {"num_classes": num_classes}
        self.head = heads.build_head(spec["head"], backbone.features, **known)
        self.dim = getattr(self.head, "dim", None) or spec["head"].get("dim", backbone.features)
        self.bgr = backbone.channel_order == "bgr"
        self.frozen = _frozen_modules(self.backbone, spec["backbone"].get("frozen", False))
        self.input_scale = spec["backbone"].get("input_scale", 1)
        batch_norm = spec.get("batch_norm", "trained")
        self.frozen_batch_norm = batch_norm in FROZEN
        if spec.get("batch_norm_variance") == "biased":
            for module in self.batch_norms():
                track_biased_variance(module)
        if batch_norm == "frozen_affine":
            for module in self.batch_norms():
                for parameter in module.parameters():
                    parameter.requires_grad_(False)
        self.register_buffer("mean", torch.tensor(backbone.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std).view(1, -1, 1, 1), persistent=False)
        if rate := spec.get("channel_dropout", 0):
            first = _first_convolution(self.backbone, spec["backbone"]["name"])
            first.register_forward_hook(functools.partial(_drop_channels, rate))
        self.memory_format = torch.channels_last if spec.get("channels_last", True) else torch.contiguous_format
        self.to(memory_format=self.memory_format)

    def train(self, mode: bool = True) -> "EmbeddingModel":
        """Set training mode; frozen modules stay in evaluation mode.

        Frozen batch norm keeps its statistics; its scale and shift still train unless it is ``frozen_affine``. A frozen
        backbone, or a frozen module of it, behaves as in evaluation, without any dropout.
        """
        super().train(mode)
        for module in self.frozen:
            module.eval()
        if self.frozen_batch_norm:
            for module in self.batch_norms():
                module.eval()
        return self

    def train_affine(self) -> None:
        """Let scales and shifts of batch norm train, even if ``batch_norm`` is ``frozen_affine``."""
        for module in self.batch_norms():
            module.requires_grad_(True)

    def batch_norms(self) -> Iterator[nn.Module]:
        modules = self.backbone.modules()
        return (module for module in modules if isinstance(module, nn.modules.batchnorm._BatchNorm))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.embeddings_of(self.features_of(images))

    def features_of(self, images: torch.Tensor) -> torch.Tensor:
        """The backbone's output."""
        ordered = images.flip(1) if self.bgr else images
        pixels = ordered.to(self.mean.dtype)
        if self.input_scale != 1:
            pixels = pixels * self.input_scale
        normalised = ((pixels - self.mean) / self.std).contiguous(memory_format=self.memory_format)
        with user_code("backbone", self.backbone, images=normalised):
            features = (self.run_backbone or self.backbone)(normalised)
        if not isinstance(features, torch.Tensor) or features.shape != (len(images), self.features):
            expected = f"features of shape ({len(images)}, {self.features}), as its 'num_features' says"
            raise wrong_result("backbone", self.backbone, features, expected, self.backbone_name)
        return features

    def embeddings_of(self, features: torch.Tensor) -> torch.Tensor:
        """The head's output."""
        with user_code("head", self.head, features=features):
            embeddings = self.head(features)
        if not isinstance(embeddings, torch.Tensor) or embeddings.shape != (len(features), self.dim):
            expected = f"embeddings of shape ({len(features)}, {self.dim}); its 'dim' is the size of its output"
            raise wrong_result("head", self.head, embeddings, expected)
        return embeddings


class FeaturesToo(nn.Module):
    """The backbone's features and the model's embeddings side by side, from one pass."""

    def __init__(self, model: EmbeddingModel):
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.model.features_of(images)
        return torch.cat([at_least_float32(rows) for rows in (features, self.model.embeddings_of(features))], dim=1)


def _frozen_modules(backbone: nn.Module, frozen: bool | list[str]) -> list[nn.Module]:
    """Freeze the weights of the backbone, or of its modules and parameters by name; return the frozen modules."""
    if not isinstance(frozen, list):
        return [backbone.requires_grad_(False)] if frozen else []
    modules, parameters = dict(backbone.named_modules()), dict(backbone.named_parameters())
    for name in frozen:
        if not name or name not in modules | parameters:
            known = [known for known in modules | parameters if known]
            raise UserError(
                f"'model.backbone.frozen' names '{name}', which the backbone does not have; {nearest(name, known)}."
            )
        (modules | parameters)[name].requires_grad_(False)
    return [modules[name] for name in frozen if name in modules]


def _first_convolution(backbone: nn.Module, name: str) -> nn.Module:
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            return module
    raise UserError(f"'channel_dropout' needs a backbone with a convolution, but '{name}' has none: remove the key.")


def _drop_channels(rate: float, module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """Drop channels of each image independently. A forward hook, because a module would change the weights' names."""
    return F.dropout2d(output, rate, module.training)


def save_model(
    path: str | Path,
    weights: dict[str, torch.Tensor],
    spec: dict[str, Any],
    data: dict[str, str],
    num_classes: int | None = None,
    best_on_test: dict[str, torch.Tensor] | None = None,
) -> None:
    """Write weights as safetensors, with the model's settings and the hashes of its training data.

    The checkpoint that is best on the test set goes into the same file, under prefixed names, and so does the state of
    the loss, which is ignored when a model is loaded. ``num_classes`` is stored for heads that take it as an argument.
    """
    about = {"model": spec, "data": data}
    if num_classes is not None and takes(spec["head"], "head", "num_classes"):
        about["num_classes"] = num_classes
    both = {**weights, **{f"{BEST}{name}": tensor for name, tensor in (best_on_test or {}).items()}}
    seal.write(path, {name: tensor.detach().cpu().contiguous() for name, tensor in both.items()}, save_file, about)


def load_model(path: str | Path, spec: dict[str, Any], data: dict[str, str], device: torch.device) -> EmbeddingModel:
    """Trained model in evaluation mode; refuses a file with other model settings or training data."""
    return next(load_models(path, spec, data, device))[1]


def load_models(
    path: str | Path, spec: dict[str, Any], data: dict[str, str], device: torch.device
) -> Iterator[tuple[str, EmbeddingModel]]:
    """Yield the run's model with prefix "", then the model that is best on the test set, if any, with its prefix."""
    about, weights = _read(path)
    if fingerprint(about.get("model")) != fingerprint(spec):
        raise UserError(f"{path} was trained with different 'model' settings: delete it and run again.")
    if about.get("data") != data:
        raise UserError(f"{path} was trained on a different split or on different images: delete it and run again.")
    best = {name.removeprefix(BEST): tensor for name, tensor in weights.items() if name.startswith(BEST)}
    for prefix, checkpoint in (("", network_weights(weights)), (BEST, network_weights(best))):
        if checkpoint or not prefix:
            model = EmbeddingModel(spec, load_weights=False, num_classes=about.get("num_classes"))
            fit(model, checkpoint, f"The weights in {path}", ignored=(), remedy="delete the file and run again")
            yield prefix, model.to(device).eval()


def load_any(path: str | Path, device: torch.device, own_code: bool = False) -> EmbeddingModel:
    """Model built from the settings stored in the file, in evaluation mode; for use outside of a study.

    The file may come from anyone, and a stored ``module:name`` would import and call arbitrary code. Such a file is
    refused unless ``own_code`` declares it trusted.
    """
    about, weights = _read(path)
    spec = about.get("model") if isinstance(about, dict) else None
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key), dict) for key in ("backbone", "head")):
        raise UserError(
            f"{path} is not a model trained by Recheck, because it does not describe its network: use the "
            "model.safetensors of a run."
        )
    if not own_code and (named := _own_code(spec)):
        raise UserError(
            f"{path} would run code from outside Recheck, '{named}'. If you trust this file, pass `own_code=True` "
            "(on the command line, `--own-code`)."
        )
    remedy = "another version of Recheck may have written the file. Train it again"
    kept = network_weights(weights)
    try:
        if not own_code:
            _check_size(spec, about.get("num_classes"), kept)
        model = EmbeddingModel(spec, load_weights=False, num_classes=about.get("num_classes"))
    except (UserError, AttributeError, ArithmeticError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:LONGEST].rstrip(".")
        raise UserError(f"{path} describes a network that cannot be built ({reason}); {remedy}.") from error
    fit(model, kept, f"The weights in {path}", ignored=(), remedy=remedy)
    return model.to(device).eval()


def stored_settings(path: str | Path) -> dict[str, Any]:
    """Metadata of a model file: the settings of its network and the hashes of its training data."""
    return {key: value for key, value in _read(path)[0].items() if not key.startswith("_")}


def _check_size(spec: dict[str, Any], num_classes: Any, weights: dict[str, torch.Tensor]) -> None:
    """Refuse settings of a network that is much larger than the stored weights, before it fills the memory."""
    with torch.device("meta"):
        expected = EmbeddingModel(spec, load_weights=False, num_classes=num_classes).state_dict()
    count, stored = (sum(tensor.numel() for tensor in tensors.values()) for tensors in (expected, weights))
    if count > 2 * stored:
        raise ValueError(f"it would have {count:,} numbers, but the file has {stored:,}")


def _read(path: str | Path) -> tuple[Any, dict[str, torch.Tensor]]:
    """Metadata and tensors of a model file."""
    seal.check(path)
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("recheck", "{}"))
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run again to retrain it.") from error


def network_weights(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of the network itself, without a second checkpoint and without the state of the loss."""
    return {name: tensor for name, tensor in weights.items() if not name.startswith((BEST, LOSS))}


def _own_code(spec: Any) -> str | None:
    """First ``module:name`` that building the model would import, or None."""
    if isinstance(spec, list):
        spec = dict(enumerate(spec))
    if not isinstance(spec, dict):
        return None
    named = (spec[key] for key in ("name", "class") if ":" in str(spec.get(key, "")))
    return next(named, None) or next(filter(None, map(_own_code, spec.values())), None)
