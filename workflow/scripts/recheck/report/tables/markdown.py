"""A table as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recheck.names import metric_title
from recheck.report.tables.columns import OURS

if TYPE_CHECKING:
    from recheck.report.tables.table import Table


def render(table: Table) -> str:
    """The table with aligned columns, then its footnotes, warnings, failures and caption."""
    titles = []
    for group, columns in table.groups():
        for column in columns:
            kind = table.title(column) if column.kind != OURS and table.measured else ""
            titles.append(f"{group} {metric_title(column.metric)} {kind}".rstrip())
    head = ["Method", *titles, *(column.title for column in table.last)]
    body = []
    for label, cells, ends in table.rows():
        texts = [f"**{cell.text}**" if cell.bold else cell.text for cell in cells]
        body.append([label.replace("|", r"\|"), *texts, *ends])
    widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(row, widths) for row in [head, rule, *body]]
    notes = "".join(f"{number}. {note}\n" for number, note in enumerate(table.notes, start=1))
    failed = "".join(f"- {line}\n" for line in [*table.alerts, *table.reasons])
    return "\n".join(
        ["\n".join(lines) + "\n", *([notes] if notes else []), *([failed] if failed else []), table.caption + "\n"]
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cells[0].ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
    ]
    return f"| {' | '.join(padded)} |"
