"""What defines a method: a row that changes it is another method, and must say so in its label."""

from collections.abc import Iterator, Mapping
from typing import Any

# These keys belong to the method alone: where the method has none, its rows have none either.
COMPLETE = ("loss", "miner", "forward", "relabel")
# The protocol may set these keys for methods that don't.
IF_SET = ("sampler", "model")
DROPOUT = "model.channel_dropout"


def definition(method: Mapping[str, Any]) -> dict[str, str | None]:
    """Key → class of each part that defines a method; None for parts that it must not have."""
    defined: dict[str, str | None] = {f"{key}.class": None for key in COMPLETE}
    defined.update(_all_classes(method))
    if (method.get("model") or {}).get("channel_dropout"):
        defined[DROPOUT] = "some"
    return defined


def changed(defined: Mapping[str, str | None], settings: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first defining key that differs in run settings, with the method's value and the value found."""
    for key, expected in defined.items():
        value: Any = settings
        for word in key.split("."):
            value = value.get(word) if isinstance(value, Mapping) else None
        if key == DROPOUT:
            value = "some" if value else None
        if value != expected:
            return key, expected or "none", value or "none"
    return None


def redefined(row: Mapping[str, Any], base: Mapping[str, Any]) -> str | None:
    """The first defining key that a row sets to a class different from the base row's."""
    return next((key for key, name in _all_classes(row).items() if name != _all_classes(base).get(key)), None)


def _all_classes(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for key in (*COMPLETE, *IF_SET) for name, value in _classes(settings.get(key), key)}


def _classes(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Key and class of a part and of all parts nested in it."""
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("class"), str):
        yield f"{key}.class", value["class"]
    for name, inner in value.items():
        yield from _classes(inner, f"{key}.{name}")
