"""A table as an HTML element."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recheck.report.tables.table import Table


def render(table: Table) -> str:
    """A table element without styles, with grouped headers that a screen reader can follow."""
    groups, last = table.groups(), [column.title for column in table.last]
    top = "".join(f'<th scope="colgroup" colspan="{len(c)}">{escape(title)}</th>' for title, c in groups)
    firsts = [" first" if place == 0 else "" for _, columns in groups for place in range(len(columns))]
    titles = "".join(
        f'<th scope="col" class="{column.kind}{first}">{escape(table.title(column))}</th>'
        for column, first in zip(table.columns, firsts, strict=True)
    )
    end = "".join(f'<th scope="col" rowspan="2" class="{title.lower()}">{title}</th>' for title in last)
    body = []
    for label, cells, ends in table.rows():
        texts = [
            f'<td class="{column.kind}{first}">'
            + (f"<strong>{escape(cell.text)}</strong>" if cell.bold else escape(cell.text))
            + "</td>"
            for column, cell, first in zip(table.columns, cells, firsts, strict=True)
        ]
        texts += [f'<td class="{title.lower()}">{escape(text)}</td>' for title, text in zip(last, ends, strict=True)]
        body.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(texts)}</tr>')
    return (
        f'<table><thead><tr><th scope="col" rowspan="2">Method</th>{top}{end}</tr><tr>{titles}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )
