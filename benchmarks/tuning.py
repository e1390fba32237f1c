"""Searches: how close each sampler comes to the optimum of two known functions, and what its proposals cost.

Branin's function has two parameters, Hartmann's three. Every sampler gets the same number of trials, in rounds.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck.tuning.propose import propose
from recheck.tuning.trials import FINISHED, Trial

SAMPLERS = ("gp", "tpe", "sobol")
HARTMANN = (
    (1.0, (3, 10, 30), (0.3689, 0.117, 0.2673)),
    (1.2, (0.1, 10, 35), (0.4699, 0.4387, 0.747)),
    (3.0, (3, 10, 30), (0.1091, 0.8732, 0.5547)),
    (3.2, (0.1, 10, 35), (0.0381, 0.5743, 0.8828)),
)


def branin(values: Mapping[str, float]) -> float:
    """Branin's function with the opposite sign; its maximum is −0.397887."""
    x, y = values["x"], values["y"]
    curve = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return -(curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


def hartmann(values: Mapping[str, float]) -> float:
    """Hartmann's function of three parameters with the opposite sign; its maximum is 3.86278."""
    return sum(
        weight * math.exp(-sum(a * (values[name] - p) ** 2 for name, a, p in zip("xyz", factors, places, strict=True)))
        for weight, factors, places in HARTMANN
    )


FUNCTIONS = {
    "Branin": (branin, {"x": {"low": -5, "high": 10}, "y": {"low": 0, "high": 15}}, -0.397887),
    "Hartmann": (hartmann, {name: {"low": 0, "high": 1} for name in "xyz"}, 3.86278),
}


def search(
    function: Callable[[Mapping[str, float]], float], space: dict, sampler: str, seed: int, rounds: int, trials: int
) -> tuple[float, float]:
    """The best value of a search, and the CPU seconds of its proposals."""
    settings = {"sampler": sampler, "space": space, "startup": trials, "seed": seed, "objective": ""}
    finished: list[Trial] = []
    started = time.process_time()
    for number in range(rounds):
        proposed = propose(settings, finished, range(number * trials, (number + 1) * trials))
        finished += [Trial(trial, number, v, FINISHED, function(v), 0.0) for trial, v in proposed.items()]
    return max(trial.objective for trial in finished), time.process_time() - started


def described(seeds: int, rounds: int, trials: int) -> str:
    lines = [
        "## Searches",
        "",
        f"{rounds} rounds of {trials} trials, {seeds} seeds. *Distance*: the optimum minus the best value found,",
        "as the median over the seeds (quartiles). *Seconds*: CPU time of all proposals of a search.",
        "",
        "| function | sampler | distance | seconds |",
        "|---|---|---:|---:|",
    ]
    search(*FUNCTIONS["Branin"][:2], "gp", 0, 2, 1)  # imports
    for name, (function, space, optimum) in FUNCTIONS.items():
        for sampler in SAMPLERS:
            searches = [search(function, space, sampler, seed, rounds, trials) for seed in range(seeds)]
            distances = [optimum - value for value, _ in searches]
            low, middle, high = statistics.quantiles(distances, n=4, method="inclusive")
            seconds = statistics.median(seconds for _, seconds in searches)
            lines.append(f"| {name} | `{sampler}` | {middle:.2g} ({low:.2g}–{high:.2g}) | {seconds:.1f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="seeds (default: 20)")
    parser.add_argument("--rounds", type=int, default=6, help="rounds (default: 6)")
    parser.add_argument("--trials", type=int, default=5, help="trials per round (default: 5)")
    parser.add_argument("--quick", action="store_true", help="two seeds, rounds and trials; its figures mean nothing")
    options = parser.parse_args()
    print(described(2, 2, 2) if options.quick else described(options.seeds, options.rounds, options.trials))


if __name__ == "__main__":
    main()
