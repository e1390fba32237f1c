"""Whether our seeds reproduce a published value: prediction interval, equivalence within δ, number of seeds needed.

All functions work element by element on arrays, so a simulation calls the same code as a table. ``docs/verdicts.md``
derives the rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

# ``LOWER`` and ``HIGHER`` say where our mean is: both mean “not reproduced”.
REPRODUCED, LOWER, HIGHER, UNDECIDED = TESTED = ("reproduced", "lower", "higher", "undecided")
NOT_RUN, ONE_SEED = "not run", "one seed"
VERDICTS = (*TESTED, NOT_RUN, ONE_SEED)
# The search for the number of seeds that would decide ends here.
MOST_SEEDS = 1000
# Differences smaller than this are rounding errors of the computation.
TINY = 1e-9

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Quote:
    """A published value: the mean of ``runs`` runs, with their standard deviation if it was published.

    ``error`` is the largest error of reading or rounding the value.
    """

    value: ArrayLike
    runs: ArrayLike = 1
    spread: ArrayLike = np.nan
    error: ArrayLike = 0.0


@dataclass(frozen=True)
class Comparison:
    """The tests of a difference. ``low`` and ``high`` bound the prediction interval of the published value."""

    low: Numbers
    high: Numbers
    # p-value of the hypothesis that the published runs and ours have the same mean
    p: Numbers
    # p-value of the hypothesis that the means differ by δ or more: the larger one of two one-sided tests
    p_equivalence: Numbers
    verdict: NDArray[np.str_]


def compare(
    mean: ArrayLike, sd: ArrayLike, seeds: ArrayLike, quote: Quote, delta: ArrayLike, alpha: float
) -> Comparison:
    """The verdict on means over two or more seeds each; ``sd`` has n − 1 in its denominator."""
    mean, value, error = (np.asarray(each, dtype=float) for each in (mean, quote.value, quote.error))
    scale, freedom = _uncertainty(sd, seeds, quote)
    half = stdtrit(freedom, 1 - alpha / 2) * scale + error
    distance = np.abs(mean - value)
    p = 2 * _tail(np.maximum(distance - error - TINY, 0), scale, freedom)
    p_equivalence = _tail(delta - error - distance, scale, freedom)
    inside = np.where(p_equivalence < alpha, REPRODUCED, UNDECIDED)
    verdict = np.where(p < alpha, np.where(mean < value, LOWER, HIGHER), inside)
    return Comparison(mean - half, mean + half, p, p_equivalence, verdict)


def seeds_needed(mean: float, sd: float, seeds: int, quote: Quote, delta: float, alpha: float) -> int | None:
    """The smallest number of seeds that would decide if mean and standard deviation stayed the same.

    None if more than ``MOST_SEEDS`` would be needed, or if no number is enough because the published value itself is
    too uncertain.
    """
    counts = np.arange(seeds + 1, MOST_SEEDS + 1)
    decided = compare(mean, sd, counts, quote, delta, alpha).verdict != UNDECIDED
    return int(counts[decided.argmax()]) if decided.any() else None


def adjusted(p: ArrayLike) -> Numbers:
    """The p-values adjusted for their number by Benjamini and Hochberg.

    Not ``scipy.stats.false_discovery_control``, because importing scipy.stats takes a second.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)[::-1]
    ranks = np.arange(len(p), 0, -1)
    result = np.empty(len(p))
    result[order] = np.minimum(np.minimum.accumulate(p[order] * len(p) / ranks), 1)
    return result


def _uncertainty(sd: ArrayLike, seeds: ArrayLike, quote: Quote) -> tuple[Numbers, Numbers]:
    """The standard error of the difference between our mean and the published one, and its degrees of freedom.

    Published runs without a published spread are assumed to spread as ours do. With one, the degrees of freedom are
    Welch's.
    """
    ours = np.square(np.asarray(sd, dtype=float)) / seeds
    runs, spread = np.asarray(quote.runs, dtype=float), np.asarray(quote.spread, dtype=float)
    known = ~np.isnan(spread)
    theirs = np.square(np.where(known, spread, sd)) / runs
    own_freedom = np.asarray(seeds, dtype=float) - 1
    total = ours + theirs
    with np.errstate(divide="ignore", invalid="ignore"):
        welch = np.square(total) / (np.square(ours) / own_freedom + np.square(theirs) / (runs - 1))
    return np.sqrt(total), np.where(known & (total > 0), welch, own_freedom)


def _tail(distance: ArrayLike, scale: Numbers, freedom: Numbers) -> Numbers:
    """The probability of a t-value above ``distance / scale``; a scale of 0 leaves no doubt."""
    distance = np.asarray(distance, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = stdtr(freedom, -distance / scale)
    certain = np.where(distance > 0, 0.0, np.where(distance < 0, 1.0, 0.5))
    return np.where(scale > 0, tail, certain)
