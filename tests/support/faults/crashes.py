"""Crash a process at an exact moment: before the n-th change it makes to the disk."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator

KILLED = 137
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.chmod", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_RDWR


def crash_points(
    work: Callable[[], object], record_property: Callable[[str, int], None], least: int = 4, most: int = 200
) -> Iterator[int]:
    """Run ``work`` in new processes until one finishes; the n-th process crashes before its n-th change.

    A crash is like kill -9: nothing is cleaned up, and unflushed data is lost. Yields n after each process.
    """
    for number in range(1, most):
        code = crash(work, number)
        assert code in (0, KILLED), f"crash {number} ended with {code}"
        yield number
        if code == 0:
            assert number > least, "too few changes: the process to crash does nothing"
            record_property("tried", number)
            return
    raise AssertionError(f"it makes more than {most} changes")


def crash(work: Callable[[], object], number: int) -> int:
    """Exit code of ``work`` in a new process that crashes before its n-th change; 0 if it makes fewer changes."""
    return forked(lambda: _run(work, number))


def forked(work: Callable[[], object]) -> int:
    """Exit code of ``work`` in a new process; negative if a signal ended it."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run(work: Callable[[], object], number: int) -> None:
    left, process = [number], os.getpid()

    def watch(event: str, arguments: tuple) -> None:
        if os.getpid() != process:  # a child of the process to crash
            return
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            left[0] -= 1
            if left[0] <= 0:  # two threads may count between the two lines
                os._exit(KILLED)

    sys.addaudithook(watch)  # an audit hook can't be removed; it ends with the process
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 99
    os._exit(code)
