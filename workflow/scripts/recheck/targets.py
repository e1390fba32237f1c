"""What can be asked for by name: every study, and two variants of it that never train or download anything.

``<study>_published`` shows the published values alone, ``<study>_so_far`` what has been measured by now. A variant is a
study like any other, so that the same tables, figures and page are made of it.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from recheck.config import published_file, resolve
from recheck.errors import UserError
from recheck.names import BEST_ON_TEST, QUERY_VIEWS, watched_metrics

PUBLISHED, SO_FAR = "published", "so_far"
# of queries that search an index
QUERY_FIGURES = ("thresholds", "matches", "reliability")
FIGURES = (
    *(
        "metrics",
        "bars",
        "costs",
        "sweep",
        "ranks",
        "generalisation",
        "curves",
        "recall",
        "distances",
        "map",
        "gallery",
    ),
    *QUERY_FIGURES,
)
# Fewer say nothing about an order.
FEWEST_RANKED = 3


def targets(paths: dict[str, Path]) -> dict[str, tuple[str, str | None]]:
    """The study and the variant (None: the study itself) behind each target, from the files of the studies."""
    found: dict[str, tuple[str, str | None]] = {name: (name, None) for name in paths}
    for name in paths:
        for variant in (PUBLISHED, SO_FAR) if published_file(name, paths) else (SO_FAR,):
            target = f"{name}_{variant}"
            if target in paths:
                raise UserError(f"{paths[target]}: '{target}' is a target of study '{name}' already; rename the file.")
            found[target] = name, variant
    return found


def as_variant(study: dict[str, Any], variant: str | None, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The study as a variant shows it; ``documents`` are the published ones, for its methods."""
    if variant is None:
        return study
    named = {**study, "name": f"{study['name']}_{variant}", "variant": variant}
    command = f"snakemake --cores all {study['name']}"
    if variant == SO_FAR:
        return {
            **named,
            "title": f"{study['title']} – so far",
            "description": (
                f"The evaluations of study {study['name']} that were there when this page was made, and nothing else; "
                f"rows and seeds may be missing. “{command}” measures the rest."
            ),
        }
    sources = " and ".join(document["source"] for document in documents)
    quoted = {
        **named,
        "title": f"{study['title']} – published values only, nothing measured here",
        "description": (
            f"Nothing was measured here. Every value is quoted from {sources}: what study {study['name']} is compared "
            f"with. “{command}” measures our own."
        ),
        "datasets": _kept(study["datasets"], ([d for d, rows in doc["values"].items() if rows] for doc in documents)),
    }
    if not quoted["datasets"]:
        raise UserError(
            f"resources/published/{study['published']} has no values of a dataset and method of study "
            f"'{study['name']}', so that there is nothing to quote."
        )
    rows = [document["values"].get(dataset, {}) for document in documents for dataset in quoted["datasets"]]
    return {**quoted, "methods": _published_rows(_kept(study["methods"], rows))}


def _kept(own: dict[str, Any], known: Iterable[Collection[str]]) -> dict[str, Any]:
    """Those of a study's datasets or methods that a document has values of."""
    names = {name for part in known for name in part}
    return {name: value for name, value in own.items() if name in names}


def _published_rows(methods: dict[str, Any]) -> dict[str, Any]:
    """Each published row once, by its own name: methods of ours that are compared with one were not published."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for method, own in methods.items():
        row = own.get("published_as", method)
        found.setdefault(row, (method, own if row == method else {**own, "label": row}))
    return dict(found.values())


def for_methods(documents: list[dict[str, Any]], study: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents with the study's own methods as keys: a row may be published under another (``published_as``)."""
    rows = {method: (own or {}).get("published_as", method) for method, own in study["methods"].items()}
    return [
        {
            **document,
            **{
                key: {
                    dataset: {method: own[row] for method, row in rows.items() if row in own}
                    for dataset, own in document[key].items()
                }
                for key in ("values", "notes")
                if key in document
            },
        }
        for document in documents
    ]


def protocol_of(study: dict[str, Any], dataset: str) -> dict[str, Any]:
    """What the protocol says on a dataset, before any method changes it."""
    return resolve({"protocol": {}, **study, "methods": {"": {}}}, dataset, "")


def generalised(study: dict[str, Any], dataset: str) -> tuple[str, str] | None:
    """The columns of a history that say how well a method does on training images and on others; None without both."""
    watched = watched_metrics(protocol_of(study, dataset).get("selection", {}))
    other = next((role for role in ("test", *watched) if role in watched and role != "train"), None)
    shared = [metric for metric in watched.get("train", []) if metric in watched.get(other, [])]
    return (f"train_{shared[0]}", f"{other}_{shared[0]}") if shared else None


def _quoted(documents: list[dict[str, Any]], dataset: str, metric: str) -> bool:
    """Whether a document has a value of a metric on a dataset."""
    rows = [views for document in documents for views in document["values"].get(dataset, {}).values()]
    return any(metric in metrics for views in rows for metrics in views.values())


def figures_of(
    study: dict[str, Any], dataset: str, measured: Collection[str], documents: list[dict[str, Any]]
) -> list[str]:
    """The figures that can be drawn of a dataset, given the methods that are, or will be, measured.

    A sweep has too many rows for figures with a line, a panel or a colour a row.
    """
    quoted = {method for document in documents for method in document["values"].get(dataset, {})}
    variant = study.get("variant")
    bars = ["bars"] if BEST_ON_TEST in study.get("views", ()) else []
    asked = list(QUERY_FIGURES) if QUERY_VIEWS[0] in study.get("views", ()) else []
    columns = generalised(study, dataset)
    if variant == PUBLISHED or not measured:
        both = ["generalisation"] if columns and _quoted(documents, dataset, columns[0]) else []
        shown = ["sweep"] if study.get("sweep") else ["metrics", *bars]
        return [*shown, *both] if quoted else []
    watched = ["generalisation"] if columns else []
    if study.get("sweep"):
        return ["sweep", *watched]
    both = {study["methods"][method].get("published_as", method) for method in quoted.intersection(measured)}
    ranks = ["ranks"] if len(both) >= FEWEST_RANKED else []
    costs = ["costs"] if study.get("compare_with") in measured else []
    shown = [*costs, "metrics", *bars, *ranks, *watched, "curves", "recall"]
    # on a sphere, where there is a density to compare with
    unit = ["distances"] if bars and protocol_of(study, dataset).get("evaluation", {}).get("normalise", True) else []
    return [*shown, *([*asked, *unit, "map", "gallery"] if variant is None else [])]
