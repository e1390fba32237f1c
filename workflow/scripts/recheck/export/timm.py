"""The backbone as weights of a timm model, and the head beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from recheck.api.model import Model
from recheck.errors import UserError
from recheck.export.card import card
from recheck.files import atomic, write_json, write_text
from recheck.models.embedding import stored_settings

PREFIX = "timm/"
TOLERANCE = 1e-4
"""Largest accepted relative difference of a feature; other memory layouts change the last bits."""


def write_timm(model: Model, folder: Path) -> str:
    """Write ``config.json`` and ``model.safetensors`` for ``timm.create_model`` and ``load_state_dict``.

    The weights are loaded into a new timm model, and its features are compared with those of the run's backbone.
    """
    if len(model.networks) != 1:
        raise UserError(
            f"timm has no ensembles, and this run has {len(model.networks)} folds: export one fold, such as "
            f"{model.description.files[0].parent}."
        )
    network = model.networks[0]
    if not network.backbone_name.startswith(PREFIX):
        raise UserError(
            f"The backbone '{network.backbone_name}' is not one of timm's ('timm/<model>'): use `--to onnx` or "
            "`--to huggingface`."
        )
    import timm

    architecture = network.backbone_name.removeprefix(PREFIX)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.backbone.state_dict().items()}
    options = _settings(model, "backbone").get("options", {})
    rebuilt = timm.create_model(architecture, num_classes=0, **options)
    rebuilt.load_state_dict(weights)
    worst = _difference(rebuilt, network.backbone)
    if not worst <= TOLERANCE:
        raise UserError(
            f"A new timm model with these weights gives features that differ by up to {worst:.1e}: the backbone has "
            "options or a pooling that timm's model does not have. Use `--to huggingface` or `--to onnx`."
        )
    head = {name: tensor.detach().cpu().contiguous() for name, tensor in network.head.state_dict().items()}
    for name, tensors in (("model.safetensors", weights), ("head.safetensors", head)):
        if tensors:
            with atomic(folder / name) as temporary:
                save_file(tensors, temporary, metadata={"format": "pt"})
    mean, std = ([round(float(value) / 255, 6) for value in tensor.flatten()] for tensor in (network.mean, network.std))
    size = input_size(model)
    configuration = {
        "architecture": architecture,
        "num_classes": 0,
        "model_args": options,
        "num_features": network.features,
        "pretrained_cfg": {"input_size": [3, *size], "mean": mean, "std": std, "num_classes": 0, "crop_pct": 1.0},
    }
    write_json(folder / "config.json", configuration)
    described = json.dumps(_settings(model, "head"))
    write_text(
        folder / "README.md", card(model, "timm", architecture=architecture, head=described, options=repr(options))
    )
    return f"A new timm model with these weights has the same features: the largest difference is {worst:.1e}."


def _settings(model: Model, key: str) -> dict[str, Any]:
    """Settings of the head or the backbone."""
    return stored_settings(model.description.files[0])["model"][key]


def input_size(model: Model) -> tuple[int, int]:
    """Height and width of the network's input, found by preparing a black image of 512 x 512 pixels."""
    return tuple(model.prepare(np.zeros((512, 512, 3), np.uint8)).shape[-2:])


@torch.inference_mode()
def _difference(rebuilt: torch.nn.Module, backbone: torch.nn.Module) -> float:
    """Largest difference between the features of two backbones, relative to the largest feature."""
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    device = next(backbone.parameters()).device
    ours, theirs = backbone(images.to(device)).cpu(), rebuilt.eval()(images)
    return float((ours - theirs).abs().max() / ours.abs().max())
