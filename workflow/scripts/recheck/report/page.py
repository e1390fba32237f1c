"""A study's page: one self-contained HTML file with all tables, figures and runs."""

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from recheck.files import read_json
from recheck.report import citations, results, verdicts
from recheck.report.figures import all_figures, study_figures
from recheck.report.site import render as site
from recheck.report.tables import Table, load
from recheck.report.tables.plain import PlainTable
from recheck.sanity import MARK

# An SVG stays sharp at every zoom. A larger one consists mostly of pixels, so the PNG is embedded instead.
LARGEST_SVG = 300_000
MEDIA = {".png": "image/png", ".svg": "image/svg+xml", ".csv": "text/csv", ".tex": "text/x-tex", ".md": "text/markdown"}
MEDIA[".bib"] = "text/x-bibtex"


@dataclass(frozen=True)
class Picture:
    """An image on the page. ``caption`` explains how to read it; ``alt`` describes it for readers who cannot see it."""

    kind: str
    title: str
    png: str | Path
    svg: str | Path
    caption: str
    alt: str

    @property
    def source(self) -> str:
        path = Path(self.svg) if Path(self.svg).stat().st_size <= LARGEST_SVG else Path(self.png)
        return data_uri(path.read_bytes(), path.suffix)

    @property
    def inline(self) -> str:
        """The SVG as an element of the page, if it has values to show beside the pointer; else empty."""
        if Path(self.svg).stat().st_size > LARGEST_SVG:
            return ""
        text = Path(self.svg).read_text(encoding="utf-8")
        return inline_svg(text, f"{Path(self.svg).stem}-", self.alt) if '<metadata class="values">' in text else ""


@dataclass(frozen=True)
class Section:
    """The section of one dataset on the page."""

    dataset: str
    table: Table
    figures: Sequence[Picture]
    headline: str = ""
    title: str = ""

    @property
    def downloads(self) -> list[tuple[str, str, str]]:
        """Format, file name and data URI of the table in each format."""
        return table_downloads(self.table, self.dataset)


def table_downloads(table: Table | PlainTable, file: str) -> list[tuple[str, str, str]]:
    """Format, file name and data URI of a table in each format."""
    texts = (("CSV", ".csv", table.csv()), ("LaTeX", ".tex", table.latex()), ("Markdown", ".md", table.markdown()))
    return [(name, f"{file}{end}", data_uri(text.encode(), end)) for name, end, text in texts]


def inline_svg(text: str, prefix: str, alt: str) -> str:
    """An SVG file as an element with its text alternative; ``prefix`` makes its ids unique on the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1)


def data_uri(content: bytes, suffix: str) -> str:
    return f"data:{MEDIA[suffix]};base64,{base64.b64encode(content).decode()}"


def make(
    facts: Mapping[str, Any],
    table_files: Iterable[str | Path],
    figure_files: Iterable[str | Path],
    run_files: Iterable[str | Path],
    own_figures: tuple[str, ...] = (),
    search_files: Iterable[str | Path] = (),
    board: Mapping[str, Any] | None = None,
) -> str:
    """The HTML of a study's page, from its facts, ``table.json`` files, figures (.png, .svg) and ``run.json`` files.

    ``own_figures`` are the user's figures, as ``module:Class``; ``search_files`` have tables of searches. ``board`` is
    the content of the interactive table.
    """
    drawn = {Path(path).name: path for path in figure_files}
    tables = {table.dataset: table for table in map(load, table_files)}
    labels = {row: label for table in tables.values() for row, label in table.labels.items()}
    order = {row: place for place, row in enumerate(labels)}
    runs = results.read_runs(run_files)
    runs.sort(key=lambda run: (run["dataset"], order.get(run["method"], len(order)), run["seed"], run["fold"]))
    verdict_lines = verdicts.lines({dataset: tables[dataset].frame for dataset in facts["datasets"]})
    return render(
        study=facts["study"],
        title=facts["title"],
        description=facts["description"],
        sections=[
            _section(tables[dataset], drawn, own_figures, facts["captions"][dataset], facts["titles"][dataset])
            for dataset in facts["datasets"]
        ],
        runs=runs,
        labels=labels,
        rows=facts["rows"],
        quoted=facts["quoted"],
        titles=facts["titles"],
        command=facts["command"],
        verdict=verdicts.sentence(verdict_lines["verdict"]),
        verdict_note=verdicts.multiplicity(verdict_lines),
        across=_across(drawn, own_figures, facts.get("captions_across", {})),
        searches=[PlainTable(**table) for path in search_files for table in read_json(path).values()],
        board=board,
    )


def _section(
    table: Table,
    drawn: Mapping[str, str | Path],
    own_figures: tuple[str, ...],
    captions: Mapping[str, str],
    title: str,
) -> Section:
    dataset, pictures = table.dataset, []
    for name, figure in all_figures(own_figures).items():
        png, svg = (drawn.get(f"{dataset}_{name}.{suffix}") for suffix in ("png", "svg"))
        if png and svg:
            headline = f" {table.headline}" if name in ("metrics", "sweep") and table.headline else ""
            alt = f"{figure.title} on {title}.{headline} The caption below explains how to read it."
            pictures.append(Picture(name, figure.title, png, svg, captions[name], alt))
    return Section(dataset, table, pictures, table.headline, title)


def _across(
    drawn: Mapping[str, str | Path], own_figures: tuple[str, ...], captions: Mapping[str, str]
) -> list[Picture]:
    """The figures that show all datasets together."""
    figures = [figure for name, figure in study_figures(own_figures).items() if name in captions]
    return [
        Picture(
            figure.name,
            figure.title,
            drawn[f"{figure.name}.png"],
            drawn[f"{figure.name}.svg"],
            captions[figure.name],
            f"{figure.title}. The caption below explains how to read it.",
        )
        for figure in figures
    ]


def render(
    *,
    study: str,
    title: str,
    description: str,
    sections: Sequence[Section],
    runs: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    command: str,
    rows: Sequence[Mapping[str, Any]] = (),
    quoted: Sequence[Mapping[str, Any]] = (),
    titles: Mapping[str, str] | None = None,
    searches: Sequence[PlainTable] = (),
    verdict: str = "",
    verdict_note: str = "",
    across: Sequence[Picture] = (),
    board: Mapping[str, Any] | None = None,
) -> str:
    """The HTML of the page. The same inputs give the same page, because it does not contain the current date."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(
        study=study,
        title=title,
        description=description,
        sections=sections,
        runs=[_record(run, labels, titles or {}) for run in runs],
        versions=versions(runs),
        devices=sorted({str(run["device"]) for run in runs if run.get("device")}),
        methods=[{**row, "reference": citations.reference(row["paper"]) if row["paper"] else ""} for row in rows],
        cites=any(cited["paper"] for cited in (*rows, *quoted)),
        quoted=quoted,
        bibtex=data_uri(citations.bibtex([*rows, *quoted]).encode(), ".bib"),
        total=duration(sum(run.get("wall_seconds") or 0 for run in runs)),
        command=command,
        verdict=verdict,
        verdict_note=verdict_note,
        across=across,
        searches=[(table, table_downloads(table, table.name)) for table in searches],
        board=board is not None,
        parts=site.parts(board, with_values=True),
    )


def _record(run: Mapping[str, Any], labels: Mapping[str, str], titles: Mapping[str, str]) -> dict[str, Any]:
    """A run as a row of the page's table of runs; missing values are dashes."""
    value = run.get("best_value")
    seconds = run.get("wall_seconds")
    return {
        "dataset": titles.get(run["dataset"], run["dataset"]),
        "method": labels.get(run["method"], run["method"]) + (f" {MARK}" if run.get("warnings") else ""),
        "seed": run["seed"],
        "fold": run["fold"],
        "epochs": _or_dash(run.get("epochs")),
        "best_epoch": _or_dash(run.get("best_epoch")),
        "best_value": "—" if value is None else f"{100 * value:.2f}",
        "wall": "—" if seconds is None else duration(seconds),
        "device": _or_dash(run.get("device")),
        "fingerprint": run.get("fingerprint") or "—",
    }


def _or_dash(value: Any) -> str:
    return "—" if value is None else str(value)


def versions(runs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Package → its version in all runs, or all its versions if they differ."""
    by_package: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in (run.get("versions") or {}).items():
            by_package.setdefault(package, {})[str(version)] = None
    return {package: ", ".join(seen) for package, seen in sorted(by_package.items())}


def duration(seconds: float) -> str:
    """A readable duration: 3.1 s, 1 min 02 s, 2 h 05 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
