"""A function that runs in its own process may crash without ending the caller."""

import os
import signal
from pathlib import Path

import pytest

from recheck.data import isolated as module
from recheck.data.isolated import Crashed, isolated


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


def fill(size):
    return len(bytearray(size))


def test_results_and_exceptions_come_back():
    assert isolated(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        isolated(divmod, 7, 0)


def test_a_crash_is_an_exception():
    with pytest.raises(Crashed, match="reading it crashed"):
        isolated(crash)
    assert isolated(os.getpid) != os.getpid()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux limits the memory of a process")
def test_memory_is_limited(monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 1 << 28)
    assert isolated(fill, 1 << 20) == 1 << 20
    with pytest.raises(MemoryError):
        isolated(fill, 1 << 29)
