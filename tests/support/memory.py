"""The disk in memory that holds the tests' projects: they create and delete many small files."""

import shutil
import tempfile
from pathlib import Path

DISK = Path("/dev/shm")
NEEDED = 12 << 30
"""Bytes of free memory for three test processes and their files, of which there is one gigabyte at most."""


def has_room() -> bool:
    """Whether this machine has such a disk, and enough free memory for the tests and their files."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
        return min(available, shutil.disk_usage(DISK).free) >= NEEDED
    except (OSError, StopIteration):  # not Linux
        return False


def make_folder() -> str:
    _made.append(tempfile.mkdtemp(prefix="recheck-tests-", dir=DISK))
    return _made[-1]


def remove_folders() -> None:
    """Remove the folders of this process."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)


_made: list[str] = []
