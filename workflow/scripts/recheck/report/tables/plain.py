"""A table of plain texts, as Markdown, CSV, LaTeX and HTML."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape as html_escape
from typing import Any

from recheck.report.tables.latex import escape as latex_escape
from recheck.report.tables.latex import slug


@dataclass(frozen=True)
class PlainTable:
    """``rows`` has texts for readers, ``records`` the same in full precision for programs.

    The first ``words`` columns are aligned to the left. ``name`` becomes the LaTeX label.
    """

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[Mapping[str, Any]]
    words: int = 1

    def markdown(self) -> str:
        """The table with aligned columns, then its caption."""
        texts = [[cell.replace("|", r"\|") for cell in row] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        rule = ["-" * width if place < self.words else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
        lines = [self._line(row, widths) for row in (texts[0], rule, *texts[1:])]
        return "\n".join(lines) + f"\n\n{self.caption}\n"

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.ljust(width) if place < self.words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.records[0]) if self.records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return text.getvalue()

    def latex(self) -> str:
        """A LaTeX float that needs booktabs and graphicx; it is shrunk only if it is wider than the text."""
        columns = "l" * self.words + "r" * (len(self.head) - self.words)
        lines = [" & ".join(map(latex_escape, row)) + r" \\" for row in (self.head, *self.rows)]
        return "\n".join(
            [
                r"% Needs \usepackage{booktabs,graphicx}.",
                r"\begin{table*}",
                r"\centering",
                r"\small",
                r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}%",
                "}",
                rf"\caption{{{latex_escape(self.caption)}}}",
                rf"\label{{tab:{slug(self.name)}}}",
                r"\end{table*}",
                "",
            ]
        )

    def html(self) -> str:
        """A table element without styles."""
        kinds = ["word" if place < self.words else "number" for place in range(len(self.head))]
        head = "".join(
            f'<th scope="col" class="{kind}">{html_escape(text)}</th>'
            for kind, text in zip(kinds, self.head, strict=True)
        )
        body = "".join(
            f'<tr><th scope="row">{html_escape(first)}</th>'
            + "".join(
                f'<td class="{kind}">{html_escape(text)}</td>' for kind, text in zip(kinds[1:], others, strict=True)
            )
            + "</tr>"
            for first, *others in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def json(self) -> dict[str, Any]:
        """The table as plain data: its arguments."""
        return asdict(self)
