"""One optimiser per module of a run (backbone, head, projector, loss), and their learning-rate schedules."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from recheck.errors import UserError, nearest
from recheck.parts import build

FACTORS = "lr_factors"
SCHEDULE = "lr_schedule"
KEEP = "keep_gradients"


def build_optimisers(spec: dict[str, Any], modules: dict[str, nn.Module]) -> dict[str, torch.optim.Optimizer]:
    """One optimiser for every module with trainable parameters; each needs an entry in ``optimisers``.

    ``lr_factors`` of an entry, such as ``{Conv2d: 0.01}``, multiplies the learning rate of the parameters that belong
    directly to submodules of that class.
    """
    optimisers = {}
    for name, module in modules.items():
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            continue
        if name not in spec:
            raise UserError(f"'optimisers.{name}' is missing, but the {name} has trainable parameters: add it.")
        factors = spec[name].get(FACTORS) or {}
        settings = {key: value for key, value in spec[name].items() if key not in (FACTORS, SCHEDULE, KEEP)}
        params = _groups(module, factors, name) if factors else parameters
        optimiser = build(settings, "optimiser", f"{name} optimiser", params=params)
        for group in optimiser.param_groups:
            group["lr"] *= group.pop("lr_factor", 1)
        optimisers[name] = optimiser
    return optimisers


def _groups(module: nn.Module, factors: dict[str, float], name: str) -> list[dict[str, Any]]:
    """Trainable parameters grouped by the class of the submodule they belong to; those without a factor come first."""
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
                f"Unknown class '{kind}' in 'optimisers.{name}.lr_factors': the {name} has no trainable submodule of "
                f"that class; {nearest(str(kind), kinds)}."
            )
        if not isinstance(factor, (int, float)) or isinstance(factor, bool) or factor < 0:
            raise UserError(f"'optimisers.{name}.lr_factors.{kind}' must be a number of at least 0, found {factor!r}.")
    return [
        {"params": parameters} if kind is None else {"params": parameters, "lr_factor": factors[kind]}
        for kind, parameters in owned.items()
        if parameters
    ]


def build_schedulers(
    common: dict[str, Any] | None, optimisers: dict[str, torch.optim.Optimizer], spec: dict[str, Any]
) -> dict[str, torch.optim.lr_scheduler.LRScheduler]:
    """The learning-rate schedules by optimiser, stepped after each epoch; an optimiser with a constant rate has none.

    ``common`` is the study's schedule. ``lr_schedule`` of an entry in ``optimisers`` replaces it.
    """
    chosen = {name: spec[name].get(SCHEDULE, common) for name in optimisers}
    return {
        name: build(schedule, "lr_schedule", "learning-rate schedule", optimizer=optimisers[name])
        for name, schedule in chosen.items()
        if schedule is not None
    }


def keeping_gradients(spec: dict[str, Any], optimisers: Iterable[str]) -> set[str]:
    """The optimisers whose gradients are never set to zero, so that each step's gradients add to all earlier ones."""
    return {name for name in optimisers if spec[name].get(KEEP, False)}


class Together:
    """Several optimisers that step together, so that a gradient scaler steps either all of them or none."""

    def __init__(self, optimisers: Iterable[torch.optim.Optimizer]):
        self.optimisers = list(optimisers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self.optimisers for group in optimiser.param_groups]

    @property
    def parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def step(self) -> None:
        for optimiser in self.optimisers:
            optimiser.step()
