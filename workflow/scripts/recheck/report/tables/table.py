"""The table of one dataset: columns, cells, footnotes and caption, independent of the output format."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recheck.errors import UserError
from recheck.files import read_json
from recheck.names import metric_title, view_title
from recheck.report.results import Failure
from recheck.report.tables import columns, csv, html, latex, markdown
from recheck.report.tables.columns import DIFFERENCE, OURS, PUBLISHED, VERDICT, Cell, Column, LastColumn
from recheck.report.tables.frame import from_records, records
from recheck.report.warned import Warned
from recheck.sanity import MARK
from recheck.statistics.verdict import TESTED

TITLES = {PUBLISHED: "published", DIFFERENCE: "Δ", VERDICT: "verdict"}
# Superscript, because a plain footnote mark would read as another digit of the value.
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Table:
    """The table of one dataset. If not ``measured``, it has only published values and no columns for ours.

    ``name`` becomes the LaTeX label; ``headline`` is the table in one sentence.
    """

    frame: pd.DataFrame
    caption: str
    name: str
    dataset: str
    headline: str = ""
    measured: bool = True
    show_size: bool = False
    failures: Sequence[Failure] = ()
    warnings: Sequence[Warned] = ()
    # row → key of its paper's BibTeX entry
    citations: Mapping[str, str] = field(default_factory=dict)
    # keys of the BibTeX entries of the documents with published values
    quoted: Sequence[str] = ()

    @property
    def compares(self) -> bool:
        """Whether the table has both our values and published ones."""
        return self.measured and bool(self.frame["published"].notna().any())

    @cached_property
    def columns(self) -> list[Column]:
        """The metric columns; `published`, difference and verdict only for metrics with such a cell."""
        shown = []
        for (view, metric), rows in self.frame.groupby(["view", "metric"], sort=False):
            kinds = [OURS] if self.measured else [PUBLISHED]
            if self.measured and rows["published"].notna().any():
                kinds += [PUBLISHED, DIFFERENCE]
            if rows["verdict"].isin(TESTED).any():
                kinds.append(VERDICT)
            shown += [Column(view, metric, kind) for kind in kinds]
        return shown

    @property
    def last(self) -> list[LastColumn]:
        return [column for column in columns.LAST if column.shown(self)]

    @cached_property
    def notes(self) -> list[str]:
        """The footnotes of the published values in the table, in the order of the rows."""
        pairs = zip(self.frame["quotes"], self.frame["notes"], strict=True)
        quotes = [quote for values, notes in pairs for quote in zip(values, notes, strict=True)]
        return list(dict.fromkeys(note for value, note in quotes if note and not np.isnan(value)))

    @property
    def labels(self) -> dict[str, str]:
        return dict(zip(self.frame["method"], self.frame["label"], strict=True))

    @property
    def reasons(self) -> list[str]:
        """One line per reason for failure, with the runs that failed."""
        runs: dict[str, dict[str, list[str]]] = {}
        for failure in self.failures:
            label = self.labels.get(failure.method, failure.method)
            runs.setdefault(failure.reason, {}).setdefault(label, []).append(failure.where)
        named = {
            reason: ", ".join(f"{label} ({'; '.join(where)})" for label, where in by_label.items())
            for reason, by_label in runs.items()
        }
        return [f"failed: {rows}: {reason}" for reason, rows in named.items()]

    @property
    def alerts(self) -> list[str]:
        """One line per warning, with the rows that it is about."""
        rows: dict[str, dict[str, None]] = {}
        for warning in self.warnings:
            label = self.labels.get(warning.method, warning.method)
            named = f"{label} ({warning.where})" if warning.where else label
            rows.setdefault(warning.sentence, {})[named] = None
        return [f"{MARK} {', '.join(named)}: {sentence}." for sentence, named in rows.items()]

    def view_title(self, view: str) -> str:
        """The view's title with the dimension of its embeddings; a range if rows differ."""
        name = view_title(view).capitalize()
        dims = sorted({int(dim) for dim in self.frame.loc[self.frame["view"] == view, "dim"].dropna()})
        if not dims:
            return name
        return f"{name} {dims[0]}-d" if len(dims) == 1 else f"{name} {dims[0]}–{dims[-1]}-d"

    def title(self, column: Column) -> str:
        """A column's short title, for use below the title of its view."""
        named = column.kind == OURS or not self.measured
        return metric_title(column.metric) if named else TITLES[column.kind]

    def groups(self) -> list[tuple[str, list[Column]]]:
        views = dict.fromkeys(column.view for column in self.columns)
        return [(self.view_title(view), [c for c in self.columns if c.view == view]) for view in views]

    def rows(self) -> list[tuple[str, list[Cell], list[str]]]:
        """Label, metric cells and texts of the last columns, per method."""
        rows, shown, last = [], self.columns, self.last
        marks = {note: mark(number) for number, note in enumerate(self.notes, start=1)}
        for _, values in self.frame.groupby("method", sort=False):
            at = {(row.view, row.metric): row for row in values.itertuples()}
            cells = [columns.cell(at[each.view, each.metric], each.kind, self.measured, marks) for each in shown]
            label = str(values["label"].iloc[0]) + (f" {MARK}" if values["warned"].any() else "")
            rows.append((label, cells, [column.text(values) for column in last]))
        return rows

    def markdown(self) -> str:
        return markdown.render(self)

    def csv(self) -> str:
        return csv.render(self)

    def latex(self) -> str:
        return latex.render(self)

    def html(self) -> str:
        return html.render(self)

    def json(self) -> dict[str, Any]:
        """The whole table as plain data, from which ``load`` restores it."""
        return {
            "name": self.name,
            "dataset": self.dataset,
            "caption": self.caption,
            "headline": self.headline,
            "measured": self.measured,
            "show_size": self.show_size,
            "citations": dict(self.citations),
            "quoted": list(self.quoted),
            "columns": [asdict(column) for column in self.columns],
            "notes": self.notes,
            "failures": [asdict(failure) for failure in self.failures],
            "warnings": [{**asdict(warning), "text": warning.sentence} for warning in self.warnings],
            "rows": records(self.frame),
        }


def load(path: str | Path) -> Table:
    """The table in a ``table.json``."""
    try:
        stored = read_json(path)
        keys = ("caption", "name", "dataset", "headline", "measured", "show_size", "citations", "quoted")
        options = {key: stored[key] for key in keys}
        failures = [Failure(**failure) for failure in stored["failures"]]
        warnings = [Warned(each["method"], each["check"], each["where"]) for each in stored["warnings"]]
        return Table(from_records(stored["rows"]), failures=failures, warnings=warnings, **options)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is not a table ({error}): delete it and run again to recreate it.") from error


def mark(number: int) -> str:
    """The mark of a footnote."""
    return f"⁽{str(number).translate(SUPERSCRIPTS)}⁾"
