"""Counting on meta tensors, which have shapes but no values: a training step takes a second and no memory."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recheck.cost.counts import Counts
from recheck.errors import UserError
from recheck.models.embedding import EmbeddingModel
from recheck.parts import build

log = logging.getLogger("recheck")
BATCH = 2
"""Images that are counted; all counts are proportional to their number."""
CLASSES = 100
"""Training classes, for heads that depend on their number."""


class Counter:
    """Counts each distinct network and input size once. ``failed`` has the networks that can't be counted, and why."""

    def __init__(self) -> None:
        self.known: dict[str, Counts | None] = {}
        self.failed: dict[str, str] = {}

    def __call__(self, model: Mapping[str, Any], side: int) -> Counts | None:
        key = json.dumps([_without_weights(model), side], sort_keys=True)
        if key not in self.known:
            self.known[key] = self._count(model, side)
        return self.known[key]

    def _count(self, model: Mapping[str, Any], side: int) -> Counts | None:
        try:
            return count(model, side)
        except Exception as error:  # a user's network may do anything
            name = model["backbone"]["name"]
            self.failed[name] = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            log.debug("cannot count %s", name, exc_info=error)
            return None


def count(model: Mapping[str, Any], side: int) -> Counts:
    """Count one training step and one evaluation of the network on square images."""
    spec = _without_weights(model)
    with torch.device("meta"):
        network = EmbeddingModel(spec, load_weights=False, num_classes=CLASSES)
        projector = build(spec["projector"], "projector", features=network.dim) if spec.get("projector") else None
    modules = nn.ModuleList([network, *([projector] if projector is not None else [])]).train()
    weights = [*modules.parameters(), *modules.buffers()]
    if any(tensor.device.type != "meta" for tensor in weights):
        raise UserError("the network does not build its weights on the default device")
    network.train()  # again, because frozen modules stay in evaluation mode
    images = torch.empty(BATCH, 3, side, side, dtype=torch.uint8, device="meta")
    of_weights = {tensor.untyped_storage()._cdata for tensor in weights}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in of_weights:
            saved[storage._cdata] = storage
        return tensor

    with (
        FlopCounterMode(display=False) as flops,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        embeddings = network(images)
        forward = flops.get_total_flops()
        outputs = embeddings if projector is None else projector(embeddings)
        whole = flops.get_total_flops()
        if outputs.requires_grad:
            outputs.sum().backward()
        training = flops.get_total_flops()
    if any(
        isinstance(module, nn.Conv2d) and module.groups > 1 and module.weight.requires_grad
        for module in modules.modules()
    ):
        # torch counts the backward pass of a grouped convolution as if it had one group
        training = 3 * whole
    trainable = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    return Counts(
        forward=forward / BATCH,
        training=training / BATCH,
        saved=sum(storage.nbytes() for storage in saved.values()) / BATCH,
        parameters=sum(tensor.numel() for tensor in weights),
        trainable=sum(parameter.numel() for parameter in trainable),
        dim=network.dim,
    )


def _without_weights(model: Mapping[str, Any]) -> dict[str, Any]:
    """The model's settings without its weights, which change no count and may not be downloaded yet."""
    backbone = {key: value for key, value in model["backbone"].items() if key not in ("weights", "sha256")}
    return {**model, "backbone": backbone}
