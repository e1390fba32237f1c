"""The study's page: one self-contained HTML file with its tables, figures and the record of every run."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from recheck.errors import UserError
from recheck.report.tables import Table

TITLES = {
    "costs": "What each change costs",
    "metrics": "Metrics by method",
    "bars": "Best epoch on test and last epoch",
    "sweep": "What the setting changes",
    "ranks": "Our order and the published one",
    "generalisation": "Training images and unseen ones",
    "thresholds": "Up to which distance to believe a neighbour",
    "matches": "Distances of right and wrong neighbours",
    "reliability": "How far each class can be relied on",
    "gallery": "What is retrieved",
    "recall": "Recall at k",
    "curves": "Training curves",
    "distances": "Distances between images",
    "map": "Map of the test embeddings",
}
# A vector drawing stays sharp at every zoom; beyond this size it is mostly pixels anyway, and the PNG is smaller.
LARGEST_SVG = 300_000
MEDIA = {".png": "image/png", ".svg": "image/svg+xml", ".csv": "text/csv", ".tex": "text/x-tex", ".md": "text/markdown"}


@dataclass(frozen=True)
class Figure:
    """An image on the page: ``alt`` says what it shows to who cannot see it, ``caption`` how to read it."""

    kind: str
    png: str | Path
    svg: str | Path
    caption: str
    alt: str

    @property
    def title(self) -> str:
        return TITLES.get(self.kind, self.kind)

    @property
    def source(self) -> str:
        path = Path(self.svg) if Path(self.svg).stat().st_size <= LARGEST_SVG else Path(self.png)
        return data_uri(path.read_bytes(), path.suffix)


@dataclass(frozen=True)
class Section:
    """What the page shows of one dataset."""

    dataset: str
    table: Table
    figures: Sequence[Figure]
    headline: str = ""

    @property
    def downloads(self) -> list[tuple[str, str, str]]:
        """Name, file name and data of the table in each format."""
        texts = (
            ("CSV", ".csv", self.table.csv()),
            ("LaTeX", ".tex", self.table.latex()),
            ("Markdown", ".md", self.table.markdown()),
        )
        return [(name, f"{self.dataset}{end}", data_uri(text.encode(), end)) for name, end, text in texts]


def data_uri(content: bytes, suffix: str) -> str:
    return f"data:{MEDIA[suffix]};base64,{base64.b64encode(content).decode()}"


def caption(path: str | Path, **wildcards: str) -> str:
    """A caption of ``snakemake --report``, filled in as Snakemake would, in one line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: restore it from the repository.") from None
    template = jinja2.Template(text, undefined=jinja2.StrictUndefined)
    return " ".join(template.render(snakemake={"wildcards": wildcards}).split())


def render(
    *,
    study: str,
    title: str,
    description: str,
    sections: Sequence[Section],
    runs: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    command: str,
) -> str:
    """The page as text. The same inputs give the same page: there is no date in it but those of the runs."""
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
        runs=[_record(run, labels) for run in runs],
        versions=versions(runs),
        devices=sorted({str(run["device"]) for run in runs if run.get("device")}),
        total=duration(sum(run.get("wall_seconds") or 0 for run in runs)),
        command=command,
    )


def _record(run: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """A row of the table of runs; what a run does not tell is a dash."""
    value = run.get("best_value")
    seconds = run.get("wall_seconds")
    return {
        "dataset": run["dataset"],
        "method": labels.get(run["method"], run["method"]),
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
    """Package -> version; all of them where runs were made with different ones."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in (run.get("versions") or {}).items():
            found.setdefault(package, {})[str(version)] = None
    return {package: ", ".join(seen) for package, seen in sorted(found.items())}


def duration(seconds: float) -> str:
    """Seconds for people: 3.1 s, 1 min 02 s, 2 h 05 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
