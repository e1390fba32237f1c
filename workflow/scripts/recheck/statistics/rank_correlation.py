"""How much two rankings of the same methods agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

CONFIDENCE, DRAWS = 0.95, 10_000

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Two arrays of values (draws × methods) → one correlation per draw, NaN if all values of an array are equal."""


@dataclass(frozen=True)
class Correlation:
    """A rank correlation (1: the same order, −1: the reverse) and its bootstrap interval over the methods."""

    value: float
    low: float
    high: float


def spearman(first: Sequence[float], second: Sequence[float], draws: int = DRAWS, seed: int = 0) -> Correlation:
    """Spearman's ρ of two lists of values, one per method."""
    return _correlation(first, second, _spearman, draws, seed)


def kendall(first: Sequence[float], second: Sequence[float], draws: int = DRAWS, seed: int = 0) -> Correlation:
    """Kendall's τ (b, for ties) of two lists of values, one per method."""
    return _correlation(first, second, _kendall, draws, seed)


def _correlation(
    first: Sequence[float], second: Sequence[float], statistic: Statistic, draws: int, seed: int
) -> Correlation:
    """The statistic with its percentile interval: methods are drawn with replacement, each with both of its values."""
    x, y = np.asarray(first, float), np.asarray(second, float)
    drawn = np.random.default_rng(seed).integers(0, len(x), (draws, len(x)))
    tails = 100 * np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    # with few methods, some draws repeat a single method, whose correlation is NaN
    low, high = np.nanpercentile(statistic(x[drawn], y[drawn]), tails)
    return Correlation(float(statistic(x[None], y[None])[0]), float(low), float(high))


def _spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the ranks."""
    ranks = [rankdata(values, axis=1) for values in (x, y)]
    return _cosine(*(of_draw - of_draw.mean(axis=1, keepdims=True) for of_draw in ranks))


def _kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The cosine of the signs of all pairs' differences."""
    return _cosine(*(np.sign(v[:, :, None] - v[:, None, :]).reshape(len(v), -1) for v in (x, y)))


def _cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    with np.errstate(invalid="ignore"):
        return (x * y).sum(axis=1) / lengths
