"""The settings that a search leaves free: their dotted names, the values they may take, and how to fill them in."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A value within this fraction of the range from a bound is on the bound: a wider range might have a better value.
ON_BOUND = 1e-3
# Proposed numbers are rounded to this many significant digits, so that they can be read and pasted.
DIGITS = 6

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One free setting: an interval from ``low`` to ``high``, or a list of ``values``."""

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    values: tuple[Any, ...] = ()

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any]) -> "Parameter":
        """The parameter that an entry of `space` describes."""
        return cls(name, **{**spec, "values": tuple(spec.get("values", ()))})

    @property
    def points(self) -> Sequence[Any]:
        """All values, for a grid; empty for an interval of real numbers."""
        return range(int(self.low), int(self.high) + 1) if self.integer else self.values

    @property
    def ends(self) -> tuple[Any, Any]:
        """The first and the last value."""
        return (self.values[0], self.values[-1]) if self.values else (self.low, self.high)

    def at(self, place: float) -> Any:
        """The value at a place from 0 to 1; values of a list, and whole numbers without ``log``, have equal shares."""
        if not self.log and (points := self.points):
            return points[min(int(place * len(points)), len(points) - 1)]
        low, high = self._scaled(self.low), self._scaled(self.high)
        value = low + place * (high - low)
        return self.rounded(math.exp(value) if self.log else value)

    def rounded(self, value: Any) -> Any:
        """A proposed value with few digits, inside the interval."""
        if self.values:
            return value
        if self.integer:
            return min(max(round(value), int(self.low)), int(self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), float(self.low)), float(self.high))

    def place(self, value: Any) -> float:
        """Where a value is between the ends, from 0 to 1 on the parameter's scale."""
        if self.values:
            return self.values.index(value) / max(1, len(self.values) - 1)
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(value) - low) / (high - low)

    def on_bound(self, value: Any) -> bool:
        """Whether a value is at an end of the interval, or of a list of at least three numbers."""
        if self.values:
            ordered = len(self.values) > 2 and all(map(is_number, self.values))
            return ordered and value in (min(self.values), max(self.values))
        place = self.place(value)
        return place <= ON_BOUND or place >= 1 - ON_BOUND

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


def parameters(space: Mapping[str, Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """The parameters of a `space`, in alphabetical order: the order of keys in a YAML file must not matter."""
    return tuple(Parameter.of(name, space[name]) for name in sorted(space))


def grid(space: Iterable[Parameter]) -> list[dict[str, Any]]:
    """Every combination of the values of all parameters."""
    free = list(space)
    return [
        dict(zip((parameter.name for parameter in free), values, strict=True))
        for values in itertools.product(*(parameter.points for parameter in free))
    ]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def get(settings: Mapping[str, Any], name: str, missing: Any = None) -> Any:
    """The setting with this dotted name."""
    value: Any = settings
    for word in name.split("."):
        if not isinstance(value, Mapping) or word not in value:
            return missing
        value = value[word]
    return value


def filled(settings: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The settings with these values filled in by dotted name; keys of changed mappings are in alphabetical order."""
    changed = dict(settings)
    for name, value in values.items():
        key, _, rest = name.partition(".")
        inner = filled(changed.get(key) or {}, {rest: value}) if rest else value
        changed = {word: inner if word == key else changed[word] for word in sorted({*changed, key})}
    return changed


def without(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The settings without those that have these dotted names."""
    changed = dict(settings)
    for name in names:
        key, _, rest = name.partition(".")
        if key in changed and rest and isinstance(changed[key], Mapping):
            changed[key] = without(changed[key], [rest])
        elif not rest:
            changed.pop(key, None)
    return changed
