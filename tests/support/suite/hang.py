"""Waiting for an event. Only a hang ends the wait without it."""

import multiprocessing
import time
from collections.abc import Callable

# Far more than any step takes on the slowest machine, so that speed never decides a test.
HANG_SECONDS = 3600
# After this, a process that was asked to end is killed. No result depends on it: it ends either way.
STUCK_SECONDS = 150


def wait_until(condition: Callable[[], bool], pause: float = 0.01, seconds: float = HANG_SECONDS) -> bool:
    """Whether the condition became true before the time ran out."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def children_end() -> bool:
    """Whether all child processes end. PyTorch's loader waits only ten seconds for its processes."""
    return wait_until(lambda: not multiprocessing.active_children())
