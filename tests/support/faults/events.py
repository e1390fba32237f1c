"""Strike a workflow at an exact moment: before the n-th change to the disk, whichever of its processes makes it.

The package in a project is imported by Snakemake and by every job, so it gets an audit hook there. The hook counts the
changes of all processes together, and those of each rule, as the sizes of files. At the chosen number it sends a signal
to the process group of Snakemake, to Snakemake alone, or to the job that makes the change.
"""

import json
import shutil
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from support.faults.crashes import CHANGES, WRITING
from support.project import Project
from support.suite.hang import wait_until

COUNTS, PROCESSES, STRIKE, STRUCK = "events", "processes", "strike", "struck"
ALL = "all"
HOOK = f"""
import json as _json
import os as _os
import signal as _signal
import sys as _sys
import threading as _threading

_process = _os.getpid()
_workflow = int(_os.environ.setdefault("RECHECK_TESTED_WORKFLOW", str(_process)))
_place = _sys.argv[0].removesuffix(".py").rsplit(".", 1)[-1]  # <temporary name>.<rule>.py
_os.close(_os.open(f"{PROCESSES}/{{_process}}", _os.O_CREAT))
with open({STRIKE!r}) as _file:
    _strike = _json.load(_file)
_counts = {{
    name: _os.open(f"{COUNTS}/{{name}}", _os.O_WRONLY | _os.O_APPEND | _os.O_CREAT)
    for name in ({ALL!r}, _place.replace("/", "_"))
}}


def _send():
    try:
        _os.close(_os.open({STRUCK!r}, _os.O_CREAT | _os.O_EXCL))
    except OSError:
        return  # one strike per command
    try:
        if _strike["scope"] == "group":
            _os.killpg(_workflow, _strike["signal"])
            if _strike["signal"] == _signal.SIGKILL:
                _os.kill(_process, _signal.SIGKILL)  # a fork of the job server has a group of its own
        else:
            _os.kill(_workflow if _strike["scope"] == "snakemake" else _process, _strike["signal"])
    except ProcessLookupError:
        pass


def _watch(event, arguments):
    if not arguments or isinstance(arguments[0], int) or "__pycache__" in str(arguments[0]):
        return  # opened again by its number; or compiled by whichever process imports a module first
    if event in {sorted(CHANGES)} or (event == "open" and isinstance(arguments[2], int) and arguments[2] & {WRITING}):
        for count in _counts.values():
            _os.write(count, b".")
        counted = _counts.get(_strike and _strike["place"])
        # the end of our own byte: the file is longer already if another job has made a change since
        if counted is not None and _os.lseek(counted, 0, _os.SEEK_CUR) == _strike["change"]:
            if _strike["pause"]:
                waiting = _threading.Timer(_strike["pause"], _send)
                waiting.daemon = True
                waiting.start()
            else:
                _send()


_sys.addaudithook(_watch)
"""


@dataclass(frozen=True)
class Strike:
    """A signal before the n-th change that the jobs of a rule (or all processes) make during one command."""

    change: int
    place: str = ALL
    signal: int = signal.SIGKILL
    scope: str = "group"
    """``group`` (all processes of the command), ``job`` (the process that makes the change) or ``snakemake``."""
    pause: float = 0.0
    """Seconds between the change and the signal."""


def watch(project: Project) -> None:
    """Let the processes of a project count their changes to the disk."""
    arm(project, None)
    module = "workflow/scripts/recheck/__init__.py"
    project.write(module, project.read(module) + HOOK)


def arm(project: Project, strike: Strike | None) -> None:
    """Count the changes of the next command from zero, and strike it, or let it finish."""
    for name in (COUNTS, PROCESSES):
        shutil.rmtree(project.path(name), ignore_errors=True)
        project.path(name).mkdir(exist_ok=True)
    project.path(STRUCK).unlink(missing_ok=True)
    project.path(STRIKE).write_text(json.dumps(strike and asdict(strike)))


def was_struck(project: Project) -> bool:
    """Whether the signal of the last command was sent."""
    return project.path(STRUCK).exists()


def changes(project: Project) -> dict[str, int]:
    """Rule → number of changes to the disk that its jobs made during the last command."""
    return {path.name: path.stat().st_size for path in project.path(COUNTS).iterdir()}


def _living(project: Project) -> list[str]:
    """The processes of the last command that have not ended."""
    return [path.name for path in project.path(PROCESSES).iterdir() if Path("/proc", path.name).exists()]


def run(project: Project, *arguments: str, strike: Strike | None = None) -> tuple[int, int]:
    """Exit code of a Snakemake command, and the number of changes; the strike kills it. Its jobs have ended, too."""
    arm(project, strike)
    done = project.snakemake(*arguments)
    assert wait_until(lambda: not _living(project)), "a job outlives its Snakemake"
    assert done.returncode in (0, -signal.SIGKILL), done.stdout
    return done.returncode, changes(project)[ALL]
