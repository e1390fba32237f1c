"""How weights start, as a part of YAML: ``{uniform: 0.2}``, ``{normal: 0.01}``, ``{kaiming_normal: fan_out}``, …"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from recheck.errors import UserError, nearest


def _uniform(weight: torch.Tensor, magnitude: float) -> None:
    """Uniform within ± sqrt(magnitude / ((fan in + fan out) / 2)); 3 is Xavier's rule."""
    bound = math.sqrt(magnitude / (sum(weight.shape) / 2))
    nn.init.uniform_(weight, -bound, bound)


def _normal(weight: torch.Tensor, std: float) -> None:
    nn.init.normal_(weight, std=std)


def _truncated_normal(weight: torch.Tensor, std: float) -> None:
    """Normal, drawn again beyond two standard deviations."""
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def _kaiming_normal(weight: torch.Tensor, mode: str) -> None:
    """Normal with variance 2 / fan."""
    nn.init.kaiming_normal_(weight, mode=mode)


RULES: dict[str, Callable[[torch.Tensor, Any], None]] = {
    "uniform": _uniform,
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "kaiming_normal": _kaiming_normal,
}


def initialise(weight: torch.Tensor, rule: dict[str, Any], what: str) -> None:
    """Fill a (fan out, fan in) matrix by a rule with its one number (or fan)."""
    if not isinstance(rule, dict) or len(rule) != 1:
        raise UserError(f"'init' of {what} is one rule such as {{uniform: 0.2}}, not {rule!r}.")
    ((name, value),) = rule.items()
    if name not in RULES:
        raise UserError(f"'init' of {what} has no rule '{name}'; {nearest(str(name), RULES)}.")
    if name == "kaiming_normal":
        valid = value in ("fan_in", "fan_out")
    else:
        valid = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
    if not valid:
        needs = "fan_in or fan_out" if name == "kaiming_normal" else "a number above 0"
        raise UserError(f"'init' of {what}: '{name}' needs {needs}, not {value!r}.")
    with torch.no_grad():
        RULES[name](weight, value)
