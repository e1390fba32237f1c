"""A function that runs in its own process may crash without ending the caller."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recheck.data.isolated import Crashed, isolated
from support.project import SCRIPTS


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


def test_results_and_exceptions_come_back():
    assert isolated(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        isolated(divmod, 7, 0)


def test_a_crash_is_an_exception():
    with pytest.raises(Crashed, match="reading it crashed"):
        isolated(crash)
    assert isolated(os.getpid) != os.getpid()


FILL = """
from recheck.data import isolated

def fill(size):
    return len(bytearray(size))

isolated.MEMORY = 1 << 28
print(isolated.isolated(fill, 1 << 20))
print(isolated.isolated(fill, 1 << 29))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux limits the memory of a process")
def test_memory_is_limited():
    """In a new process, because a fork of this one may inherit so much free memory that it needs no more."""
    done = subprocess.run([sys.executable, "-c", FILL], cwd=SCRIPTS, capture_output=True, text=True)
    assert done.stdout.split() == [str(1 << 20)]
    assert done.stderr.splitlines()[-1] == "MemoryError"
