"""What the benchmarks share: things are measured in turn, in one process, and given as ratios with their spread."""

import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each function, ``repeats`` times: one after the other, so that a busy moment meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def ratios(of: list[float], to: list[float]) -> list[float]:
    """Of each turn its own ratio."""
    return [mine / other for mine, other in zip(of, to, strict=True)]


def spread(values: list[float], digits: int = 2) -> str:
    """Median (least–most)."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
