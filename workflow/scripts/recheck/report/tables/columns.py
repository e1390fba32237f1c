"""The columns of a table: one to four per view and metric, then the last columns (search, size, seeds).

To add a last column, add it to ``LAST``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recheck.names import DISTANCES
from recheck.report import verdicts
from recheck.report.numbers import PLUS_MINUS, number, quote, signed
from recheck.report.tables.frame import CHANCE

if TYPE_CHECKING:
    import pandas as pd

    from recheck.report.tables.table import Table

OURS, PUBLISHED, DIFFERENCE, VERDICT = "ours", "published", "difference", "verdict"
MISSING, FAILED, NOT_RUN, OR = "—", "failed", "not run", " / "


@dataclass(frozen=True)
class Column:
    """A metric of a view: our value, the published value, their difference or the verdict on it."""

    view: str
    metric: str
    kind: str


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False


@dataclass(frozen=True)
class LastColumn:
    """A column after the metrics. ``text`` and ``csv`` (column → value) get the frame's rows of one method."""

    title: str
    shown: Callable[[Table], bool]
    text: Callable[[pd.DataFrame], str]
    csv: Callable[[pd.DataFrame], dict[str, Any]]


def cell(row: Any, kind: str, measured: bool, marks: Mapping[str, str]) -> Cell:
    """The cell of a frame's row in a column of this kind; ``marks`` maps notes to footnote marks."""
    digits = 3 if row.metric in DISTANCES else 2
    if kind == OURS:
        if np.isnan(row.mean):
            return Cell(MISSING if row.planned == 0 else FAILED if row.failed else NOT_RUN)
        interval = "" if np.isnan(row.interval) else f" {PLUS_MINUS} {number(row.interval, digits)}"
        return Cell(number(row.mean, digits) + interval, row.best)
    if kind == PUBLISHED:
        quotes: dict[str, dict[str, None]] = {}
        for value, approximate, note in zip(row.quotes, row.approximate, row.notes, strict=True):
            if not np.isnan(value):
                quotes.setdefault(quote(value, approximate, digits), {})[marks.get(note, "")] = None
        texts = [text + "".join(footnotes) for text, footnotes in quotes.items()]
        return Cell(OR.join(texts) or MISSING, bool(row.best) and not measured)
    if kind == VERDICT:
        return Cell(verdicts.words(row) or MISSING)
    if np.isnan(row.difference):
        return Cell(MISSING)
    first = next(place for place, value in enumerate(row.quotes) if not np.isnan(value))
    return Cell(signed(row.difference, 1 if row.approximate[first] else digits))


def _sizes_differ(table: Table) -> bool:
    """Whether embedding sizes differ between rows, or the study sets `show_size`."""
    return table.measured and (table.show_size or bool((table.frame.groupby("view")["dim"].nunique() > 1).any()))


def _size(rows: pd.DataFrame) -> str:
    """The embedding size of a method, per view if they differ; a dash if nothing was measured."""
    dims = dict.fromkeys(int(dim) for dim in rows["dim"].dropna())
    return OR.join(map(str, dims)) or MISSING


def _seed_count(rows: pd.DataFrame) -> int:
    """The number of a method's measured seeds: the smallest, if views differ."""
    counts = rows.loc[rows["seeds"] > 0, "seeds"]
    return 0 if counts.empty else int(counts.min())


def _seeds(rows: pd.DataFrame) -> str:
    """The number of a method's measured seeds: “3”, or “2 of 3” if some are missing."""
    count, planned = _seed_count(rows), int(rows["planned"].iloc[0])
    if rows["method"].iloc[0] == CHANCE:
        return MISSING
    return str(count) if count == planned else f"{count} of {planned}"


def _has_searches(table: Table) -> bool:
    return table.measured and "search_trials" in table.frame


def _validation(name: str) -> LastColumn:
    """Validation of the selected trial or of its reruns, in percent."""

    def text(rows: pd.DataFrame) -> str:
        value = rows[name].iloc[0]
        return MISSING if np.isnan(value) else number(value)

    title = {"search_selected": "Selected trial", "search_rerun": "Reruns"}[name]
    return LastColumn(title, _has_searches, text, lambda rows: {name: rows[name].iloc[0]})


def _trials(rows: pd.DataFrame) -> str:
    """The number of a row's trials, and how many of them failed."""
    count, failed = int(rows["search_trials"].iloc[0]), int(rows["search_failed"].iloc[0])
    if not count:
        return MISSING
    return f"{count} ({failed} failed)" if failed else str(count)


def _on_bound(rows: pd.DataFrame) -> str:
    """The settings whose chosen value lies on a bound."""
    return ", ".join(rows["search_on_bound"].iloc[0]) or MISSING


def _has_costs(table: Table) -> bool:
    return table.measured and "cost_needs" in table.frame


def _needs(rows: pd.DataFrame) -> str:
    """What a row needs beyond the protocol."""
    return "; ".join(rows["cost_needs"].iloc[0]) or MISSING


def _cost(name: str, title: str, text: Callable[[float], str]) -> LastColumn:
    """A cost of one seed: all folds or members together."""

    def shown(rows: pd.DataFrame) -> str:
        value = rows[name].iloc[0]
        return MISSING if np.isnan(value) else text(value)

    return LastColumn(title, _has_costs, shown, lambda rows: {name: rows[name].iloc[0]})


LAST = [
    LastColumn("Needs", _has_costs, _needs, lambda rows: {"cost_needs": _needs(rows)}),
    _cost("cost_images", "Images", lambda value: f"{value:,.0f}"),
    _cost("cost_parameters", "Parameters", lambda value: f"{value / 1e6:.2f} M"),
    _cost("cost_seconds", "CPU s", lambda value: f"{value:,.0f}"),
    _validation("search_selected"),
    _validation("search_rerun"),
    LastColumn(
        "Trials",
        _has_searches,
        _trials,
        lambda rows: {"search_trials": rows["search_trials"].iloc[0], "search_failed": rows["search_failed"].iloc[0]},
    ),
    LastColumn("On a bound", _has_searches, _on_bound, lambda rows: {"search_on_bound": _on_bound(rows)}),
    LastColumn("Size", _sizes_differ, _size, lambda rows: {"size": _size(rows)}),
    LastColumn(
        "Seeds",
        lambda table: table.measured,
        _seeds,
        lambda rows: {"seeds": _seed_count(rows), "planned_seeds": rows["planned"].iloc[0]},
    ),
]
