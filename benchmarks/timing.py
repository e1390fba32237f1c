"""What the benchmarks share: things are measured in turn, in one process, and given as ratios with their spread."""

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(
    functions: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function, ``repeats`` times: one after the other, so that a busy moment meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = clock()
            function()
            seconds[name].append(clock() - started)
    return seconds


def processor() -> float:
    """Seconds of the processor for this process and those it has waited for, less disturbed by others."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def ratios(of: list[float], to: list[float]) -> list[float]:
    """Of each turn its own ratio."""
    return [mine / other for mine, other in zip(of, to, strict=True)]


def spread(values: list[float], digits: int = 2) -> str:
    """Median (least–most)."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def goal(what: str, values: list[float], limit: float, least: bool = True, digits: int = 2) -> str:
    """A line that says whether the median meets a goal (``least``: a lower limit); the report collects them."""
    value = statistics.median(values)
    met = value >= limit if least else value <= limit
    return (
        f"- Goal: {what} {'≥' if least else '≤'} {limit:g}. {spread(values, digits)}: {'met' if met else '**missed**'}."
    )


def main(section: Callable[[bool], str], description: str | None) -> None:
    """The command line of a benchmark without options of its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a shortened run that shows that it works")
    print(section(parser.parse_args().quick))
