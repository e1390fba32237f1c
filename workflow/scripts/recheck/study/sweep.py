"""The values of a sweep: as text in labels, as part of row names, and as places on an axis."""

import math
import re
from collections.abc import Iterable


def row_name(row: str, value: str) -> str:
    """The name of a row with a value, for paths: lower case, and only characters that row names may have."""
    return f"{row}_{re.sub(r'[^a-z0-9._-]+', '-', value.lower())}"


def label(label: str, value: str) -> str:
    """The label of a row with a value, as the study writes it."""
    return f"{label}, {value}"


def places(values: Iterable[str]) -> dict[str, float]:
    """Value → its place on an axis: the number if all values are numbers, else its position."""
    texts = list(values)
    numbers = [_number(text) for text in texts]
    if any(number is None for number in numbers):
        numbers = [float(position) for position in range(len(texts))]
    return dict(zip(texts, numbers, strict=True))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
