"""A table as LaTeX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recheck.names import metric_title
from recheck.report.numbers import MINUS
from recheck.report.tables.columns import MISSING, OR, OURS, PUBLISHED, VERDICT, Cell, Column

if TYPE_CHECKING:
    from recheck.report.tables.table import Table

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    MINUS: r"$-$",
    "—": "---",
    "–": "--",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\epsilon$",
    "η": r"$\eta$",
    "θ": r"$\theta$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "φ": r"$\phi$",
    "ω": r"$\omega$",
    "Δ": r"$\Delta$",
    "Σ": r"$\Sigma$",
    "’": "'",
    "⁽": r"\textsuperscript{",
    "⁾": "}",
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)),
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
    "⚠": r"\textsuperscript{$\dagger$}",
    "\u00a0": "~",
}


def render(table: Table) -> str:
    """A LaTeX float that needs booktabs and graphicx; it is shrunk only if it is wider than the text.

    One column per view and metric. Published values are in small type below our values: separate columns would make
    the whole table too small to read.
    """
    lead = OURS if table.measured else PUBLISHED
    ends = [column.title for column in table.last]
    places = [place for place, column in enumerate(table.columns) if column.kind == lead]
    top, rules, start = [], [], 2
    for title, columns in table.groups():
        count = sum(column.kind == lead for column in columns)
        top.append(rf"\multicolumn{{{count}}}{{c}}{{{escape(title)}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    head = [escape(metric_title(table.columns[place].metric)) for place in places]
    lines = [
        r"% Needs \usepackage{booktabs,graphicx}. In a two-column paper table* spans the page;",
        r"% in a one-column paper it is the same as table.",
        *[r"% The BibTeX entries are in the study's references.bib."] * bool(table.citations or table.quoted),
        r"\begin{table*}",
        r"\centering",
        r"\small",
        r"\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(places)}{'r' * len(ends)}}}",
        r"\toprule",
        _line(["", *top, *[""] * len(ends)]),
        " ".join(rules),
        _line(["Method", *head, *ends]),
        r"\midrule",
    ]
    for number, (name, (label, cells, texts)) in enumerate(zip(table.labels, table.rows(), strict=True)):
        lines += [r"\addlinespace"] * (table.compares and number > 0)
        values = [_cell(cells[place]) for place in places]
        cite = rf"~\cite{{{table.citations[name]}}}" if name in table.citations else ""
        lines.append(_line([escape(label) + cite, *values, *map(escape, texts)]))
        if table.compares:
            lines += _quotes([_beside(table.columns, cells, place) for place in places], len(ends))
    verdict = ", and the verdict" if any(column.kind == VERDICT for column in table.columns) else ""
    small = f" Below each value, in small type: the published value, with Δ in brackets{verdict}."
    below = small if table.compares else ""
    cited = rf" Sources of published values: \cite{{{','.join(table.quoted)}}}." if table.quoted else ""
    notes = [f"⁽{number}⁾ {note}" for number, note in enumerate(table.notes, start=1)]
    notes += table.alerts + table.reasons
    footnotes = r"\par ".join(map(escape, notes))
    return "\n".join(
        [
            *lines,
            r"\bottomrule",
            r"\end{tabular}%",
            "}",
            *([rf"\par\smallskip\parbox{{\textwidth}}{{\footnotesize\raggedright {footnotes}}}"] if notes else []),
            rf"\caption{{{escape(table.caption + below)}{cited}}}",
            rf"\label{{tab:{slug(table.name)}}}",
            r"\end{table*}",
            "",
        ]
    )


def escape(text: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in text)


def _line(cells: Sequence[str]) -> str:
    """A line of a table. Without {}, the end of the previous line would take a [ or * as its option."""
    line = " & ".join(cells) + r" \\"
    return "{}" + line if line.startswith(("[", "*")) else line


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.bold else text


def _beside(columns: Sequence[Column], cells: Sequence[Cell], place: int) -> list[Cell]:
    """The published value, the difference and the verdict next to our value in column ``place``, if there are any."""
    same = (columns[place].view, columns[place].metric)
    after = zip(columns[place + 1 : place + 4], cells[place + 1 : place + 4], strict=True)
    return [cell for column, cell in after if (column.view, column.metric) == same]


def _quotes(beside: Sequence[Sequence[Cell]], ends: int) -> list[str]:
    """Lines with published values, differences and verdicts in small type; a second document has its own line.

    On the same line, a single disagreement between two documents would widen every column.
    """
    stacks = []
    for cells in beside:
        if not cells:
            stacks.append([])
            continue
        published, difference, *verdict = cells
        first, *others = published.text.split(OR)
        signed = "" if difference.text == MISSING else f" (${difference.text.replace(MINUS, '-')}$)"
        words = [escape(cell.text) for cell in verdict if cell.text != MISSING]
        stacks.append([escape(first) + signed, *(f"/ {escape(other)}" for other in others), *words])
    return [
        _line(["", *(rf"{{\scriptsize {text}}}" if text else "" for text in texts), *[""] * ends])
        for texts in itertools.zip_longest(*stacks, fillvalue="")
    ]


def slug(text: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in text.lower()).strip("-")
