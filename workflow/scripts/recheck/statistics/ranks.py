"""Average ranks of methods over blocks such as datasets, and which of them differ (J. Demšar, JMLR 7, 2006)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

ERROR = 0.05


@dataclass(frozen=True)
class Ranking:
    """Average rank of each method (1 is the highest value) over ``blocks``, in the order of the methods.

    ``p`` belongs to Friedman's hypothesis that all methods are equal. Two methods differ if their average ranks are
    more than the ``critical`` difference of Nemenyi's test apart; ``groups`` are the largest sets of methods
    (positions, best first) in which no two differ.
    """

    average: np.ndarray
    blocks: int
    p: float
    critical: float
    groups: list[list[int]]


def ranking(values: np.ndarray) -> Ranking:
    """The ranking of methods by values (blocks × methods) without gaps; equal values share the mean of their ranks.

    Friedman's test needs three or more methods, and one block says nothing about the error of the ranks.
    """
    values = np.asarray(values, float)
    blocks, methods = values.shape
    average = rankdata(-values, axis=1).mean(axis=0)
    critical = critical_difference(methods, blocks)
    return Ranking(average, blocks, friedman(values), critical, groups(average, critical))


def friedman(values: np.ndarray) -> float:
    """The p-value of Friedman's test (blocks × methods); 1 if the methods are equal in every block."""
    if (values == values[:, :1]).all():
        return 1.0
    return float(friedmanchisquare(*values.T).pvalue)


def critical_difference(methods: int, blocks: int, error: float = ERROR) -> float:
    """The smallest difference of two average ranks that Nemenyi's test calls a difference."""
    quantile = studentized_range.ppf(1 - error, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def groups(average: Sequence[float], critical: float) -> list[list[int]]:
    """The largest sets of two or more methods whose average ranks are at most ``critical`` apart, best first."""
    order = np.argsort(average, kind="stable")
    ranks = np.asarray(average, float)[order]
    ends = np.searchsorted(ranks, ranks + critical, side="right")
    # a set that ends where the previous one ends is part of that one
    starts = [start for start, end in enumerate(ends) if end - start > 1 and (start == 0 or end > ends[start - 1])]
    return [order[start : ends[start]].tolist() for start in starts]
