"""All pairs of rows of one dataset, compared on the seeds and folds that both have; in percentage points."""

from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import Any

import pandas as pd

from recheck.names import DISTANCES
from recheck.statistics import paired

COLUMNS = [
    "view",
    "metric",
    "first",
    "second",
    "difference",
    "low",
    "high",
    "confidence",
    "probability",
    "p",
    "p_adjusted",
    "seeds",
    "pairs",
    "note",
]
# the numbers of a comparison that are in percentage points
POINTS = ["difference", "low", "high"]
ERROR = 0.05


def build(facts: Mapping[str, Any], evaluations: pd.DataFrame, folds: pd.DataFrame) -> pd.DataFrame:
    """One line per view and pair of measured rows, in the order of the study, with the lead metric.

    ``p_adjusted`` is adjusted over all pairs of a view.
    """
    metric = facts["lead_metric"]
    if metric in DISTANCES:  # higher is not better
        return pd.DataFrame(columns=COLUMNS)
    parts = []
    for view in facts["views"]:
        rows = values(evaluations, folds, view, metric)
        rows = {row["name"]: rows[row["name"]] for row in facts["rows"] if row["name"] in rows}
        compared = paired.compare_all(rows)
        if not compared:
            continue
        names = [{"view": view, "metric": metric, "first": first, "second": second} for first, second in compared]
        frame = pd.DataFrame([name | asdict(pair) for name, pair in zip(names, compared.values(), strict=True)])
        frame[POINTS] *= 100
        notes = [_note(len(rows[one]), len(rows[two]), pair.seeds) for (one, two), pair in compared.items()]
        parts.append(frame.assign(p_adjusted=paired.adjusted(frame["p"]), note=notes)[COLUMNS])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def values(evaluations: pd.DataFrame, folds: pd.DataFrame, view: str, metric: str) -> dict[str, paired.Values]:
    """Row → seed → its value in every fold; a single value for views that combine the folds."""
    rows: dict[str, dict[int, list[float]]] = {}
    for frame, single in ((evaluations, True), (folds, False)):
        shown = frame[(frame["view"] == view) & (frame["metric"] == metric)]
        for (method, seed), seed_values in shown.groupby(["method", "seed"], sort=False)["value"]:
            # folds of a seed that lacks another view are not compared
            if single or seed in rows.get(method, ()):
                rows.setdefault(method, {})[seed] = seed_values.tolist()
    return rows


def _note(first: int, second: int, shared: int) -> str:
    """What limits a comparison, as a sentence; empty if nothing does."""
    limit = {0: "No interval and no test: no seed in common.", 1: "No interval and no test: one seed in common."}
    if shared in limit:
        return limit[shared]
    if first == second == shared:
        return ""
    return f"Paired on {shared} seeds: the first row has {first}, the second {second}."


def csv(table: pd.DataFrame) -> str:
    """The comparisons as CSV in full precision, with empty cells for missing values."""
    return table.to_csv(index=False, lineterminator="\n")


def decided(row: Any) -> bool:
    """Whether two rows differ, with an error of 5 % over all pairs of the view."""
    return not isnan(row.p_adjusted) and row.p_adjusted <= ERROR


def excludes_zero(row: Any) -> bool:
    """Whether the interval of a difference excludes 0."""
    return row.low > 0 or row.high < 0
