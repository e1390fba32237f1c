"""One optimiser for each part of a run (backbone, head, loss), and their learning-rate schedules."""

from typing import Any

import torch
from torch import nn

from recheck.errors import UserError
from recheck.registry import build


def build_optimisers(spec: dict[str, Any], parts: dict[str, nn.Module]) -> dict[str, torch.optim.Optimizer]:
    """An optimiser for every part that has trainable parameters; a part without a setting is an error."""
    optimisers = {}
    for name, module in parts.items():
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            continue
        if name not in spec:
            raise UserError(f"'optimisers.{name}' is missing: the {name} has parameters to train.")
        optimisers[name] = build(spec[name], [torch.optim], f"optimiser of the {name},", params=parameters)
    return optimisers


def build_schedulers(
    spec: dict[str, Any] | None, optimisers: dict[str, torch.optim.Optimizer]
) -> dict[str, torch.optim.lr_scheduler.LRScheduler]:
    """The same schedule, stepped after each epoch, on every optimiser; none if the protocol has none."""
    if spec is None:
        return {}
    modules = [torch.optim.lr_scheduler]
    return {name: build(spec, modules, "scheduler", optimizer=optimiser) for name, optimiser in optimisers.items()}
