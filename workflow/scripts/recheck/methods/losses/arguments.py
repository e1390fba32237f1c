"""Checks for arguments of losses."""

import math
from collections.abc import Iterable

from recheck.errors import UserError, nearest


def chosen(key: str, value: str, known: Iterable[str], loss: object) -> str:
    """``value``, which must be one of the ``known`` words."""
    if value not in known:
        hint = nearest(str(value), known)
        raise UserError(f"Unknown value {value!r} for '{key}' of the loss '{type(loss).__name__}'; {hint}.")
    return value


def checked_count(key: str, value: int, loss: object, least: int = 1) -> int:
    """``value``, which must be a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(
            f"'{key}' of the loss '{type(loss).__name__}' must be a whole number of at least {least}, found {value!r}."
        )
    return value


def checked_number(key: str, value: float, loss: object, above: float = -math.inf) -> float:
    """``value``, which must be a finite number above ``above``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < math.inf:
        least = "" if above == -math.inf else f" above {above:g}"
        raise UserError(f"'{key}' of the loss '{type(loss).__name__}' must be a number{least}, found {value!r}.")
    return value
