"""The columns of a table: one or more per metric of a view, and the last ones, which are no metrics.

To add a last column, add it to ``LAST``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recheck.report.numbers import PLUS_MINUS, number, quote, signed
from recheck.report.tables.frame import CHANCE

if TYPE_CHECKING:
    import pandas as pd

    from recheck.report.tables.table import Table

OURS, PUBLISHED, DIFFERENCE = "ours", "published", "difference"
MISSING, FAILED, NOT_RUN, OR = "—", "failed", "not run", " / "


@dataclass(frozen=True)
class Column:
    """A metric of a view: our value, the published one, or the difference."""

    view: str
    metric: str
    kind: str


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False


@dataclass(frozen=True)
class LastColumn:
    """A column behind the metrics; ``text`` and ``csv`` (column -> value) get the lines of one row of the frame."""

    title: str
    shown: Callable[[Table], bool]
    text: Callable[[pd.DataFrame], str]
    csv: Callable[[pd.DataFrame], dict[str, Any]]


def cell(row: Any, kind: str, measured: bool, marks: Mapping[str, str]) -> Cell:
    """What a line of the frame says in a column of this kind; ``marks`` are the footnotes' by note."""
    if kind == OURS:
        if np.isnan(row.mean):
            return Cell(MISSING if row.method == CHANCE else FAILED if row.failed else NOT_RUN)
        interval = "" if np.isnan(row.interval) else f" {PLUS_MINUS} {row.interval:.2f}"
        return Cell(number(row.mean) + interval, row.best)
    if kind == PUBLISHED:
        found: dict[str, dict[str, None]] = {}
        for value, approximate, note in zip(row.quotes, row.approximate, row.notes, strict=True):
            if not np.isnan(value):
                found.setdefault(quote(value, approximate), {})[marks.get(note, "")] = None
        texts = [text + "".join(own) for text, own in found.items()]
        return Cell(OR.join(texts) or MISSING, bool(row.best) and not measured)
    if np.isnan(row.difference):
        return Cell(MISSING)
    first = next(place for place, value in enumerate(row.quotes) if not np.isnan(value))
    return Cell(signed(row.difference, 1 if row.approximate[first] else 2))


def _sizes_differ(table: Table) -> bool:
    """Whether rows differ in the size of their embeddings, or the study asks to show it."""
    return table.measured and (table.show_size or bool((table.frame.groupby("view")["dim"].nunique() > 1).any()))


def _size(part: pd.DataFrame) -> str:
    """The size of a row's embeddings, in every view if they differ; a dash if nothing was measured."""
    dims = dict.fromkeys(int(dim) for dim in part["dim"].dropna())
    return OR.join(map(str, dims)) or MISSING


def _seed_count(part: pd.DataFrame) -> int:
    """The number of seeds behind a row's values: the smallest, where views differ."""
    counts = part.loc[part["seeds"] > 0, "seeds"]
    return 0 if counts.empty else int(counts.min())


def _seeds(part: pd.DataFrame) -> str:
    """How many seeds are behind a row; says of how many if some are missing."""
    count, planned = _seed_count(part), int(part["planned"].iloc[0])
    if part["method"].iloc[0] == CHANCE:
        return MISSING
    return str(count) if count == planned else f"{count} of {planned}"


LAST = [
    LastColumn("Size", _sizes_differ, _size, lambda part: {"size": _size(part)}),
    LastColumn(
        "Seeds",
        lambda table: table.measured,
        _seeds,
        lambda part: {"seeds": _seed_count(part), "planned_seeds": part["planned"].iloc[0]},
    ),
]
