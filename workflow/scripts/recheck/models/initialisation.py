"""Initial weights from a rule in YAML: ``uniform 0.2``, ``normal 0.01``, ``kaiming_normal fan_out``, …"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from recheck.errors import UserError, nearest


def _uniform(weight: torch.Tensor, magnitude: float) -> None:
    """Uniform within ± sqrt(magnitude / ((fan in + fan out) / 2)); magnitude 3 is Xavier's rule."""
    bound = math.sqrt(magnitude / (sum(weight.shape) / 2))
    nn.init.uniform_(weight, -bound, bound)


def _normal(weight: torch.Tensor, std: float) -> None:
    nn.init.normal_(weight, std=std)


def _truncated_normal(weight: torch.Tensor, std: float) -> None:
    """Normal distribution truncated at two standard deviations."""
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def _kaiming_normal(weight: torch.Tensor, mode: str) -> None:
    """Normal distribution with variance 2 / fan."""
    nn.init.kaiming_normal_(weight, mode=mode)


def _orthogonal(weight: torch.Tensor, gain: float) -> None:
    """Rows (or columns, if there are fewer) of length ``gain`` that are orthogonal to each other."""
    nn.init.orthogonal_(weight, gain)


RULES: dict[str, Callable[[torch.Tensor, Any], None]] = {
    "uniform": _uniform,
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "kaiming_normal": _kaiming_normal,
    "orthogonal": _orthogonal,
}


def initialise(weight: torch.Tensor, rule: str, what: str) -> None:
    """Fill a (fan out, fan in) matrix by a rule, which is a name and a number (or ``fan_in`` or ``fan_out``)."""
    name, _, given = rule.partition(" ") if isinstance(rule, str) else ("", "", "")
    if not given:
        raise UserError(f"'init' of {what} must be a rule and a number, such as `uniform 0.2`, found {rule!r}.")
    if name not in RULES:
        raise UserError(f"Unknown rule '{name}' in 'init' of {what}; {nearest(name, RULES)}.")
    value = given if name == "kaiming_normal" else _number(given)
    if value not in ("fan_in", "fan_out") if name == "kaiming_normal" else not 0 < value < math.inf:
        needs = "fan_in or fan_out" if name == "kaiming_normal" else "a number above 0"
        raise UserError(f"'init' of {what}: rule '{name}' needs {needs}, found '{given}'.")
    with torch.no_grad():
        RULES[name](weight, value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
