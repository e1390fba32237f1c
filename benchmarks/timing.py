"""Helpers of the performance measurements: measure in turn in one process, report ratios with their spread."""

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(
    functions: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds per function and turn. The functions alternate, so that a busy moment of the machine affects them all."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = clock()
            function()
            seconds[name].append(clock() - started)
    return seconds


def processor() -> float:
    """CPU seconds of this process and its finished children. Other programs disturb it less than wall time."""
    process, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return process.ru_utime + process.ru_stime + children.ru_utime + children.ru_stime


def ratios(numerators: list[float], denominators: list[float]) -> list[float]:
    """One ratio per turn."""
    return [above / below for above, below in zip(numerators, denominators, strict=True)]


def spread(values: list[float], digits: int = 2) -> str:
    """Median (min–max)."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def goal(name: str, values: list[float], limit: float, at_least: bool = True, digits: int = 2) -> str:
    """A line that says whether the median meets the limit. report.py collects these lines at the top of the page."""
    value = statistics.median(values)
    met = value >= limit if at_least else value <= limit
    sign, verdict = "≥" if at_least else "≤", "met" if met else "**missed**"
    return f"- Goal: {name} {sign} {limit:g}; measured {spread(values, digits)}, {verdict}."


def main(section: Callable[[bool], str], description: str | None) -> None:
    """Command line of a measurement that has no option but ``--quick``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a shortened run; its figures mean nothing")
    print(section(parser.parse_args().quick))
