"""Checks of the system: Python and its packages, the limit of open files, and shared memory."""

import os
import platform
import re
import resource
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from recheck.doctor.finding import Finding, note, ok, problem

OLDEST_PYTHON = (3, 11)
FEWEST_FILES, FEW_FILES = 256, 1024
LOADERS = 540_000_000
"""Bytes of shared memory that the loader processes of one run need at most."""
SHARED_MEMORY = "/dev/shm"


def python(requirements: Path) -> Iterator[Finding]:
    """The version of Python, and packages whose versions differ from the pinned ones."""
    number = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield problem("Python", f"{number}, but Recheck needs 3.11 or newer", "run `make PYTHON=python3.12 setup`")
    else:
        yield ok("Python", f"{number} ({sys.executable})")
    if not requirements.is_file():
        return
    pinned = _pinned(requirements)
    other = []
    for name, wanted in pinned.items():
        try:
            installed = version(name)
        except PackageNotFoundError:  # conda environments have only the packages of their rules
            continue
        if installed.partition("+")[0] != wanted.partition("+")[0]:
            other.append(f"{name} {installed} instead of {wanted}")
    if other:
        listed = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
        yield note("packages", listed, "`make setup` installs the versions that results were tested with")
    else:
        yield ok("packages", f"as pinned in {requirements}")


def _pinned(requirements: Path) -> dict[str, str]:
    """Name → version. Packages with different pins for different systems are left out."""
    pins: dict[str, set[str]] = {}
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", line):
            pins.setdefault(match[1], set()).add(match[2])
    return {name: versions.pop() for name, versions in pins.items() if len(versions) == 1}


def open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    remedy = "run `ulimit -n 4096` before you start Snakemake"
    if soft < FEWEST_FILES:
        return problem("open files", f"a process may open {soft}, but loader processes need {FEWEST_FILES}", remedy)
    if soft < FEW_FILES:
        return note("open files", f"a process may open only {soft}", remedy)
    return ok("open files", f"a process may open {soft:,}")


def shared_memory(runs: int, workers: int) -> Finding:
    """Whether the loader processes of this number of runs at a time have enough shared memory."""
    if not workers:
        return ok("shared memory", "not needed, because runs have no loader processes here")
    if not Path(SHARED_MEMORY).is_dir():
        return ok("shared memory", f"not limited: this system has no {SHARED_MEMORY}")
    about = os.statvfs(SHARED_MEMORY)
    free, needed = about.f_bavail * about.f_frsize, runs * LOADERS
    text = f"{free / 1e6:,.0f} MB free in {SHARED_MEMORY}"
    if free < needed:
        return problem(
            "shared memory",
            f"{text}, but the loader processes of {runs} {'run' if runs == 1 else 'runs'} need {needed / 1e6:,.0f} MB",
            "start the container with --shm-size=4g (or --ipc=host), or load images without loader "
            "processes: --config workers=0",
        )
    return ok("shared memory", text)
