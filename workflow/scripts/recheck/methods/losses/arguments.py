"""Arguments of losses that a study has wrong, each in one sentence."""

import math
from collections.abc import Iterable

from recheck.errors import UserError, nearest


def chosen(key: str, value: str, known: Iterable[str], loss: object) -> str:
    """``value``, if it is one of the ``known`` words."""
    if value not in known:
        hint = nearest(str(value), known)
        raise UserError(f"'{key}' of the loss '{type(loss).__name__}' can't be {value!r}: {hint}.")
    return value


def checked_count(key: str, value: int, loss: object, least: int = 1) -> int:
    """``value``, if it is a whole number from ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(
            f"'{key}' of the loss '{type(loss).__name__}' must be a whole number from {least}, not {value!r}."
        )
    return value


def checked_number(key: str, value: float, loss: object, above: float = -math.inf) -> float:
    """``value``, if it is a number above ``above``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < math.inf:
        least = "" if above == -math.inf else f" above {above:g}"
        raise UserError(f"'{key}' of the loss '{type(loss).__name__}' must be a number{least}, not {value!r}.")
    return value
