"""Published numbers to compare a study with, and the two scopes of a study that train nothing."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recheck import quoted_searches
from recheck.errors import UserError, nearest
from recheck.names import VALIDATION, VIEWS, check_views
from recheck.study.model import PUBLISHED, SO_FAR, Study
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

Document = Mapping[str, Any]
PAPERS = "papers.bib"
# Two printed decimals are rounded by up to this much.
ROUNDING = 0.005
# The key of `runs` for all rows that it does not name.
DEFAULT = "default"


def load_published(path: str | Path) -> list[Document]:
    """The documents in a file of published numbers; values are compared with the first that has them."""
    content = read_yaml(path)
    validate(content, "published", path)
    papers = load_papers(Path(path).with_name(PAPERS)) if any("cite" in each for each in content["documents"]) else {}
    for document in content["documents"]:
        if "cite" in document:
            key = document.pop("cite")
            if key not in papers:
                raise UserError(
                    f"{path}: 'cite' names '{key}', which is not in {PAPERS} beside it; {nearest(key, papers)}."
                )
            document["paper"] = papers[key]
        if "searches" in document:
            _add_searches(document, Path(path).parent)
        _check_precision(document, path)
        for rows in document["values"].values():
            for row, views in rows.items():
                try:
                    check_views(list(views), (*VIEWS, VALIDATION))
                except UserError as error:
                    raise UserError(f"{path}, '{row}': {error}") from None
    return content["documents"]


def _check_precision(document: Document, path: str | Path) -> None:
    """Refuse values off a plot without a reading error, runs and spreads without a value, and spreads of one run."""
    if document.get("approximate") and "reading_error" not in document:
        raise UserError(
            f"{path}: the values of “{document['source']}” are approximate, so they need a 'reading_error': the "
            "largest error when reading a value off the plot, in points, such as 0.15."
        )
    runs = document.get("runs")
    for dataset, rows in runs.items() if isinstance(runs, Mapping) else ():
        known = document["values"].get(dataset, {})
        for row in () if dataset == DEFAULT else rows:
            if row not in known:
                raise UserError(f"{path}: 'runs.{dataset}.{row}' has no values in 'values'; {nearest(row, known)}.")
    for dataset, rows in (document.get("spread") or {}).items():
        for row, views in rows.items():
            for view, metrics in views.items():
                for metric in metrics:
                    if metric not in document["values"].get(dataset, {}).get(row, {}).get(view, {}):
                        raise UserError(
                            f"{path}: 'spread.{dataset}.{row}.{view}.{metric}' has no value in 'values'. Add the "
                            "value or remove the spread."
                        )
            if _runs(document, dataset, row) < 2:
                raise UserError(
                    f"{path}: 'spread.{dataset}.{row}' needs two or more runs, found 1. Set 'runs' of this row."
                )


def _runs(document: Document, dataset: str, row: str) -> int:
    """The number of runs that a row's values are the mean of; 1 if the document does not state it."""
    runs = document.get("runs", 1)
    if not isinstance(runs, Mapping):
        return runs
    return runs.get(dataset, {}).get(row, runs.get(DEFAULT, 1))


def _add_searches(document: dict[str, Any], folder: Path) -> None:
    """Replace a document's reference to searches by the searches, and add their best results to its values."""
    about = document.pop("searches")
    document["search_files"] = quoted_searches.files(folder / about["folder"])
    document["batch"] = about["batch"]
    document["searches"] = quoted_searches.read(folder / about["folder"])
    values = document.setdefault("values", {})
    for search in document["searches"]:
        if search.batch == about["batch"]:
            best = {VALIDATION: {about["metric"]: round(100 * search.best, 2)}}
            values.setdefault(search.dataset, {}).setdefault(search.row, {}).update(best)


def load_papers(path: Path) -> dict[str, dict[str, str]]:
    """Key → BibTeX entry and link of every paper in a BibTeX file whose entries begin with @ at the start of a line."""
    if not path.exists():
        return {}
    papers = {}
    for entry in re.split(r"^(?=@)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        key, link = re.match(r"@\w+\{([^,\s]+),", entry), re.search(r"\burl\s*=\s*\{(https://[^}]+)\}", entry)
        if not key or not link:
            raise UserError(f"{path}: the entry “{entry.splitlines()[0]}” needs a key and a url = {{https://…}}.")
        papers[key[1]] = {"bibtex": entry.strip() + "\n", "link": link[1]}
    return papers


def quoted(study: Study, dataset: str, documents: list[Document]) -> list[dict[str, Any]]:
    """The documents' values for a dataset, by the study's rows; `compare_to` maps rows to published rows."""
    names = {row.name: row.compare_to for row in study.rows.values()}

    def by_row(values: Mapping[str, Any]) -> dict[str, Any]:
        return {row: values[published] for row, published in names.items() if published in values}

    return [
        {
            "source": document["source"],
            "paper": document.get("paper"),
            "approximate": bool(document.get("approximate")),
            "reading_error": document.get("reading_error", ROUNDING),
            "values": by_row(document["values"].get(dataset, {})),
            "runs": {
                row: _runs(document, dataset, published)
                for row, published in names.items()
                if published in document["values"].get(dataset, {})
            },
            "spread": by_row((document.get("spread") or {}).get(dataset, {})),
            "notes": by_row((document.get("notes") or {}).get(dataset, {})),
        }
        for document in documents
    ]


def searched(study: Study, dataset: str, documents: list[Document]) -> list[dict[str, Any]]:
    """What was published about searches for the tuned rows of a dataset, one entry per search."""
    tuned = {row.compare_to: name for name, row in study.rows.items() if study.runs[dataset][name].search}
    return [
        {
            "row": tuned[search.row],
            "batch": search.batch,
            "same_batch": search.batch == document["batch"],
            "settings": len(search.space),
            "startup": search.startup,
        }
        for document in documents
        for search in document.get("searches", ())
        if search.dataset == dataset and search.row in tuned
    ]


def scoped(study: Study, scope: str, documents: list[Document]) -> Study:
    """The study reduced to a scope: everything, the results so far, or only the published values."""
    command = study.command
    named = replace(study, name=f"{study.name}_{scope}", target="", scope=scope)
    if scope == SO_FAR:
        return replace(
            named,
            title=f"{study.title} – results so far",
            description=f"Only the evaluations of study {study.name} that existed when this page was made; rows and "
            f"seeds may be missing. “{command}” measures the rest.",
        )
    if scope != PUBLISHED:
        return study
    values = {dataset: [quote["values"] for quote in quoted(study, dataset, documents)] for dataset in study.datasets}
    rows = {dataset: {row for by_row in values[dataset] for row in by_row} for dataset in values}
    kept = [dataset for dataset in rows if rows[dataset]]
    if not kept:
        raise UserError(
            f"resources/published/{study.published} has no values for any dataset and row of study '{study.name}'. Use "
            "the study's names of datasets and rows, or set 'compare_to' in the study."
        )
    sources = " and ".join(document["source"] for document in documents)
    # show each published row once, under its published name: several of our rows may be compared with it
    first: dict[str, str] = {}
    for row in study.rows.values():
        if any(row.name in rows[dataset] for dataset in kept):
            first.setdefault(row.compare_to, row.name)
    return replace(
        named,
        title=f"{study.title} – published values only, nothing measured here",
        description=f"Nothing was measured here. Every value is quoted from {sources}, for comparison with study "
        f"{study.name}. “{command}” measures that study.",
        rows={
            name: row if row.compare_to == name else replace(row, label=row.compare_to)
            for name, row in study.rows.items()
            if first.get(row.compare_to) == name
        },
        runs={dataset: study.runs[dataset] for dataset in kept},
    )
