"""Strict YAML: duplicate keys and unusable values are errors."""

import copy
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from recheck.errors import UserError

MOST_VALUES, MOST_LEVELS = 100_000, 40


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file. Duplicate keys are errors, because YAML would silently keep the last."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. Create it, or correct the name.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Make it readable.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    return copy.deepcopy(_parsed(path, text))


@cache
def _parsed(path: str | Path, text: str) -> dict[str, Any]:
    """The parsed text, cached: studies share bases, and every job reads all studies."""
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(
            f"{path}{where}: not valid YAML ({getattr(error, 'problem', None) or error}). Correct the file."
        ) from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply. Use at most {MOST_LEVELS} levels.") from None
    except (ValueError, OverflowError) as error:  # a date or number that Python can't represent
        raise UserError(
            f"{path} has a value that cannot be read ({error}). Put it in quotes if you mean text."
        ) from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a mapping of keys to values, found {described(value)}.")
    _check_plain(value, path)
    return value


def _check_plain(value: dict[str, Any], path: str | Path) -> None:
    """Raise a UserError for values that YAML allows but no setting can have: NaN, infinity, dates, sets, recursion.

    A few aliases can expand to more values than memory can hold, so values and nesting levels are limited.
    """
    waiting, count = [(value, "")], 0
    while waiting:
        item, key = waiting.pop()
        count += 1
        if count > MOST_VALUES or key.count(".") > MOST_LEVELS:
            raise UserError(
                f"{path} has too many values (at most {MOST_VALUES:,}) or is nested too deeply (at most {MOST_LEVELS} "
                f"levels) at '{key[:60]}'. Shorten it."
            )
        if isinstance(item, dict):
            for name in item:
                if not isinstance(name, str):
                    place = f" in '{key}'" if key else ""
                    raise UserError(f"{path}: a key{place} is {described(name)}, but keys must be text.")
            waiting += [(child, f"{key}.{name}".lstrip(".")) for name, child in item.items()]
        elif isinstance(item, list):
            waiting += [(child, f"{key}.{number}") for number, child in enumerate(item)]
        elif isinstance(item, float) and not math.isfinite(item):
            raise UserError(f"{path}: '{key}' is {item}, but numbers must be finite.")
        elif item is not None and not isinstance(item, (str, int, float)):
            raise UserError(f"{path}: '{key}' is {described(item)}. Put it in quotes if you mean text.")


# libyaml if available: every `snakemake` call reads all studies, and the pure-Python loader is ten times slower.
class _UniqueKeyLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    def construct_mapping(self, node, deep=False):
        _read_keys_as_text(node)
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' appears twice", key_node.start_mark)
            seen.add(key if isinstance(key, str) else id(key_node))
        return super().construct_mapping(node, deep)


def _read_keys_as_text(node: yaml.MappingNode) -> None:
    """Keep keys such as 8, 0.05, 1e-4 or on, which a sweep may have, as they are written in the file."""
    for key, _ in node.value:
        if key.tag in _NOT_TEXT:
            key.tag = "tag:yaml.org,2002:str"


_NOT_TEXT = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int")}


# YAML 1.1 reads 1e-4 as text, but it is meant as a number.
_UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def described(value: Any) -> str:
    """A value as an error message shows it: text in quotes, numbers as they are, everything else by its kind."""
    if isinstance(value, bool):
        return str(value).lower()
    kinds = {str: f"'{value}'", int: str(value), float: str(value), dict: "a mapping", list: "a list"}
    return "nothing" if value is None else kinds.get(type(value), f"the {type(value).__name__} {value}")


def names_in(folders: Iterable[str | Path]) -> dict[str, Path]:
    """Name → path of the YAML files in the folders; an earlier folder wins."""
    paths: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*.yaml")):
            paths.setdefault(path.stem, path)
    return paths


def first_file(folders: Sequence[Path], name: str) -> Path:
    """The path of a file in the first folder that has it; in the last folder if none has it."""
    paths = [folder / name for folder in folders]
    return next((path for path in paths if path.exists()), paths[-1])
