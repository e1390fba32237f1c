"""One optimiser for each part of a run (backbone, head, loss), and their learning-rate schedules."""

from typing import Any

import torch
from torch import nn

from recheck.errors import UserError, nearest
from recheck.parts import build

FACTORS = "lr_factors"


def build_optimisers(spec: dict[str, Any], parts: dict[str, nn.Module]) -> dict[str, torch.optim.Optimizer]:
    """An optimiser for every part that has trainable parameters; a part without a setting is an error.

    ``lr_factors`` of a part, such as ``{Conv2d: 0.01}``, multiplies the learning rate of the parameters that modules of
    that class own themselves.
    """
    optimisers = {}
    for name, module in parts.items():
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            continue
        if name not in spec:
            raise UserError(f"'optimisers.{name}' is missing: the {name} has parameters to train.")
        factors = spec[name].get(FACTORS) or {}
        own = {key: value for key, value in spec[name].items() if key != FACTORS}
        params = _groups(module, factors, name) if factors else parameters
        optimiser = build(own, "optimiser", f"optimiser of the {name},", params=params)
        for group in optimiser.param_groups:
            group["lr"] *= group.pop("lr_factor", 1)
        optimisers[name] = optimiser
    return optimisers


def _groups(module: nn.Module, factors: dict[str, float], part: str) -> list[dict[str, Any]]:
    """The trainable parameters by the class of the module that owns them: those without a factor first."""
    owned: dict[str | None, list[nn.Parameter]] = {None: [], **{kind: [] for kind in factors}}
    seen, kinds = set(), set()
    for owner in module.modules():
        kind = type(owner).__name__
        for parameter in owner.parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                kinds.add(kind)
                owned[kind if kind in factors else None].append(parameter)
    for kind, factor in factors.items():
        if kind not in kinds:
            raise UserError(
                f"'optimisers.{part}.lr_factors': no trained module of the {part} is a '{kind}'; "
                f"{nearest(str(kind), kinds)}."
            )
        if not isinstance(factor, (int, float)) or isinstance(factor, bool) or factor < 0:
            raise UserError(f"'optimisers.{part}.lr_factors.{kind}' is a number from 0, not {factor!r}.")
    return [
        {"params": parameters} if kind is None else {"params": parameters, "lr_factor": factors[kind]}
        for kind, parameters in owned.items()
        if parameters
    ]


def build_schedulers(
    spec: dict[str, Any] | None, optimisers: dict[str, torch.optim.Optimizer]
) -> dict[str, torch.optim.lr_scheduler.LRScheduler]:
    """The same schedule, stepped after each epoch, on every optimiser; none if the protocol has none."""
    if spec is None:
        return {}
    return {
        name: build(spec, "lr_schedule", "learning-rate schedule", optimizer=optimiser)
        for name, optimiser in optimisers.items()
    }
