"""Two methods compared on the seeds and folds that both have: difference, interval, probability of improvement, test.

Methods of a study share seeds, folds and splits, so their values are paired. Folds of one seed are not independent, so
a seed is one observation: its difference is the mean over its folds, the bootstrap draws seeds, and the test flips the
signs of seeds. ``paired.js`` computes the same digits in a browser: all sums go through the seeds in their order, and
random cases come from the generator ``mulberry32``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, isfinite, nan, prod, sqrt

import numpy as np
from scipy.special import ndtr, stdtrit

# seed → the value of every fold, or a single value
Values = Mapping[int, Sequence[float]]

CONFIDENCE = 0.95
# If there are at most this many cases, all are enumerated; otherwise this many are drawn at random.
CASES = 10_000
BOOTSTRAP_SEED, FLIP_SEED = 1, 2
# Sums that differ by less than this share of the summed differences count as equal.
ROUNDING = 1e-9
# Number of comparisons that are computed together; it bounds the memory.
TOGETHER = 128


@dataclass(frozen=True)
class Comparison:
    """The first method minus the second; NaN where there are too few seeds.

    ``confidence`` is the level of the interval from ``low`` to ``high``, ``probability`` the share of pairs in which
    the first method has the higher value. ``seeds`` and ``pairs`` count what both methods have.
    """

    difference: float
    low: float
    high: float
    confidence: float
    probability: float
    p: float
    seeds: int
    pairs: int


def compare(first: Values, second: Values) -> Comparison:
    """The comparison of two methods."""
    return compare_all({0: first, 1: second})[0, 1]


def compare_all(methods: Mapping) -> dict[tuple, Comparison]:
    """(first, second) → comparison, for all pairs of methods (name → values) in their order."""
    paired = {(one, two): _pair(methods[one], methods[two]) for one, two in combinations(methods, 2)}
    by_seeds: dict[int, list[tuple]] = {}
    for names, (differences, _, _) in paired.items():
        by_seeds.setdefault(len(differences), []).append(names)
    comparisons = {}
    for seeds, pairs in by_seeds.items():
        for start in range(0, len(pairs), TOGETHER):
            chunk = pairs[start : start + TOGETHER]
            columns = np.array([paired[names][0] for names in chunk], float).reshape(len(chunk), seeds).T
            lows, highs = interval(columns)
            for names, mean, low, high, p in zip(chunk, mean_of(columns), lows, highs, p_values(columns), strict=True):
                _, probability, count = paired[names]
                numbers = (float(mean), float(low), float(high), confidence(seeds), probability, float(p))
                comparisons[names] = Comparison(*numbers, seeds, count)
    return {names: comparisons[names] for names in paired}


def _pair(first: Values, second: Values) -> tuple[list[float], float, int]:
    """The difference of each shared seed, the share of pairs in which the first is higher, and the number of pairs.

    Methods with the same number of folds are paired by fold, others by the mean of their folds.
    """
    differences, wins, count = [], 0.0, 0
    for seed in sorted(set(first) & set(second)):
        one, two = first[seed], second[seed]
        if len(one) != len(two):
            one, two = [_mean(one)], [_mean(two)]
        folds = [a - b for a, b in zip(one, two, strict=True)]
        if not folds or not all(map(isfinite, folds)):
            continue
        differences.append(_mean(folds))
        wins += sum(1.0 if fold > 0 else 0.5 if fold == 0 else 0.0 for fold in folds)
        count += len(folds)
    return differences, wins / count if count else nan, count


def _mean(values: Sequence[float]) -> float:
    """The mean, summed in order: ``sum`` rounds differently in newer versions of Python."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if len(values) else nan


def mean_of(differences: np.ndarray) -> np.ndarray:
    """The mean of every column (seeds × comparisons), summed in the order of the seeds; NaN without seeds."""
    return _weighted(np.ones((1, len(differences))), differences)[:, 0] if len(differences) else _missing(differences)


def confidence(seeds: int) -> float:
    """The confidence of the interval: 95 %, or less if there are too few seeds for that.

    The true difference is outside the range of all seeds with probability 2^(1 − seeds), if differences are symmetric
    around it. No interval inside this range can have a higher confidence.
    """
    return min(CONFIDENCE, 1 - 2.0 ** (1 - seeds)) if seeds > 1 else nan


def tail(seeds: int) -> float:
    """The share of bootstrap means that is cut off on each side; with 0, the interval is the range of all seeds.

    Percentile intervals of few seeds are too narrow. With this share, the interval is as wide as a t-interval if
    differences are normal (T. Hesterberg, What teachers should know about the bootstrap, 2015).
    """
    if confidence(seeds) < CONFIDENCE:
        return 0.0
    return float(ndtr(-sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, (1 + CONFIDENCE) / 2)))


def tails(most: int) -> list[float]:
    """``tail`` by number of seeds up to ``most``, for paired.js."""
    return [tail(seeds) if seeds > 1 else 0.0 for seeds in range(most + 1)]


def interval(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the bootstrap interval of every column (seeds × comparisons); NaN for one seed."""
    seeds = len(differences)
    if seeds < 2:
        return _missing(differences), _missing(differences)
    counts, weights = resamples(seeds)
    means = _weighted(counts, differences)
    order = means.argsort(axis=1)
    means, ordered = np.take_along_axis(means, order, axis=1), weights[order]
    below = ordered.cumsum(axis=1)
    total = weights.sum()
    least = tail(seeds) * total
    low = (below >= least).argmax(axis=1)
    high = means.shape[1] - 1 - (total - below + ordered >= least)[:, ::-1].argmax(axis=1)
    return tuple(np.take_along_axis(means, at[:, None], axis=1)[:, 0] for at in (low, high))


def p_values(differences: np.ndarray) -> np.ndarray:
    """The two-sided p-value of the sign-flip test of every column (seeds × comparisons); NaN for one seed."""
    seeds = len(differences)
    if seeds < 2:
        return _missing(differences)
    signs = flips(seeds)
    rounding = ROUNDING * mean_of(abs(differences))
    least = abs(mean_of(differences)) - rounding
    extreme = (abs(_weighted(signs, differences)) >= least[:, None]).sum(axis=1)
    exact = len(signs) == 2**seeds
    return extreme / len(signs) if exact else (extreme + 1) / (len(signs) + 1)


def adjusted(p: Iterable[float]) -> np.ndarray:
    """The p-values adjusted by Benjamini and Hochberg over all that are numbers."""
    p = np.array(list(p), float)
    known = ~np.isnan(p)
    if known.any():
        from scipy.stats import false_discovery_control  # takes a second to import

        p[known] = false_discovery_control(p[known])
    return p


@cache
def resamples(seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each seed is drawn (cases × seeds), and in how many orders a case can be drawn.

    With many seeds, cases are drawn at random and have the weight 1.
    """
    if comb(2 * seeds - 1, seeds) <= CASES:
        drawn = np.array(list(combinations_with_replacement(range(seeds), seeds)))
    else:
        drawn = np.floor(mulberry32(BOOTSTRAP_SEED, CASES * seeds) * seeds).astype(int).reshape(CASES, seeds)
    counts = (drawn[:, :, None] == np.arange(seeds)).sum(axis=1)
    if len(counts) == CASES:
        return counts, np.ones(CASES)
    orders = [factorial(seeds) // prod(factorial(number) for number in case) for case in counts.tolist()]
    return counts, np.array(orders, float)


@cache
def flips(seeds: int) -> np.ndarray:
    """All signs of the seeds (cases × seeds), the n-th seed's from the n-th bit; with many seeds, random ones."""
    if 2**seeds <= CASES:
        return 1 - 2 * (np.arange(2**seeds)[:, None] >> np.arange(seeds) & 1)
    return np.where(mulberry32(FLIP_SEED, CASES * seeds).reshape(CASES, seeds) < 0.5, -1, 1)


def mulberry32(seed: int, count: int) -> np.ndarray:
    """The first numbers of T. Ettinger's generator, in [0, 1): small, and the same in every language."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x6D2B79F5) + np.uint64(seed)
    a = steps.astype(np.uint32)
    t = (a ^ (a >> np.uint32(15))) * (a | np.uint32(1))
    t ^= t + (t ^ (t >> np.uint32(7))) * (t | np.uint32(61))
    return (t ^ (t >> np.uint32(14))) / 2.0**32


def _weighted(weights: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """The mean of weighted differences (comparisons × cases), summed in the order of the seeds."""
    total = np.zeros((differences.shape[1], len(weights)))
    for case, row in zip(weights.T, differences, strict=True):
        total += row[:, None] * case
    return total / len(differences)


def _missing(differences: np.ndarray) -> np.ndarray:
    return np.full(differences.shape[1], nan)
