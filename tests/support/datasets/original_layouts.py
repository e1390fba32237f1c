"""Checkpoints as the authors' programs write them. The networks' classes exist only while a file is pickled."""

import contextlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn


def contextual_network(norm: bool, seed: int = 0) -> nn.Module:
    """The 256-pixel network of contextual similarity; ``norm``: as on CUB and Cars."""
    from torchvision.models import resnet50

    torch.manual_seed(seed)
    kind = type("CUB_Network" if norm else "SOP_Network", (nn.Module,), {"__module__": "networks"})
    network = kind()
    network.backbone = resnet50()
    if norm:
        network.backbone.avgpool = nn.AdaptiveMaxPool2d((1, 1))
    network.backbone.fc = nn.Identity()
    if norm:
        network.standardize = nn.LayerNorm(2048, elementwise_affine=False)
    network.remap = nn.Linear(2048, 512, bias=True)
    return network.eval()


def embed(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """The embeddings of normalised images, as the authors' forward pass computes them (in float32)."""
    with torch.inference_mode():
        features = network.backbone(images)
        standardise = getattr(network, "standardize", nn.Identity())
        return nn.functional.normalize(network.remap(standardise(features)))


def gradient_scaler() -> torch.amp.GradScaler:
    """A gradient scaler that has been used."""
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    return scaler


def save_contextual(path: Path, network: nn.Module, legacy: bool = False, protocol: int = 2) -> None:
    """Network, losses and scaler in one tuple, as the authors' program saves them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, (network, [0.51, 0.42, 0.33], gradient_scaler()), legacy, protocol)


def save(path: Path, content: Any, legacy: bool = False, protocol: int = 2) -> None:
    with _importable(content):
        torch.save(content, path, _use_new_zipfile_serialization=not legacy, pickle_protocol=protocol)


@contextlib.contextmanager
def _importable(content: Any) -> Iterator[None]:
    """Let pickle find the networks' classes; a file that is read must not need them."""
    module = types.ModuleType("networks")
    values = content.values() if isinstance(content, dict) else content if isinstance(content, tuple) else [content]
    for value in values:
        for submodule in value.modules() if isinstance(value, nn.Module) else ():
            if type(submodule).__module__ == "networks":
                setattr(module, type(submodule).__name__, type(submodule))
    sys.modules["networks"] = module
    try:
        yield
    finally:
        del sys.modules["networks"]
