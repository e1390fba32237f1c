"""Kill a whole workflow before the n-th change to the disk, whichever of its processes makes it.

The package in a project is imported by Snakemake and by every job, so it gets an audit hook there. The hook counts the
changes of all processes in one file. At the chosen number it kills Snakemake, its process group and the process itself.
"""

from pathlib import Path

from support.faults.crashes import CHANGES, WRITING
from support.project import Project

COUNT, STRIKE = "events", "strike"
HOOK = f"""
import contextlib
import os
import signal
import sys
from pathlib import Path

_strike = int(Path({STRIKE!r}).read_text() or 0)
_count = os.open({COUNT!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_workflow = int(os.environ.setdefault("RECHECK_TESTED_WORKFLOW", str(os.getpid())))


def _watch(event, arguments):
    if event in {sorted(CHANGES)} or (event == "open" and isinstance(arguments[2], int) and arguments[2] & {WRITING}):
        os.write(_count, b".")
        if _strike and os.fstat(_count).st_size >= _strike:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(_workflow, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(_watch)
"""


def watch(project: Project) -> None:
    """Let the processes of a project count their changes to the disk."""
    with project.path("workflow/scripts/recheck/__init__.py").open("a", encoding="utf-8") as file:
        file.write(HOOK)


def run(project: Project, *arguments: str, strike: int | None = None) -> tuple[int, int]:
    """Exit code of a Snakemake command, and the number of changes; it is killed before change ``strike``."""
    project.path(COUNT).unlink(missing_ok=True)
    project.path(STRIKE).write_text(str(strike or ""))
    done = project.snakemake(*arguments)
    assert done.returncode in (0, -9), done.stdout
    return done.returncode, Path(project.path(COUNT)).stat().st_size
