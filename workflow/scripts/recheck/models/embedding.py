"""The model every run trains: images as bytes in, embeddings out."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from recheck import seal
from recheck.errors import UserError
from recheck.files import fingerprint
from recheck.models import heads
from recheck.models.backbones import build_backbone, replace_pooling
from recheck.names import BEST_ON_TEST
from recheck.parts import takes

FROZEN = ("frozen", "frozen_affine")
BEST = f"{BEST_ON_TEST}/"


class EmbeddingModel(nn.Module):
    """Backbone and head.

    It takes uint8 RGB images, and orders their channels and normalises them itself, so that it happens exactly once.
    ``num_classes`` is the number of training classes, for heads that ask for it; ``dim`` the size of an embedding.
    """

    def __init__(self, spec: dict[str, Any], load_weights: bool = True, num_classes: int | None = None):
        super().__init__()
        backbone = build_backbone(spec["backbone"], load_weights)
        if spec.get("pooling"):
            replace_pooling(backbone, spec["pooling"], spec["backbone"]["name"])
        self.backbone = backbone.network
        known = {} if num_classes is None else {"num_classes": num_classes}
        self.head = heads.build_head(spec["head"], backbone.features, **known)
        self.dim = getattr(self.head, "dim", None) or spec["head"].get("dim", backbone.features)
        self.bgr = backbone.channel_order == "bgr"
        self.frozen = spec["backbone"].get("frozen", False)
        if self.frozen:
            self.backbone.requires_grad_(False)
        self.input_scale = spec["backbone"].get("input_scale", 1)
        batch_norm = spec.get("batch_norm", "trained")
        self.frozen_batch_norm = batch_norm in FROZEN
        if batch_norm == "frozen_affine":
            for module in self._batch_norms():
                for parameter in module.parameters():
                    parameter.requires_grad_(False)
        self.register_buffer("mean", torch.tensor(backbone.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std).view(1, -1, 1, 1), persistent=False)
        if rate := spec.get("channel_dropout", 0):
            first = _first_convolution(self.backbone, spec["backbone"]["name"])
            first.register_forward_hook(functools.partial(_drop_channels, rate))
        self.to(memory_format=torch.channels_last)

    def train(self, mode: bool = True) -> "EmbeddingModel":
        """Frozen batch-norm keeps its statistics in training too; unless ``frozen_affine``, scale and shift train.

        A frozen backbone does in training what it does in evaluation, without dropping anything.
        """
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        if self.frozen_batch_norm:
            for module in self._batch_norms():
                module.eval()
        return self

    def _batch_norms(self) -> Iterator[nn.Module]:
        found = self.backbone.modules()
        return (module for module in found if isinstance(module, nn.modules.batchnorm._BatchNorm))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        ordered = images.flip(1) if self.bgr else images
        pixels = ordered.float() if self.input_scale == 1 else ordered.float() * self.input_scale
        normalised = (pixels - self.mean) / self.std
        return self.head(self.backbone(normalised.contiguous(memory_format=torch.channels_last)))


def _first_convolution(backbone: nn.Module, name: str) -> nn.Module:
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            return module
    raise UserError(f"'channel_dropout' needs a convolution, and backbone '{name}' has none.")


def _drop_channels(rate: float, module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """A hook, so that no module is added and the names of the weights stay; each image loses channels of its own."""
    return F.dropout2d(output, rate, module.training)


def save_model(
    path: str | Path,
    weights: dict[str, torch.Tensor],
    spec: dict[str, Any],
    data: dict[str, str],
    num_classes: int | None = None,
    best_on_test: dict[str, torch.Tensor] | None = None,
) -> None:
    """Write weights as safetensors, with the model's own configuration and the hashes of the data it was trained on.

    A second checkpoint, the best on the test set, goes into the same file under names of its own. ``num_classes`` is
    kept for heads that ask for it.
    """
    about = {"model": spec, "data": data}
    if num_classes is not None and takes(spec["head"], "head", "num_classes"):
        about["num_classes"] = num_classes
    both = {**weights, **{f"{BEST}{name}": tensor for name, tensor in (best_on_test or {}).items()}}
    seal.write(path, {name: tensor.detach().cpu().contiguous() for name, tensor in both.items()}, save_file, about)


def load_model(path: str | Path, spec: dict[str, Any], data: dict[str, str], device: torch.device) -> EmbeddingModel:
    """The trained model, in evaluation mode; a file of another configuration or of other data is refused."""
    return next(load_models(path, spec, data, device))[1]


def load_models(
    path: str | Path, spec: dict[str, Any], data: dict[str, str], device: torch.device
) -> Iterator[tuple[str, EmbeddingModel]]:
    """The run's model with the prefix "", then, where there is one, the best on the test set with its prefix."""
    made, weights = _read(path)
    if fingerprint(made.get("model")) != fingerprint(spec):
        raise UserError(f"{path} was trained with another 'model' configuration: delete it and run again.")
    if made.get("data") != data:
        raise UserError(f"{path} was trained on another split or other images: delete it and run again.")
    best = {name.removeprefix(BEST): tensor for name, tensor in weights.items() if name.startswith(BEST)}
    for prefix, own in (("", _main(weights)), (BEST, best)):
        if own:
            model = EmbeddingModel(spec, load_weights=False, num_classes=made.get("num_classes"))
            model.load_state_dict(own)
            yield prefix, model.to(device).eval()


def load_any(path: str | Path, device: torch.device, own_code: bool = False) -> EmbeddingModel:
    """The model of a file that tells itself what it is, in evaluation mode; for use, not for a study.

    A file may come from anyone, and a spec with ``module:name`` imports and calls what it names, which could be
    anything. ``own_code`` says that the file is trusted to do so; otherwise it is refused.
    """
    made, weights = _read(path)
    spec = made.get("model") if isinstance(made, dict) else None
    if not isinstance(spec, dict) or not all(isinstance(spec.get(part), dict) for part in ("backbone", "head")):
        raise UserError(f"{path} is no model that Recheck has trained: it does not say which network it is of.")
    if not own_code and (named := _own_code(spec)):
        raise UserError(
            f"{path} needs code that is not Recheck's, '{named}', which would be run: if you trust this file, allow it "
            "with `own_code=True`, on the command line `--own-code`."
        )
    try:
        model = EmbeddingModel(spec, load_weights=False, num_classes=made.get("num_classes"))
        model.load_state_dict(_main(weights))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: names or shapes do not fit
        raise UserError(
            f"The weights in {path} do not fit the network that it says it is of: was it made by another version?"
        ) from error
    return model.to(device).eval()


def _read(path: str | Path) -> tuple[Any, dict[str, torch.Tensor]]:
    """What a file says about itself, and its tensors."""
    seal.check(path)
    try:
        with safe_open(path, framework="pt") as file:
            made = json.loads((file.metadata() or {}).get("recheck", "{}"))
            return made, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run again, it will be trained anew.") from error


def _main(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in weights.items() if not name.startswith(BEST)}


def _own_code(part: Any) -> str | None:
    """The first ``module:name`` that building a part would import."""
    if isinstance(part, list):
        part = dict(enumerate(part))
    if not isinstance(part, dict):
        return None
    named = (part[key] for key in ("name", "class") if ":" in str(part.get(key, "")))
    return next(named, None) or next(filter(None, map(_own_code, part.values())), None)
