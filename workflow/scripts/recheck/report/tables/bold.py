"""Which values of a table are bold: the best of a column, and all that the seeds cannot separate from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

ERROR = 0.05


def best(table: pd.DataFrame, ranked: pd.Series, values: Mapping[Any, Mapping[int, float]]) -> pd.Series:
    """Whether each value is bold.

    ``table`` has the columns view, metric, mean and published; ``ranked`` says which rows take part. ``values`` has the
    value of every seed, by the index of ``table``. Without measured values, the highest published value is bold.
    """
    bold = pd.Series(False, index=table.index)
    measured = bool(table["mean"].notna().any())
    for _, column in table[ranked].groupby(["view", "metric"], sort=False):
        names = _not_separated(column, values) if measured else _highest(column["published"].dropna())
        bold[names] = True
    return bold


def _highest(printed: pd.Series) -> list[Any]:
    """The highest values as printed, if there are two or more to compare."""
    printed = printed.round(2)
    return [] if len(printed) < 2 else list(printed.index[printed == printed.max()])


def _not_separated(column: pd.DataFrame, values: Mapping[Any, Mapping[int, float]]) -> list[Any]:
    """The row with the highest mean, and all that are not separated from it.

    Rows share seeds and splits, so seeds are paired: a row is separated if the t-interval of its differences to the
    best row excludes 0. Which row is best is a result too, so the intervals have 95 % for all pairs of rows together
    (Bonferroni). A row with one seed has no interval and is left out.
    """
    compared = column[column["mean"].notna() & column.index.map(lambda name: len(values.get(name, ())) > 1)]
    if len(compared) < 2:
        return []
    first = compared["mean"].idxmax()
    pairs = len(compared) * (len(compared) - 1) / 2
    return [
        name
        for name in compared.index
        if round(compared["mean"][name], 2) == round(compared["mean"][first], 2)
        or not separated(values[first], values[name], ERROR / pairs)
    ]


def separated(one: Mapping[int, float], other: Mapping[int, float], error: float = ERROR) -> bool:
    """Whether the t-interval of the mean difference over shared seeds, with this error, excludes 0."""
    shared = sorted(set(one) & set(other))
    if len(shared) < 2:
        return False
    differences = np.array([one[seed] - other[seed] for seed in shared])
    half = stdtrit(len(shared) - 1, 1 - error / 2) * differences.std(ddof=1) / np.sqrt(len(shared))
    return bool(abs(differences.mean()) > half)
