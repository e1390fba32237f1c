"""The disk in memory that holds the tests' projects: they create and delete many small files."""

import math
import shutil
import tempfile
from pathlib import Path

DISK = Path("/dev/shm")
PER_PROCESS = 4 << 30
"""Bytes of free memory that one test process and its files need at most."""


def processes() -> float:
    """The number of test processes that the free memory is enough for."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")) // PER_PROCESS
    except (OSError, StopIteration):  # not Linux
        return math.inf


def has_room(running: int) -> bool:
    """Whether this machine has such a disk, with room for the files of the running test processes."""
    return DISK.is_dir() and min(processes(), shutil.disk_usage(DISK).free // PER_PROCESS) >= running


def make_folder() -> str:
    _made.append(tempfile.mkdtemp(prefix="recheck-tests-", dir=DISK))
    return _made[-1]


def remove_folders() -> None:
    """Remove the folders of this process."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)


_made: list[str] = []
