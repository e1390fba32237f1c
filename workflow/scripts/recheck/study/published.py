"""Published numbers that a study is compared with, and the two scopes of a study that train nothing."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recheck.errors import UserError
from recheck.names import check_views
from recheck.study.model import PUBLISHED, SO_FAR, Study
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

Document = Mapping[str, Any]


def load_published(path: str | Path) -> list[Document]:
    """The documents of a file of published numbers, the one to compare with first."""
    content = read_yaml(path)
    validate(content, "published", path)
    for document in content["documents"]:
        for rows in document["values"].values():
            for row, views in rows.items():
                try:
                    check_views(list(views))
                except UserError as error:
                    raise UserError(f"{path}, '{row}': {error}") from None
    return content["documents"]


def quoted(study: Study, dataset: str, documents: list[Document]) -> list[dict[str, Any]]:
    """The documents as the study's rows see them on a dataset: a row may be compared with one of another name."""
    names = {row.name: row.compare_to for row in study.rows.values()}

    def own(values: Mapping[str, Any]) -> dict[str, Any]:
        return {row: values[published] for row, published in names.items() if published in values}

    return [
        {
            "source": document["source"],
            "approximate": bool(document.get("approximate")),
            "values": own(document["values"].get(dataset, {})),
            "notes": own((document.get("notes") or {}).get(dataset, {})),
        }
        for document in documents
    ]


def scoped(study: Study, scope: str, documents: list[Document]) -> Study:
    """The study as a target shows it that trains nothing: what is measured so far, or the published values alone."""
    command = f"snakemake --cores all {study.name}"
    named = replace(study, name=f"{study.name}_{scope}", scope=scope)
    if scope == SO_FAR:
        return replace(
            named,
            title=f"{study.title} – so far",
            description=f"The evaluations of study {study.name} that existed when this page was made, and nothing "
            f"else; rows and seeds may be missing. “{command}” measures the rest.",
        )
    if scope != PUBLISHED:
        return study
    values = {dataset: [own["values"] for own in quoted(study, dataset, documents)] for dataset in study.datasets}
    rows = {dataset: {row for own in values[dataset] for row in own} for dataset in values}
    kept = [dataset for dataset in rows if rows[dataset]]
    if not kept:
        raise UserError(
            f"resources/published/{study.published} has no values for a dataset and row of study '{study.name}', so "
            "there is nothing to quote."
        )
    sources = " and ".join(document["source"] for document in documents)
    # each published row once, under its own name: several of our rows may be compared with it
    first: dict[str, str] = {}
    for row in study.rows.values():
        if any(row.name in rows[dataset] for dataset in kept):
            first.setdefault(row.compare_to, row.name)
    return replace(
        named,
        title=f"{study.title} – published values only, nothing measured here",
        description=f"Nothing was measured here. Every value is quoted from {sources}: what study {study.name} is "
        f"compared with. “{command}” measures our own.",
        rows={
            name: row if row.compare_to == name else replace(row, label=row.compare_to)
            for name, row in study.rows.items()
            if first.get(row.compare_to) == name
        },
        runs={dataset: study.runs[dataset] for dataset in kept},
    )
