"""One table a dataset: Markdown, CSV, LaTeX and HTML rendered from the same frame."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape as html_escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recheck.names import BEST_ON_TEST, LAST_EPOCH, QUERY_VIEWS, VIEWS

MISSING, FAILED, NOT_RUN = "—", "failed", "not run"
PLUS_MINUS, MINUS, OR, ABOUT = "±", "−", " / ", "≈\u00a0"
# A footnote's mark must not read as one more digit of the value that it stands at.
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
CSV_COLUMN = re.compile(rf"(?P<view>{'|'.join(VIEWS)}|[^_]+)_(?P<metric>.+?)_(status|published)")
# What a CSV says of a published value besides, where there is anything to say: the end of a column, and the frame's.
QUOTE_DETAILS = {"approximate": "approximate", "note": "notes"}
# Where a view's own name is no word.
VIEW_NAMES = {BEST_ON_TEST: "best epoch on test", LAST_EPOCH: "last epoch"} | {
    view: view.replace("_", " ") for view in QUERY_VIEWS
}
# A row that is computed, not measured; and what is no better for being higher.
CHANCE, NOT_RANKED = "chance", ("distance",)
OURS, PUBLISHED, DIFFERENCE = "ours", "published", "difference"
LATEX = {
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
    PLUS_MINUS: r"$\pm$",
    MINUS: r"$-$",
    "—": "---",
    "–": "--",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "Δ": r"$\Delta$",
    "’": "'",
    "⁽": r"\textsuperscript{",
    "⁾": "}",
    **{chr(raised): chr(digit) for digit, raised in SUPERSCRIPTS.items()},
    "“": "``",
    "”": "''",
    "\u00a0": "~",
}


@dataclass(frozen=True)
class Published:
    """Values quoted from one document, in percent: dataset -> method -> view -> metric."""

    source: str
    values: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
    # read off a plot
    approximate: bool = False
    # why values of a row are doubtful: dataset -> method -> sentence
    notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def value(self, dataset: str, method: str, view: str, metric: str) -> float:
        row = (self.values.get(dataset) or {}).get(method) or {}
        return float((row.get(view) or {}).get(metric, np.nan))

    def note(self, dataset: str, method: str, metric: str, metrics: Collection[str] = ()) -> str:
        """The note on a value; one that begins with the name of another of the ``metrics`` is about that one alone."""
        text = (self.notes.get(dataset) or {}).get(method, "")
        about = text.split(maxsplit=1)[0].rstrip(":,") if text else ""
        return "" if about in metrics and about != metric else text


def published(given: object) -> list[Published]:
    """The ``published`` of a study: nothing, one document, or several of which the first is compared with."""
    if not given:
        return []
    documents = given if isinstance(given, list) else [given]
    return [
        Published(
            str(document["source"]),
            document["values"],
            bool(document.get("approximate")),
            document.get("notes") or {},
        )
        for document in documents
    ]


def frame(
    summary: pd.DataFrame,
    dataset: str,
    *,
    methods: Mapping[str, str],
    views: Sequence[str],
    metrics: Sequence[str],
    seeds: int = 1,
    failed: Iterable[tuple[str, str, str]] = (),
    quoted: Sequence[Published] = (),
    released: Collection[str] = (),
    chance: Mapping[str, Mapping[str, float]] | None = None,
) -> pd.DataFrame:
    """All that a table says, in percent: one row for each method, view and metric, in the study's order.

    ``methods`` maps keys to labels; ``seeds`` is how many were planned (of ``released`` checkpoints, one). What was not
    measured is NaN. ``chance``, by view and metric, is a row of its own before all others.
    """
    measured = summary[summary["dataset"] == dataset].set_index(["method", "view", "metric"])
    failed, released = set(failed), set(released)
    rows = _chance_rows(chance, views, metrics, len(quoted)) if chance else []
    for method, label in methods.items():
        for view in views:
            for metric in metrics:
                found = measured.loc[(method, view, metric)] if (method, view, metric) in measured.index else None
                values = [document.value(dataset, method, view, metric) for document in quoted]
                mean = np.nan if found is None else 100 * found["mean"]
                first = next((value for value in values if not np.isnan(value)), np.nan)
                rows.append(
                    {
                        "method": method,
                        "label": label,
                        "view": view,
                        "metric": metric,
                        "dim": None if found is None or pd.isna(found["dim"]) else int(found["dim"]),
                        "mean": mean,
                        "interval": np.nan if found is None else 100 * found["interval"],
                        "seeds": 0 if found is None else int(found["seeds"]),
                        "planned": 1 if method in released else seeds,
                        "failed": (dataset, method, view) in failed,
                        "published": first,
                        "quotes": tuple(values),
                        "approximate": tuple(document.approximate for document in quoted),
                        "notes": tuple(document.note(dataset, method, metric, metrics) for document in quoted),
                        "difference": mean - first,
                    }
                )
    return _with_best(pd.DataFrame(rows))


def _chance_rows(
    chance: Mapping[str, Mapping[str, float]], views: Sequence[str], metrics: Sequence[str], documents: int
) -> list[dict[str, Any]]:
    none = {"dim": None, "interval": np.nan, "seeds": 0, "planned": 0, "failed": False}
    quotes = {"published": np.nan, "quotes": (np.nan,) * documents, "difference": np.nan}
    doubts = {"approximate": (False,) * documents, "notes": ("",) * documents}
    return [
        {
            **{"method": CHANCE, "label": "Chance", "view": view, "metric": metric},
            "mean": 100 * chance[view].get(metric, np.nan),
            **none,
            **quotes,
            **doubts,
        }
        for view in views
        for metric in metrics
    ]


def _with_best(table: pd.DataFrame) -> pd.DataFrame:
    """Mark the best of each column, of our own values if there are any.

    They are compared as printed: two cells that read the same are either both best or both not.
    """
    lead = table["mean"] if table["mean"].notna().any() else table["published"]
    printed = lead.round(2).where((table["method"] != CHANCE) & ~table["metric"].isin(NOT_RANKED))
    highest = printed.groupby([table["view"], table["metric"]]).transform("max")
    return table.assign(best=printed.notna() & (printed == highest))


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False


@dataclass(frozen=True)
class Column:
    view: str
    metric: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A frame laid out for reading, with the line that says what it shows.

    A table that is not ``measured`` only quotes: it has no column for values of our own.
    """

    frame: pd.DataFrame
    caption: str
    name: str
    measured: bool = True
    show_size: bool = False

    @property
    def has_published(self) -> bool:
        return bool(self.frame["published"].notna().any())

    @property
    def compares(self) -> bool:
        """Whether values of our own stand beside published ones."""
        return self.measured and self.has_published

    @property
    def columns(self) -> list[Column]:
        """What was published and how far ours is from it only where anything was."""
        quoted = self.frame.groupby(["view", "metric"], sort=False)["published"].count()
        lead = [OURS] if self.measured else [PUBLISHED]
        return [
            Column(view, metric, kind)
            for (view, metric), count in quoted.items()
            for kind in [*lead, *([PUBLISHED, DIFFERENCE] if self.measured and count else [])]
        ]

    @property
    def notes(self) -> list[str]:
        """The footnotes of the published values that are shown, in the order of the rows."""
        pairs = zip(self.frame["quotes"], self.frame["notes"], strict=True)
        quotes = [quote for values, notes in pairs for quote in zip(values, notes, strict=True)]
        return list(dict.fromkeys(note for value, note in quotes if note and not np.isnan(value)))

    @property
    def has_size(self) -> bool:
        """Whether each row says the size of its embeddings: where rows differ, or a study asks for it."""
        dims = self.frame.groupby("view")["dim"].nunique()
        return self.measured and (self.show_size or bool((dims > 1).any()))

    def view_title(self, view: str) -> str:
        """The view with the dimension its embeddings really have; a range if rows differ."""
        name = view_name(view).capitalize()
        dims = sorted({int(dim) for dim in self.frame.loc[self.frame["view"] == view, "dim"].dropna()})
        if not dims:
            return name
        return f"{name} {dims[0]}-d" if len(dims) == 1 else f"{name} {dims[0]}–{dims[-1]}-d"

    def title(self, column: Column) -> str:
        """A column's title where its neighbours say the rest."""
        named = column.kind == OURS or not self.measured
        return metric_name(column.metric) if named else {PUBLISHED: "published", DIFFERENCE: "Δ"}[column.kind]

    def groups(self) -> list[tuple[str, list[Column]]]:
        views = dict.fromkeys(column.view for column in self.columns)
        return [(self.view_title(view), [c for c in self.columns if c.view == view]) for view in views]

    @property
    def ends(self) -> list[str]:
        """Titles of the last columns, which are no metrics."""
        return ["Size"] * self.has_size + ["Seeds"] * self.measured

    def rows(self) -> list[tuple[str, list[Cell], list[str]]]:
        """Label, cells, and what stands in the last columns of each method, as text."""
        rows, columns = [], self.columns
        marks = {note: mark(number) for number, note in enumerate(self.notes, start=1)}
        for _, part in self.frame.groupby("method", sort=False):
            at = {(row.view, row.metric): row for row in part.itertuples()}
            cells = [_cell(at[column.view, column.metric], column.kind, self.measured, marks) for column in columns]
            ends = [_size(part)] * self.has_size + [_seeds(part)] * self.measured
            rows.append((str(part["label"].iloc[0]), cells, ends))
        return rows

    def markdown(self) -> str:
        titles = []
        for group, columns in self.groups():
            for column in columns:
                kind = self.title(column) if column.kind != OURS and self.measured else ""
                titles.append(f"{group} {metric_name(column.metric)} {kind}".rstrip())
        head = ["Method", *titles, *self.ends]
        body = []
        for label, cells, ends in self.rows():
            texts = [f"**{cell.text}**" if cell.bold else cell.text for cell in cells]
            body.append([label.replace("|", r"\|"), *texts, *ends])
        widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = [_markdown_line(row, widths) for row in [head, rule, *body]]
        notes = "".join(f"{number}. {note}\n" for number, note in enumerate(self.notes, start=1))
        return "\n".join(lines) + (f"\n\n{notes}" if notes else "\n") + f"\n{self.caption}\n"

    def csv(self) -> str:
        """Wide and for machines: full precision, percent, empty where there is nothing."""
        lines = []
        doubts = {name: any(any(own) for own in self.frame[name]) for name in QUOTE_DETAILS.values()}
        for method, part in self.frame.groupby("method", sort=False):
            line: dict[str, object] = {"method": method, "label": part["label"].iloc[0]}
            if self.measured:
                line |= {"seeds": _seed_count(part), "planned_seeds": part["planned"].iloc[0]}
            if self.has_size:
                line["size"] = _size(part)
            for row in part.itertuples():
                prefix = f"{row.view}_{row.metric}"
                if self.measured:
                    line[f"{prefix}_status"] = _status(row)
                    line[f"{prefix}_dim"] = row.dim
                    line[f"{prefix}_mean"], line[f"{prefix}_interval"] = row.mean, row.interval
                for number, value in enumerate(row.quotes, start=1):
                    end = f"_{number}" if number > 1 else ""
                    line[f"{prefix}_published{end}"] = value
                    for name, column in QUOTE_DETAILS.items():
                        if doubts[column]:
                            own = getattr(row, column)[number - 1]
                            line[f"{prefix}_{name}{end}"] = None if np.isnan(value) or not own else own
                if row.quotes and self.measured:
                    line[f"{prefix}_difference"] = row.difference
            lines.append(line)
        wide = pd.DataFrame(lines)
        dims = [column for column in wide if column.endswith("_dim")]
        return wide.astype(dict.fromkeys(dims, "Int64")).to_csv(index=False, lineterminator="\n")

    def latex(self) -> str:
        """A float for any article that loads booktabs and graphicx; shrunk only if wider than the text.

        One column a metric of a view, all views side by side. What was published stands below our own value, smaller:
        in columns of its own it would make the type too small to read.
        """
        lead = OURS if self.measured else PUBLISHED
        places = [place for place, column in enumerate(self.columns) if column.kind == lead]
        top, rules, start = [], [], 2
        for title, columns in self.groups():
            count = sum(column.kind == lead for column in columns)
            top.append(rf"\multicolumn{{{count}}}{{c}}{{{latex_escape(title)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
            start += count
        head = [latex_escape(metric_name(self.columns[place].metric)) for place in places]
        lines = [
            r"% Needs \usepackage{booktabs,graphicx}. table* is as wide as the page in a paper of two columns,",
            r"% and the same as table in a paper of one.",
            r"\begin{table*}",
            r"\centering",
            r"\small",
            r"\setlength{\tabcolsep}{4pt}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(places)}{'r' * len(self.ends)}}}",
            r"\toprule",
            _latex_line(["", *top, *[""] * len(self.ends)]),
            " ".join(rules),
            _latex_line(["Method", *head, *self.ends]),
            r"\midrule",
        ]
        for number, (label, cells, ends) in enumerate(self.rows()):
            lines += [r"\addlinespace"] * (self.compares and number > 0)
            values = [_latex_cell(cells[place]) for place in places]
            lines.append(_latex_line([latex_escape(label), *values, *map(latex_escape, ends)]))
            if self.compares:
                lines += _latex_quotes([_beside(self.columns, cells, place) for place in places], len(ends))
        below = " Below each value, smaller: the published one, and Δ in brackets." if self.compares else ""
        notes = r"\par ".join(latex_escape(f"{mark(n)} {note}") for n, note in enumerate(self.notes, start=1))
        small = [rf"\par\smallskip\parbox{{\textwidth}}{{\footnotesize\raggedright {notes}}}"]
        return "\n".join(
            [
                *lines,
                r"\bottomrule",
                r"\end{tabular}%",
                "}",
                *(small if notes else []),
                rf"\caption{{{latex_escape(self.caption + below)}}}",
                rf"\label{{tab:{_slug(self.name)}}}",
                r"\end{table*}",
                "",
            ]
        )

    def html(self) -> str:
        """A table element with grouped headers that a screen reader can follow; no styles of its own."""
        groups = self.groups()
        top = "".join(f'<th scope="colgroup" colspan="{len(c)}">{html_escape(title)}</th>' for title, c in groups)
        titles = "".join(
            f'<th scope="col" class="{column.kind}{first}">{html_escape(self.title(column))}</th>'
            for _, columns in groups
            for column, first in zip(columns, [" first", *[""] * len(columns)], strict=False)
        )
        end = "".join(f'<th scope="col" rowspan="2" class="{title.lower()}">{title}</th>' for title in self.ends)
        body = []
        for label, cells, ends in self.rows():
            firsts = [" first" if n == 0 else "" for _, columns in groups for n in range(len(columns))]
            texts = [
                f'<td class="{column.kind}{first}">'
                + (f"<strong>{html_escape(cell.text)}</strong>" if cell.bold else html_escape(cell.text))
                + "</td>"
                for column, cell, first in zip(self.columns, cells, firsts, strict=True)
            ]
            last = "".join(
                f'<td class="{title.lower()}">{html_escape(text)}</td>'
                for title, text in zip(self.ends, ends, strict=True)
            )
            body.append(f'<tr><th scope="row">{html_escape(label)}</th>{"".join(texts)}{last}</tr>')
        return (
            f'<table><thead><tr><th scope="col" rowspan="2">Method</th>{top}{end}</tr><tr>{titles}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>"
        )


def caption(
    dataset: str,
    *,
    test_images: int | None = None,
    test_classes: int | None = None,
    unseen_classes: bool = False,
    folds: int | None = None,
    train_images: int | None = None,
    train_classes: int | None = None,
    seeds: int = 1,
    all_seeds: bool = True,
    backbone: str = "",
    scale: str = "",
    not_run: str = "",
    sources: Sequence[str] = (),
    disagree: bool = True,
    only: Mapping[str, str] | None = None,
    approximate: Sequence[str] = (),
    measured: bool = True,
    released: bool = False,
    gallery_images: int | None = None,
    best_on_test: bool = False,
    queries: Mapping[str, int] | None = None,
    index_images: int | None = None,
    index_classes: int | None = None,
) -> str:
    """The line under a table: on what, at which scale, what ± is, what was measured here and what is quoted.

    ``seeds`` is 0 where nothing has been measured yet; a table that is not ``measured`` never will be. ``only`` says
    which values a later one of the ``sources`` gives alone, ``approximate`` are those that were read off a plot.
    """
    second = "; where they disagree both are given, in this order" if len(sources) > 1 and disagree else ""
    alone = "".join(f"; {what} from {ordinal(sources, source)} alone" for source, what in (only or {}).items())
    read_off = " and ".join(ordinal(sources, source) for source in approximate)
    about = f" “≈”: read off a plot{f' ({read_off})' if len(sources) > 1 else ''}." if approximate else ""
    quoted = f"quoted from {' and '.join(sources)}{second}{alone}.{about}"
    if not measured:
        return f"{dataset}. Nothing was measured here: all values are {quoted} In percent, the highest in bold."
    parts = [f"{dataset}."]
    if test_images is not None:
        unseen = ", all of them unseen in training" if unseen_classes else ""
        what, among = "test images", ""
        if gallery_images is not None:
            what, among = "queries", f", each searched for among {gallery_images:,} gallery images"
        parts = [f"{dataset}: {test_images:,} {what} of {test_classes:,} classes{unseen}{among}."]
    if queries:
        many = " and ".join(f"{count:,} {name}" for name, count in queries.items())
        parts = [
            f"{dataset}: {many} queries, each searched for among {index_images:,} images of {index_classes:,} classes; "
            "half of the classes, the seen ones, are trained on."
        ]
    if folds:
        many = f"{folds} folds, each trained on about" if folds > 1 else "Trained on"
        parts.append(f"{many} {train_images:,} images of {train_classes:,} classes.")
    if backbone:
        parts.append(f"Backbone: {backbone}.")
    if scale:
        parts.append(f"Scale: {scale.rstrip('.')}.")
    parts.append("All values in percent.")
    if seeds > 1:
        over = f"{seeds} seeds" if all_seeds else "the seeds in the last column (two or more)"
        parts.append(f"Measured here: mean ± half-width of the 95 % t-interval over {over}.")
    elif seeds == 1:
        parts.append("Measured here with one seed, so without an interval (± appears with two or more).")
    if seeds:
        parts.append("Bold: the best measured here.")
    if best_on_test:
        parts.append(
            "“Best epoch on test” is selected on the test set itself: it can be compared only with published values "
            "that were selected so too, and says less about new images than “Last epoch”, which is not selected."
        )
    if queries:
        parts.append(
            "F1, precision, recall (of the queries whose nearest neighbour is right), binary accuracy (right and "
            "accepted, of all queries) and accuracy are those of accepting neighbours up to the distance with the best "
            "F1 of the same queries; that cosine distance is given in hundredths. “Chance”: R@k of a random order."
        )
    if released:
        parts.append("Rows marked “released” are checkpoints published by others, evaluated here and not trained here.")
    if not_run:
        parts.append(f"“{NOT_RUN}”: not measured here yet ({not_run}).")
    if sources:
        parts.append(f"Published values are {quoted}")
        parts.append("Δ = measured here − published" + (" (the first)." if second else "."))
    return " ".join(parts)


def headline(table: pd.DataFrame, metric: str, view: str, reference: str | None = None) -> str:
    """The table in one sentence: the best row on one metric, and how far it is from the untrained one."""
    rows = table[(table["metric"] == metric) & (table["view"] == view) & table["mean"].notna()]
    trained = rows[rows["method"] != reference]
    if trained.empty:
        return ""
    best = trained.loc[trained["mean"].idxmax()]
    sentence = f"Highest {metric} ({view_name(view)}): {best['label']}, {best['mean']:.2f}\u00a0%"
    base = rows[rows["method"] == reference]
    if not base.empty:
        sentence += f"; untrained ({base['label'].iloc[0]}): {base['mean'].iloc[0]:.2f}\u00a0%"
    return sentence + "."


def latex_escape(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


def ordinal(sources: Sequence[str], source: str) -> str:
    """A document by its place among those that were named just before: titles are long."""
    names = ("the first", "the second", "the third")
    place = list(sources).index(source)
    return names[place] if place < len(names) else source


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = latex_escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.bold else text


def _beside(columns: Sequence[Column], cells: Sequence[Cell], place: int) -> tuple[Cell, Cell] | None:
    """What was published and the difference, if they stand beside our value at a place."""
    if columns[place + 1 : place + 2] and columns[place + 1].kind == PUBLISHED:
        return cells[place + 1], cells[place + 2]
    return None


def _latex_quotes(pairs: Sequence[tuple[Cell, Cell] | None], ends: int = 1) -> list[str]:
    """What was published and how far ours is from it, in small type; a second document takes a line of its own.

    Beside the first, the one row in which two documents disagree would widen every column.
    """
    stacks = []
    for pair in pairs:
        if pair is None:
            stacks.append([])
            continue
        published, difference = pair
        first, *others = published.text.split(OR)
        signed = "" if difference.text == MISSING else f" (${difference.text.replace(MINUS, '-')}$)"
        stacks.append([latex_escape(first) + signed, *(f"/ {latex_escape(other)}" for other in others)])
    return [
        _latex_line(["", *(rf"{{\scriptsize {text}}}" if text else "" for text in texts), *[""] * ends])
        for texts in itertools.zip_longest(*stacks, fillvalue="")
    ]


def mark(number: int) -> str:
    """What stands at a value that has a footnote."""
    return f"⁽{str(number).translate(SUPERSCRIPTS)}⁾"


def _cell(row, kind: str, measured: bool, marks: Mapping[str, str]) -> Cell:
    if kind == OURS:
        if np.isnan(row.mean):
            return Cell(MISSING if row.method == CHANCE else FAILED if row.failed else NOT_RUN)
        return Cell(
            _number(row.mean) + ("" if np.isnan(row.interval) else f" {PLUS_MINUS} {row.interval:.2f}"), row.best
        )
    if kind == PUBLISHED:
        found: dict[str, dict[str, None]] = {}
        for value, approximate, note in zip(row.quotes, row.approximate, row.notes, strict=True):
            if not np.isnan(value):
                found.setdefault(quote(value, approximate), {})[marks.get(note, "")] = None
        texts = [text + "".join(own) for text, own in found.items()]
        return Cell(OR.join(texts) or MISSING, bool(row.best) and not measured)
    if np.isnan(row.difference):
        return Cell(MISSING)
    first = next(number for number, value in enumerate(row.quotes) if not np.isnan(value))
    return Cell(_signed(row.difference, 1 if row.approximate[first] else 2))


def quote(value: float, approximate: bool) -> str:
    """A published value; one that was read off a plot is marked and has no more digits than it was noted with."""
    if not approximate:
        return _number(value)
    return ABOUT + (f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}")


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", MINUS)


def _signed(value: float, digits: int = 2) -> str:
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def view_name(view: str) -> str:
    return VIEW_NAMES.get(view, view)


def metric_name(metric: str) -> str:
    return metric.replace("_", " ")


def _status(row: Any) -> str:
    """What a CSV says of our own value."""
    if row.method == CHANCE:
        return "computed"
    return FAILED if row.failed else NOT_RUN if np.isnan(row.mean) else "measured"


def _size(part: pd.DataFrame) -> str:
    """The size of a row's embeddings, in every view if they differ; a dash if nothing was measured."""
    dims = dict.fromkeys(int(dim) for dim in part["dim"].dropna())
    return OR.join(map(str, dims)) or MISSING


def _seed_count(part: pd.DataFrame) -> int:
    """The number of seeds behind a row's values: the smallest, where views differ."""
    counts = part.loc[part["seeds"] > 0, "seeds"]
    return 0 if counts.empty else int(counts.min())


def _seeds(part: pd.DataFrame) -> str:
    """How many seeds stand behind a row; says of how many if some are missing."""
    count, planned = _seed_count(part), int(part["planned"].iloc[0])
    if part["method"].iloc[0] == CHANCE:
        return MISSING
    return str(count) if count == planned else f"{count} of {planned}"


def _markdown_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cells[0].ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
    ]
    return f"| {' | '.join(padded)} |"


def _slug(text: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in text.lower()).strip("-")


def render(
    summary: pd.DataFrame,
    dataset: str,
    *,
    methods: Mapping[str, str],
    views: Sequence[str],
    metrics: Sequence[str],
    seeds: int = 1,
    failed: Iterable[tuple[str, str, str]] = (),
    quoted: Sequence[Published] = (),
    name: str | None = None,
    facts: Mapping[str, Any] | None = None,
    backbone: str = "",
    scale: str = "",
    measured: bool = True,
    released: Collection[str] = (),
    show_size: bool = False,
    chance: Mapping[str, Mapping[str, float]] | None = None,
) -> Table:
    """The table of one dataset, ready for ``.markdown()``, ``.csv()``, ``.latex()`` and ``.html()``.

    ``name`` is what a paper refers to it by; ``measured=False`` is for a table of published values alone.
    """
    rows = frame(
        summary,
        dataset,
        methods=methods,
        views=views,
        metrics=metrics,
        seeds=seeds,
        failed=failed,
        quoted=quoted,
        released=released,
        chance=chance if measured else None,
    )
    own = rows[rows["method"] != CHANCE]
    if not measured and rows["published"].notna().any():
        # a table of quotes has the columns that something can be quoted for
        rows = rows[rows.groupby(["view", "metric"])["published"].transform("count") > 0].reset_index(drop=True)
    given = pd.DataFrame(rows["quotes"].tolist(), index=rows.index).notna()
    here = [document for number, document in enumerate(quoted) if given[number].any()]
    line = caption(
        dataset,
        seeds=seeds if own["mean"].notna().any() else 0,
        all_seeds=bool((own["seeds"] == seeds).all()),
        backbone=backbone,
        scale=scale,
        not_run=_not_run(own),
        sources=[document.source for document in here],
        disagree=any(len({_number(v) for v in own if not np.isnan(v)}) > 1 for own in rows["quotes"]),
        only=_only(rows, given, quoted),
        approximate=[document.source for document in here if document.approximate],
        measured=measured,
        released=bool(released),
        best_on_test=BEST_ON_TEST in views,
        **(facts or {}),
    )
    return Table(rows, line, name or dataset, measured, show_size)


def _only(rows: pd.DataFrame, given: pd.DataFrame, quoted: Sequence[Published]) -> dict[str, str]:
    """What each later document is quoted for because none before it has a value: views, or else a number of rows."""
    found = {}
    any_given = given.any(axis=1)
    for number, document in list(enumerate(quoted))[1:]:
        own = given[number] & ~given.loc[:, : number - 1].any(axis=1)
        if not own.any():
            continue
        views = list(dict.fromkeys(rows.loc[own, "view"]))
        if own[any_given & rows["view"].isin(views)].all():
            found[document.source] = f"the view “{'” and “'.join(map(view_name, views))}”"
        else:
            count, total = rows.loc[own, "method"].nunique(), rows["method"].nunique()
            found[document.source] = f"{count} of {total} rows"
    return found


def _not_run(rows: pd.DataFrame) -> str:
    """How many methods have a value that was not measured; nothing if all are complete."""
    absent = rows["mean"].isna() & ~rows["failed"]
    methods, count = rows["method"].nunique(), rows.loc[absent, "method"].nunique()
    return f"{count} of {methods} rows" if count else ""


def read(csv: str | Path, markdown: str | Path) -> Table:
    """The table that was written as these two files: values from the one, the caption from the other."""
    ending = re.compile(rf".+_({'|'.join(QUOTE_DETAILS)})(_\d+)?")
    details = {name: str for name in pd.read_csv(csv, nrows=0) if ending.fullmatch(name)}
    wide = pd.read_csv(csv, dtype={"method": str, "label": str, **details}, keep_default_na=False, na_values=[""])
    found = [match.groupdict() for match in map(CSV_COLUMN.fullmatch, wide.columns) if match]
    columns = [column for number, column in enumerate(found) if column not in found[:number]]
    measured = "seeds" in wide
    rows = []
    for line in wide.to_dict("records"):
        for column in columns:
            prefix = f"{column['view']}_{column['metric']}"
            numbered = re.compile(re.escape(prefix) + r"_published(?P<end>_\d+)?")
            ends = [match["end"] or "" for match in map(numbered.fullmatch, wide.columns) if match]
            quotes = [line[f"{prefix}_published{end}"] for end in ends]
            said = {
                name: [own if isinstance(own := line.get(f"{prefix}_{end}{number}"), str) else "" for number in ends]
                for end, name in QUOTE_DETAILS.items()
            }
            mean, dim = line.get(f"{prefix}_mean", np.nan), line.get(f"{prefix}_dim", np.nan)
            rows.append(
                {
                    "method": line["method"],
                    "label": line["label"],
                    **column,
                    "dim": None if pd.isna(dim) else int(dim),
                    "mean": mean,
                    "interval": line.get(f"{prefix}_interval", np.nan),
                    "seeds": 0 if pd.isna(mean) else line["seeds"],
                    "planned": line.get("planned_seeds", 0),
                    "failed": line.get(f"{prefix}_status") == FAILED,
                    "published": next((value for value in quotes if not pd.isna(value)), np.nan),
                    "quotes": tuple(quotes),
                    "approximate": tuple(text == "True" for text in said["approximate"]),
                    "notes": tuple(said["notes"]),
                    "difference": line.get(f"{prefix}_difference", np.nan),
                }
            )
    caption_line = Path(markdown).read_text(encoding="utf-8").rstrip("\n").rpartition("\n")[2]
    name = "-".join(Path(csv).parts[-3:-1])
    return Table(_with_best(pd.DataFrame(rows)), caption_line, name, measured, "size" in wide)
