"""Fuzzing: number of examples, time limit, and which outcomes are allowed."""

import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from recheck.errors import UserError
from support.suite.hang import HANG_SECONDS

MORE = int(os.environ.get("RECHECK_EXAMPLES", 0))
SEED = int(os.environ.get("RECHECK_SEED", 0))


def fuzz(daily: int) -> Callable:
    """Run a test with the same ``daily`` examples every time; `make torture` runs more, from another seed."""

    def decorate(test: Callable) -> Callable:
        chosen = settings(
            max_examples=max(daily, MORE),
            deadline=None,
            derandomize=not MORE,
            database=None,
            phases=(Phase.generate,),  # failing examples are already small
            suppress_health_check=list(HealthCheck),
        )
        return chosen(seeded(SEED)(test) if MORE else test)

    return decorate


def check_examples(daily: int, strategy: Any, record_property: Callable, check: Callable[[Any], None]) -> None:
    """Check ``daily`` random examples and record their number."""
    tried = []

    @fuzz(daily)
    @given(strategy)
    def garbage(value):
        tried.append(1)
        check(value)

    garbage()
    record_property("tried", len(tried))


@contextlib.contextmanager
def within(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Fail if the block takes too long."""

    def give_up(number, frame):
        raise AssertionError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(function: Callable, *arguments: Any) -> Any:
    """Result of the function, or the message of its UserError; any other exception or a hang fails the test."""
    with within():
        try:
            return function(*arguments)
        except UserError as error:
            assert str(error).strip().endswith((".", ")", ":")) or "\n" in str(error), f"no sentence: {error}"
            assert "Traceback" not in str(error)
            return error


class Outcomes:
    """Counts how many hostile files of a kind (checkpoints, …) were refused, harmless or wrong.

    `make torture` prints the counts as its second table.
    """

    def __init__(self, kind: str):
        self.kind, self.refused, self.harmless = kind, 0, 0
        self.wrong: list[str] = []

    def add(self, name: str, read: Callable[[], Any], right: Callable[[Any], bool]) -> None:
        """Try one file. ``right`` gets the error, or what was read; a false answer or any other error is wrong."""
        try:
            result = answer(read)
            fine = right(result)
        except Exception as error:
            fine, result = False, error
        if not fine:
            self.wrong.append(f"{name}: {result!r}"[:500])
        elif isinstance(result, UserError):
            self.refused += 1
        else:
            self.harmless += 1

    def record(self, record_property: Callable[[str, Any], None]) -> None:
        """Report the counts, and fail if anything was wrong."""
        counts = {"refused": self.refused, "harmless": self.harmless, "wrong": len(self.wrong)}
        record_property("tried", sum(counts.values()))
        record_property("part", {"name": self.kind, **counts})
        assert not self.wrong, self.wrong


_allowed: list[Path] = []
_strayed: list[str] = []
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}


def _watch(event: str, arguments: tuple) -> None:
    if not _allowed or not (event in _CHANGES or event == "open"):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    if (
        event.startswith("os.")
        and arguments[-1] not in (-1, None)
        and not Path(os.fsdecode(arguments[0])).is_absolute()
    ):
        return
    names = arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1]
    for name in names:
        if isinstance(name, (str, bytes, os.PathLike)):
            path = Path(os.path.realpath(os.fsdecode(name)))
            # Python itself writes compiled modules, when it imports one for the first time.
            expected = path == Path(os.devnull) or "__pycache__" in (path.name, path.parent.name)
            if not expected and not any(path.is_relative_to(folder) for folder in _allowed):
                _strayed.append(f"{event} {path}")


sys.addaudithook(_watch)


@contextlib.contextmanager
def only_below(*folders: Path) -> Iterator[None]:
    """Fail if the block writes anywhere else. Names relative to a directory handle are not checked."""
    _allowed[:] = [Path(os.path.realpath(folder)) for folder in folders]
    _strayed.clear()
    try:
        yield
    finally:
        _allowed.clear()
    assert not _strayed, _strayed


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes with a few changed, removed, repeated or inserted."""
    places = st.integers(0, max(0, len(data) - 1))
    change = st.one_of(
        st.tuples(st.just("flip"), places, st.integers(1, 255)),
        st.tuples(st.just("cut"), places, st.integers(0, 64)),
        st.tuples(st.just("end"), places, st.just(0)),
        st.tuples(st.just("put"), places, st.binary(max_size=16)),
        st.tuples(st.just("zero"), places, st.integers(1, 64)),
    )
    return st.lists(change, min_size=1, max_size=4).map(lambda changes: _apply(data, changes))


def _apply(data: bytes, changes: list[tuple]) -> bytes:
    for kind, place, what in changes:
        made = bytearray(data)
        place = min(place, max(0, len(made) - 1))
        if kind == "flip" and made:
            made[place] ^= what
        elif kind == "cut":
            del made[place : place + what]
        elif kind == "end":
            del made[place:]
        elif kind == "put":
            made[place:place] = what
        elif kind == "zero":
            made[place : place + what] = bytes(what)
        data = bytes(made)
    return data


def _dated() -> Any:
    import datetime

    return datetime.date(2020, 1, 1)


NASTY = [
    None, True, False, 0, 1, -1, 2, 10**30, 0.5, 1e308, float("nan"), float("inf"), "", " ", "a", "ä/..", "../x",
    "/etc", "module:Class", ":", "a:", "{x}", "{wildcards.x}", "\0", "é" * 300, "x" * 5000, [], {}, [None], [[]],
    [1, "a"], {"class": "x"}, {"class": None}, {"a": {"b": []}}, {1: 2}, {"": ""}, b"bytes", {"class": ["x"]},
    {None: 1}, {True: 1}, ["a", "a"], "1e-3", ".inf", "2020-01-01", _dated(), {"scheme": 1}, "none", "imagenet",
    "x.pth", "Linear",
]  # fmt: skip


def mutated(tree: Any) -> st.SearchStrategy[Any]:
    """A configuration with up to three of its parts replaced, removed, renamed, moved or added."""
    return st.integers(0, 2**32).map(lambda number: _mutate(tree, random.Random(number)))


def _mutate(tree: Any, random_: random.Random) -> Any:
    tree = yaml.safe_load(yaml.safe_dump(tree))
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        holders = list(_holders(tree))
        holder = random_.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        kind = random_.choice(("replace", "replace", "replace", "remove", "rename", "add", "swap"))
        if not keys or kind == "add":
            if isinstance(holder, dict):
                holder[random_.choice(("x", "class", 1, None, "", "folds", "batch", "weights"))] = random_.choice(NASTY)
            else:
                holder.append(random_.choice(NASTY))
            continue
        key = random_.choice(keys)
        if kind == "replace":
            holder[key] = random_.choice(NASTY)
        elif kind == "remove":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[random_.choice(("x", 0, f"{key}s", None, "../y"))] = holder.pop(key)
        else:
            other = random_.choice(holders)
            if isinstance(other, dict) and other and not _inside(holder[key], other):
                other[random_.choice(list(other))] = yaml.safe_load(yaml.safe_dump(holder[key]))
    return tree


def _holders(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (dict, list)):
        yield tree
        for each in list(tree.values() if isinstance(tree, dict) else tree):
            yield from _holders(each)


def _inside(tree: Any, other: Any) -> bool:
    return any(each is other for each in _holders(tree))
