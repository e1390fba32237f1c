"""Snakemake's messages for people: short reasons, and one line of progress for the whole study.

Snakemake logs to a standard logger; a record's ``event`` says what happened, and its other attributes are the details.
``install`` gives the handlers another formatter, so `--quiet`, log files and other logger plugins work as before.
"""

import ast
import atexit
import contextlib
import itertools
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

# Environment variable of jobs while the live line is shown: their progress bars would overwrite it.
LIVE = "RECHECK_LIVE_PROGRESS"
REDRAW_SECONDS = 1.0
LISTED_CHANGES, LONGEST_VALUE = 3, 60
# Messages that tell a user nothing.
NOISE = ("Select jobs to execute...",)
# Snakemake's message when it is asked to stop. Jobs that it then ends have not failed.
STOPPING = "Terminating processes on user request"

# The error of a job that saved its state after Ctrl-C or SIGTERM, or that the signal killed.
ENDED = re.compile(r"CalledProcessError.*(?:exit status (?:130|143)|died with)", re.DOTALL)

_CLAUSES = (
    "Forced execution",
    "Missing output files",
    "Incomplete output files",
    "Updated input files",
    "Input files updated by another job",
    "Set of input files has changed since last execution",
    "Code has changed since last execution",
    "Params have changed since last execution",
    "Software environment definition has changed since last execution",
)
_CLAUSE = re.compile(rf"(?:^|; )({'|'.join(_CLAUSES)})(?:: |$|(?=; ))")
_PARAMS, _MISSING, _UPDATED = "Params have changed since last execution", "Missing output files", "Input files updated"
_BEFORE, _NOW, _NOTHING = "before: ", " now: ", "<nothing exclusive>"


# --- reasons --------------------------------------------------------------------------------------------------------


def short_reason(reason: str) -> str:
    """Snakemake's reason for a job without its long lists of files and its dictionaries of settings."""
    start = reason.find(_PARAMS)
    # settings may contain any text, so clauses are only looked for before them
    clauses = _split(reason if start < 0 else reason[:start].removesuffix("; "))
    words = [
        f"{clause}: {_few(files.split(', '))}" if files else clause
        for clause, files in clauses.items()
        if not (clause.startswith(_UPDATED) and _MISSING in clauses)
    ]
    if start >= 0:
        words.append(f"Settings have changed{_changes(reason[start + len(_PARAMS) :])}")
    return "; ".join(words)


def _split(reason: str) -> dict[str, str]:
    """Clause → its files, as text; a reason without a known clause is one clause."""
    clauses = list(_CLAUSE.finditer(reason))
    if not clauses or clauses[0].start() > 0:
        return {reason: ""} if reason else {}
    ends = [*(match.start() for match in clauses[1:]), len(reason)]
    return {match[1]: reason[match.end() : end] for match, end in zip(clauses, ends, strict=True)}


def _few(files: Sequence[str]) -> str:
    first, *others = sorted(files)
    return f"{first} and {len(others)} more" if others else first


def _changes(text: str) -> str:
    """“: <key>: <old> → <new>, …” for the settings that differ; empty if Snakemake's text does not show them."""
    both = _before_and_now(text)
    if not both:
        return ""
    old, new = both
    pairs = [(a, b) for a in old for b in new if isinstance(a, dict) and isinstance(b, dict) and _alike(a, b)]
    changes = [change for a, b in pairs for change in _differences("", a, b)]
    if not pairs and len(old) == len(new) == 1:
        changes = [f"{_shortened(old[0])} → {_shortened(new[0])}"]
    if not changes:
        return ""
    rest = f" and {len(changes) - LISTED_CHANGES} more" if len(changes) > LISTED_CHANGES else ""
    return ": " + ", ".join(changes[:LISTED_CHANGES]) + rest


def _alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether these are the settings of the same thing: most of their keys are the same."""
    return 2 * len(old.keys() & new.keys()) > max(len(old), len(new))


def _before_and_now(text: str) -> tuple[list[Any], list[Any]] | None:
    """The values that only the previous job had and those that only this job has, from Snakemake's text."""
    start = text.find(_BEFORE)
    places = [match.start() for match in re.finditer(_NOW, text)]
    for place in places if start >= 0 else []:
        try:
            return _values(text[start + len(_BEFORE) : place]), _values(text[place + len(_NOW) :])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue  # “ now: ” is part of a setting
    return None


def _values(text: str) -> list[Any]:
    return [] if text.strip() == _NOTHING else list(ast.literal_eval(f"[{text.strip()}]"))


def _differences(key: str, old: Any, new: Any) -> Iterator[str]:
    """“key: old → new” for every leaf that differs; list entries are identified by their ``name``, else by number."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _differences(f"{key}.{name}" if key else str(name), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and old != new:
        yield from _differences(key, _by_name(old), _by_name(new))
    elif old != new:
        yield f"{key}: {_shortened(old)} → {_shortened(new)}"


def _by_name(entries: list[Any]) -> dict[Any, Any]:
    named = all(isinstance(entry, dict) and "name" in entry for entry in entries)
    return {entry["name"] if named else number: entry for number, entry in enumerate(entries)}


def _shortened(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


# --- progress -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    rule: str
    message: str
    started: float
    log: Sequence[str] = ()


class Progress(logging.Filter):
    """What is done, what is running and how long the rest takes, from the records of Snakemake's logger."""

    def __init__(self, untimed: Collection[str] = (), clock: Callable[[], float] = time.monotonic):
        """``untimed`` are rules that take no time, such as targets."""
        super().__init__()
        self.untimed, self.clock = set(untimed), clock
        self.begun = clock()
        self.planned: dict[str, int] = {}
        self.running: dict[int, Job] = {}
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.done, self.total = 0, 0
        self.stopping = False
        self.lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Update the progress from the record; never drop the record."""
        with self.lock:
            self.stopping |= str(record.msg).startswith(STOPPING)
            self._follow(_event(record), record)
        return True

    def _follow(self, event: str, record: logging.LogRecord) -> None:
        if event == "RUN_INFO" and isinstance(getattr(record, "stats", None), Mapping):
            self.planned = {rule: count for rule, count in record.stats.items() if rule != "total"}
            self.total = record.stats.get("total", 0)
        elif event == "JOB_INFO":
            message = getattr(record, "rule_msg", None) or record.rule_name
            log = list(getattr(record, "log", None) or [])
            self.running[record.jobid] = Job(record.rule_name, message, self.clock(), log)
        elif event == "JOB_FINISHED" and record.job_id in self.running:
            job = self.running.pop(record.job_id)
            self.seconds[job.rule].append(self.clock() - job.started)
        elif event == "JOB_ERROR":
            self.running.pop(record.jobid, None)
        elif event == "PROGRESS":
            self.done, self.total = record.done, record.total

    def line(self) -> str:
        """One line: jobs done, time left, jobs running."""
        with self.lock:
            parts = [f"{self.done} of {self.total} jobs done ({100 * self.done // max(1, self.total)} %)"]
            if left := self._left():
                parts.append(left)
            if self.running:
                first, *others = [job.message for job in self.running.values()]
                parts.append(f"running: {first}" + (f" and {len(others)} more" if others else ""))
        return "; ".join(parts)

    def _left(self) -> str:
        """The time left, estimated from the mean time of each rule's finished jobs and how many jobs ran at once."""
        remaining = {
            rule: count - len(self.seconds[rule])
            for rule, count in self.planned.items()
            if rule not in self.untimed and count > len(self.seconds[rule])
        }
        known = {rule: count for rule, count in remaining.items() if self.seconds[rule]}
        spent = sum(itertools.chain.from_iterable(self.seconds.values()))
        if not known or not spent:
            return ""
        now = self.clock()
        work = sum(count * _mean(self.seconds[rule]) for rule, count in known.items())
        for job in self.running.values():
            if job.rule in known:
                work -= min(now - job.started, _mean(self.seconds[job.rule]))
            spent += now - job.started
        at_once = max(1.0, spent / max(now - self.begun, 1e-9))
        return f"{'about' if len(known) == len(remaining) else 'at least'} {_duration(work / at_once)} left"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _event(record: logging.LogRecord) -> str:
    return getattr(getattr(record, "event", None), "name", "")


# --- formatter and live line ----------------------------------------------------------------------------------------


class Readable(logging.Formatter):
    """Snakemake's formatter with short reasons and our line of progress; ``brief`` leaves out noise."""

    def __init__(self, snakemake: logging.Formatter, progress: Progress, brief: bool):
        super().__init__()
        self.snakemake, self.progress, self.brief = snakemake, progress, brief

    def format(self, record: logging.LogRecord) -> str:
        event = _event(record)
        if event == "PROGRESS":
            return self.progress.line()
        if self.brief and (event == "JOB_STARTED" or record.msg in NOISE):
            return ""  # Snakemake's handler writes nothing
        if self.brief and self.progress.stopping and (event == "JOB_ERROR" or ENDED.search(str(record.msg))):
            return ""
        if event == "JOB_INFO" and isinstance(getattr(record, "reason", None), str):
            record = copy(record)
            record.reason = short_reason(record.reason)
        return self.snakemake.format(record)


class LiveLine:
    """A terminal with a status line below the last message, redrawn every second. Messages are written above it."""

    def __init__(self, stream: TextIO, progress: Progress):
        self.stream, self.progress = stream, progress
        self.lock, self.closed = threading.RLock(), threading.Event()
        self.drawn = False

    def start(self) -> None:
        threading.Thread(target=self._redraw, daemon=True, name="live progress").start()
        atexit.register(self.close)

    def _redraw(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal was closed
            while not self.closed.wait(REDRAW_SECONDS):
                self.draw()

    def draw(self) -> None:
        with self.lock:
            if self.closed.is_set() or not self.progress.running:
                return
            room = shutil.get_terminal_size().columns - 1
            # back to the first column, so that a job's own message overwrites the line instead of continuing it
            self.stream.write(f"\r\x1b[K{self._text()[:room]}\r")
            self.stream.flush()
            self.drawn = True

    def _text(self) -> str:
        with self.progress.lock:
            jobs = list(self.progress.running.values())
        last = next((line for job in jobs if (line := _last_progress(job.log))), "")
        return self.progress.line() + (f" · {last}" if last else "")

    def write(self, text: str) -> int:
        with self.lock:
            if self.drawn:
                self.stream.write("\r\x1b[K")
                self.drawn = False
            return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def close(self) -> None:
        self.closed.set()
        with contextlib.suppress(OSError, ValueError):
            self.write("")
            self.flush()


def _last_progress(logs: Sequence[str]) -> str:
    """The last line of progress (`recheck.progress`) in a job's log, without its date."""
    try:
        with Path(logs[0]).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 2000))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except (OSError, IndexError):
        return ""
    last = next((line.partition(" INFO ")[2] for line in reversed(lines) if "|" in line and " INFO " in line), "")
    return last[last.rfind(" epoch ") + 1 :]  # the progress line already names the row


def say_stopped(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    """For ``sys.excepthook``: Ctrl-C while Snakemake plans gets a sentence instead of a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("Stopped on request. Run the same command again to resume.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def install(logger: logging.Logger, untimed: Collection[str], live: bool) -> None:
    """Make Snakemake's messages readable, and if ``live``, show the progress on a terminal in a line of its own."""
    progress = Progress(untimed)
    logger.addFilter(progress)
    for handler in logger.handlers:
        stream = getattr(handler, "stream", None)
        in_file = isinstance(handler, logging.FileHandler)
        if not isinstance(handler, logging.StreamHandler) or handler.formatter is None:
            continue  # a plugin with its own output
        handler.setFormatter(Readable(handler.formatter, progress, brief=not in_file))
        if not in_file and live and stream.isatty() and os.environ.get("TERM") != "dumb":
            line = LiveLine(stream, progress)
            handler.setStream(line)
            line.start()
            os.environ[LIVE] = "1"
