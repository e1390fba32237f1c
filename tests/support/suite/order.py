"""Order of the tests: long tests start first, so that no process is still busy when the others have finished.

xdist's `worksteal` gives each process an equal share of the list. A process that has finished its share takes tests
from the end of another one. So each share begins with long tests and ends with short ones.
"""

from itertools import groupby
from typing import Any

FIRST = "test_slurm.py"
"""Its tests wait more than they compute."""
LONG = ("faults", "workflow")
"""Folders whose tests run whole projects."""


def ordered(items: list[Any], processes: int) -> list[Any]:
    """The tests, one share per process. Long tests of a file stay together because they share fixtures."""
    files = [list(group) for _, group in groupby((item for item in items if is_long(item)), lambda item: item.path)]
    files.sort(key=lambda tests: tests[0].path.name != FIRST)
    short = [item for item in items if not is_long(item)]
    shares: list[list[Any]] = [[] for _ in range(processes)]
    for tests in files:
        min(shares, key=len).extend(tests)
    result, left = [], len(items)
    for place, share in enumerate(shares):
        size = left // (processes - place)
        share += short[: max(0, size - len(share))]
        del short[: len(share) - sum(is_long(item) for item in share)]
        result += share
        left -= len(share)
    return result + short


def is_long(item: Any) -> bool:
    return item.path.parent.name in LONG or item.get_closest_marker("slow") is not None
