"""YAML files, read strictly: what a reader would misread, or nothing here can use, is refused in one sentence."""

import copy
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from recheck.errors import UserError

MOST_VALUES, MOST_LEVELS = 100_000, 40


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML mapping; duplicate keys are refused, because YAML would silently keep the last."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    return copy.deepcopy(_parsed(path, text))


@cache
def _parsed(path: str | Path, text: str) -> dict[str, Any]:
    """Once for each file: studies are built on one another, and every job of the workflow reads them all."""
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{where}: not valid YAML ({getattr(error, 'problem', None) or error}).") from None
    except RecursionError:
        raise UserError(f"{path}: it is nested too deeply.") from None
    except (ValueError, OverflowError) as error:  # of a date or a number that Python does not have
        raise UserError(f"{path}: it has a value that cannot be read ({error}).") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a mapping of keys to values, found {described(value)}.")
    _check_plain(value, path)
    return value


def _check_plain(value: dict[str, Any], path: str | Path) -> None:
    """Refuse what YAML can say and nothing here can use: NaN and infinity, dates, sets, a mapping that holds itself.

    Aliases may stand for more values than any memory has, so they are counted, and how deep they are nested.
    """
    waiting, count = [(value, "")], 0
    while waiting:
        part, key = waiting.pop()
        count += 1
        if count > MOST_VALUES or key.count(".") > MOST_LEVELS:
            raise UserError(f"{path}: it has too many values, or is nested too deeply, at '{key[:60]}'.")
        if isinstance(part, dict):
            for name in part:
                if not isinstance(name, str):
                    raise UserError(f"{path}: a key in '{key}' is {described(name)}; keys are words.")
            waiting += [(own, f"{key}.{name}".lstrip(".")) for name, own in part.items()]
        elif isinstance(part, list):
            waiting += [(own, f"{key}.{number}") for number, own in enumerate(part)]
        elif isinstance(part, float) and not math.isfinite(part):
            raise UserError(f"{path}: '{key}' is {part}, which is no finite number.")
        elif part is not None and not isinstance(part, (str, int, float)):
            raise UserError(f"{path}: '{key}' is {described(part)}; put it in quotes if it is meant as text.")


# libyaml's where it is there: every `snakemake` call reads all studies, and Python's own is ten times slower.
class _UniqueKeyLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = _word(self.construct_object(key_node, deep=True))
            if isinstance(key, (str, int, float)) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' appears twice", key_node.start_mark)
            seen.add(key if isinstance(key, (str, int, float)) else id(key_node))
        return {_word(key): value for key, value in super().construct_mapping(node, deep).items()}


def _word(key: Any) -> Any:
    """A number is a name too (the values of a sweep): keys of two types can't be ordered."""
    return str(key) if type(key) is int else key


# YAML 1.1 reads 1e-4 as text; scientists write it, and mean a number.
_UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def described(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return kinds.get(type(value), f"{type(value).__name__} '{value}'")


def names_in(folders: Iterable[str | Path]) -> dict[str, Path]:
    """The YAML files of the folders by their name; an earlier folder wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found
