"""Comparisons that Python and JavaScript must compute with the same digits: writes tests/golden/paired.json.

``PYTHONPATH=workflow/scripts python tests/support/golden/paired_vectors.py``
"""

import json
from dataclasses import asdict
from math import isnan
from pathlib import Path

import numpy as np

from recheck.statistics import paired

FILE = Path(__file__).parents[2] / "golden" / "paired.json"
# the last number of exact and the first number of random cases: 8 and 9 in the bootstrap, 13 and 14 in the test
SEEDS = (0, 1, 2, 3, 5, 6, 8, 9, 13, 14)


def values(random, seeds, folds):
    return {seed: [round(value, 4) for value in random.random(folds).tolist()] for seed in seeds}


def cases():
    """Pairs of methods: each number of seeds, other folds, missing seeds, identical methods, ties, a missing value."""
    random = np.random.default_rng(0)
    for count in SEEDS:
        yield f"{count} seeds", values(random, range(count), 1), values(random, range(count), 1)
    yield "folds", values(random, range(10), 4), values(random, range(10), 4)
    yield "other folds", values(random, range(6), 1), values(random, range(6), 4)
    yield "shared seeds", values(random, [4, 0, 11, 7, 2], 2), values(random, [7, 5, 4, 2, 11], 2)
    same = values(random, range(7), 2)
    yield "identical", same, same
    steps = {seed: [0.5 + 0.1 * (seed % 3)] for seed in range(12)}
    yield "ties", steps, {seed: [0.6] for seed in steps}
    yield "no value", values(random, range(6), 1), {**values(random, range(5), 1), 5: [float("nan")]}


def document():
    """The content of the file; missing numbers are null."""
    rows = [
        {
            "name": name,
            "first": [[seed, _plain(each)] for seed, each in first.items()],
            "second": [[seed, _plain(each)] for seed, each in second.items()],
            "comparison": dict(zip(_KEYS, _plain(asdict(paired.compare(first, second)).values()), strict=True)),
        }
        for name, first, second in cases()
    ]
    return {
        "random": {"seed": 7, "numbers": paired.mulberry32(7, 5).tolist()},
        "tails": paired.tails(20),
        "cases": rows,
    }


_KEYS = ("difference", "low", "high", "confidence", "probability", "p", "seeds", "pairs")


def _plain(numbers):
    return [None if isnan(number) else number for number in numbers]


if __name__ == "__main__":
    FILE.write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
