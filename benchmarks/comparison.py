"""How often, in simulated studies, intervals of paired comparisons cover the true difference, and tests find one.

A simulation is one pair of methods. Its seeds' differences are normal or skewed (exponential), with a standard
deviation of 1 around the true difference.
"""

import sys
from pathlib import Path

import numpy as np
from timing import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))
SEEDS, SIMULATIONS, TOGETHER = (2, 3, 5, 6, 8, 10, 15, 20), 4000, 100
ERROR = 0.05


def share(outcomes: np.ndarray) -> str:
    return f"{100 * np.mean(outcomes):.1f} %"


def section(quick: bool) -> str:
    from recheck.statistics import paired

    rows = []
    for seeds in SEEDS:
        count = 200 if quick else SIMULATIONS
        random = np.random.default_rng(seeds)
        normal, skewed = random.normal(size=(seeds, count)), random.exponential(size=(seeds, count)) - 1
        covers = {}
        for name, differences in (("normal", normal), ("skewed", skewed)):
            intervals = [paired.interval(chunk) for chunk in np.array_split(differences, count // TOGETHER, axis=1)]
            covers[name] = share(np.concatenate([(low <= 0) & (high >= 0) for low, high in intervals]))
        tests = [
            share(
                np.concatenate(
                    [
                        paired.p_values(chunk) <= ERROR
                        for chunk in np.array_split(normal + true, count // TOGETHER, axis=1)
                    ]
                )
            )
            for true in (0, 1, 2)
        ]
        promised = f"{100 * paired.confidence(seeds):g} %"
        rows.append(f"| {seeds} | {promised} | {covers['normal']} | {covers['skewed']} | {' | '.join(tests)} |")
    return "\n".join(
        [
            "## Comparisons of methods",
            "",
            f"{SIMULATIONS:,} simulated pairs of methods per row. The true difference is in standard deviations of the "
            "seeds' differences.",
            "",
            "| seeds | confidence of the interval | interval covers, normal | interval covers, skewed | p ≤ 0.05, "
            "true difference 0 | true difference 1 | true difference 2 |",
            "|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main(section, __doc__)
