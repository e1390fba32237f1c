"""What the site shows, as plain data: the rows of all studies, the records of their runs, and papers."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recheck.names import DISTANCES, RELEASED, metric_title, view_title
from recheck.report import citations, results, verdicts
from recheck.report.inputs import Inputs
from recheck.report.tables.frame import build, records
from recheck.statistics.paired import tails

Facts = Mapping[str, Any]
# What a run's record tells about the run as a whole; the page shows the rest of the record as settings.
RECORD = ("fingerprint", "device", "device_name", "processor", "epochs", "best_epoch", "wall_seconds", "deterministic")
# What the frame of a table says about the verdict on a published cell.
VERDICT = (
    *("verdict", "published_runs", "published_spread", "reading_error", "sd", "low", "high", "delta", "alpha", "p"),
    *("p_equivalence", "seeds_needed"),
)


class Site:
    """Collects studies one by one; ``data`` is the content of a page with all of them.

    ``results_folder`` and ``logs_folder`` are the first parts of the paths that pages show.
    """

    def __init__(self, results_folder: str = "results", logs_folder: str = "logs"):
        self.results_folder, self.logs_folder = results_folder, logs_folder
        self.studies: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.runs: dict[str, Any] = {}
        self.sources: dict[str, Any] = {}
        self.papers: dict[str, Any] = {}
        self.galleries: dict[str, Any] = {}
        self._versions: dict[tuple[tuple[str, str], ...], int] = {}

    def add(
        self,
        about: Facts,
        datasets: Mapping[str, tuple[Facts, Mapping[str, Sequence[str]]]],
        *,
        page: str | None = None,
        all_rows: bool = False,
        galleries: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a study: ``about`` are the facts of its page, ``datasets`` has the facts and files of each dataset.

        ``page`` is the path of its report. Rows without any value are left out unless ``all_rows``.
        """
        name, before = about["study"], len(self.rows)
        self.studies.append(
            {
                "name": name,
                "title": about["title"],
                "description": about["description"],
                "command": about["command"],
                "datasets": dict(about["titles"]),
                "page": page,
            }
        )
        methods = {row["name"]: row for row in about["rows"]}
        for document in about["quoted"]:
            self._source(document)
        failures: list[str] = []
        frames: dict[str, pd.DataFrame] = {}
        for dataset, (facts, files) in datasets.items():
            inputs = Inputs(facts, files)
            frames[dataset] = _frame(facts, inputs)
            for row in self._rows(name, facts, inputs, frames[dataset], methods):
                if all_rows or row["cells"]:
                    self.rows.append(row)
            self._add_runs(name, dataset, inputs)
            failures += [f"{dataset}, {each.method}, {each.where}: {each.reason}" for each in inputs.failures]
            if galleries and dataset in galleries:
                self.galleries[f"{name}/{dataset}"] = galleries[dataset]
        verdict_lines = verdicts.lines(frames) if frames else pd.DataFrame(columns=verdicts.COLUMNS)
        _add_adjusted(self.rows[before:], verdict_lines)
        self.studies[-1] |= {
            "rows": len(self.rows) - before,
            "failures": failures,
            "verdicts": verdicts.sentence(verdict_lines["verdict"]),
            "alarms": verdicts.multiplicity(verdict_lines),
        }

    def data(self, study: str | None = None) -> dict[str, Any]:
        """The content of the page of one study, or of the page with all studies.

        On the page with all studies a quoted row appears once, even if several studies are compared with it. Studies
        with runs come first.
        """
        measured = {place.partition("/")[0] for place in self.runs}
        shown = [each for each in self.studies if study in (None, each["name"])]
        shown.sort(key=lambda each: each["name"] not in measured)
        names = [each["name"] for each in shown]
        rows = sorted((row for row in self.rows if row["study"] in names), key=lambda row: names.index(row["study"]))
        rows = rows if study else without_repeated_quotes(rows)
        metrics = dict.fromkeys(metric for row in rows for metric in row["cells"])
        views = dict.fromkeys(row["view"] for row in rows)
        quotes = {each["source"] for row in rows for cell in row["cells"].values() for each in cell["quotes"]}
        sources = {name: source for name, source in self.sources.items() if name in quotes}
        cited = {row["paper"] for row in rows} | {source["paper"] for source in sources.values()}
        return {
            "study": study,
            "studies": [_linked(each, study is not None) for each in shown],
            "metrics": {metric: metric_title(metric) for metric in metrics},
            "plain": [metric for metric in metrics if metric in DISTANCES],
            "views": {view: view_title(view) for view in views},
            "rows": rows,
            "runs": {place: runs for place, runs in self.runs.items() if place.partition("/")[0] in names},
            "versions": [dict(versions) for versions in self._versions],
            "sources": sources,
            "papers": {key: paper for key, paper in self.papers.items() if key in cited},
            "galleries": {place: each for place, each in self.galleries.items() if place.partition("/")[0] in names},
            "results": self.results_folder,
            "tails": tails(max((len(cell["seeds"]) for row in rows for cell in row["cells"].values()), default=0)),
        }

    def _source(self, document: Facts) -> None:
        paper = document["paper"] or {}
        key = self._paper(paper)
        self.sources.setdefault(document["source"], {"paper": key, "link": paper.get("link")})

    def _paper(self, paper: Facts | None) -> str | None:
        """The key of a paper's BibTeX entry, which is kept."""
        if not paper:
            return None
        [(_, key)] = citations.keys([{"name": "", "paper": paper}]).items()
        reference = citations.reference(paper) if "authors" in paper else ""
        self.papers.setdefault(key, {"bibtex": paper["bibtex"].strip(), "link": paper["link"], "reference": reference})
        return key

    def _rows(
        self, study: str, facts: Facts, inputs: Inputs, frame: pd.DataFrame, methods: Mapping[str, Facts]
    ) -> Iterable[dict[str, Any]]:
        """One row per method and view, with a cell per metric that was measured or published."""
        seeds, folds = _by_seed(_summary(inputs)), _by_fold(inputs.folds)
        sources = [document["source"] for document in facts["published"]]
        plans = {row["name"]: row for row in facts["rows"]}
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for each in records(frame):
            method, view, metric = each["method"], each["view"], each["metric"]
            about = methods.get(method, {})
            row = rows.setdefault(
                (method, view),
                {
                    "id": f"{study}/{facts['dataset']}/{method}/{view}",
                    "study": study,
                    "dataset": facts["dataset"],
                    "method": method,
                    "compared": plans[method]["compare_to"],
                    "label": each["label"],
                    "family": about.get("family"),
                    "backbone": about.get("backbone", ""),
                    "view": view,
                    "dim": about.get("dims", {}).get(view),
                    "planned": each["planned"],
                    "failed": each["failed"],
                    "warned": [one.sentence for one in inputs.warnings if one.method == method],
                    "paper": self._paper(about.get("paper")),
                    "metrics": [],
                    "cells": {},
                },
            )
            row["metrics"].append(metric)
            row["dim"] = each["dim"] or row["dim"]
            quotes = [
                {"value": value, "approximate": approximate, "note": note, "source": source}
                for value, approximate, note, source in zip(
                    each["quotes"], each["approximate"], each["notes"], sources, strict=True
                )
                if value is not None
            ]
            if each["mean"] is None and not quotes:
                continue
            row["cells"][metric] = {
                "mean": each["mean"],
                "interval": each["interval"],
                "seeds": seeds.get((method, view, metric), {}),
                "folds": folds.get((method, view, metric), {}),
                "quotes": quotes,
                "difference": each["difference"],
                **{key: each[key] for key in VERDICT if each.get(key) not in (None, "")},
            }
        return rows.values()

    def _add_runs(self, study: str, dataset: str, inputs: Inputs) -> None:
        """The records of all runs by method; what all runs of a method share is kept once."""
        for run in results.read_runs(inputs.paths("runs")):
            kept = self.runs.setdefault(
                f"{study}/{dataset}/{run['method']}", {"settings": run.get("configuration") or {}, "runs": []}
            )
            place = f"{study}/{dataset}/{run['method']}/seed{run['seed']}/fold{run['fold']}"
            versions = tuple(sorted((run.get("versions") or {}).items()))
            rule = "convert" if run["method"].endswith(RELEASED) else "train"
            kept["runs"].append(
                {
                    "seed": run["seed"],
                    "fold": run["fold"],
                    **{key: run[key] for key in RECORD if key in run},
                    "data": run.get("data") or {},
                    "own_files": run.get("own_files") or {},
                    "versions": self._versions.setdefault(versions, len(self._versions)),
                    "log": f"{self.logs_folder}/{place}/{rule}.log",
                }
            )


def _summary(inputs: Inputs) -> pd.DataFrame:
    """Means over seeds, also of values on validation classes that the table compares with published ones."""
    return (
        pd.concat([inputs.summary, results.summarise(inputs.validation)]) if len(inputs.validation) else inputs.summary
    )


def _frame(facts: Facts, inputs: Inputs) -> pd.DataFrame:
    """The frame of the dataset's table, with verdicts."""
    failed = {each.method for each in inputs.failures}
    warned = {each.method for each in inputs.warnings}
    return build(facts, _summary(inputs), None, failed, warned)


def _add_adjusted(rows: Iterable[dict[str, Any]], verdict_lines: pd.DataFrame) -> None:
    """Add to the cells the p-values that are adjusted for all tests of the study (``verdict_lines``)."""
    keys = ["dataset", "method", "view", "metric"]
    p = verdict_lines.dropna(subset=["p_adjusted"]).set_index(keys)["p_adjusted"].to_dict()
    for row in rows:
        for metric, cell in row["cells"].items():
            key = row["dataset"], row["method"], row["view"], metric
            if key in p:
                cell["p_adjusted"] = float(p[key])


def _linked(study: Mapping[str, Any], on_its_page: bool) -> dict[str, Any]:
    """A study with its links as seen from its own page, in the folder `site`, or from the page with all studies."""
    if on_its_page:
        return {**study, "link": None, "page": study["page"] and f"../{study['page']}"}
    return {**study, "link": f"site/{study['name']}.html"}


def _by_seed(summary: pd.DataFrame) -> dict[tuple[str, str, str], dict[int, float]]:
    """(method, view, metric) → seed → value, in the units of the table."""
    return {
        (row.method, row.view, row.metric): {seed: _unit(row.metric) * value for seed, value in row.by_seed.items()}
        for row in summary.itertuples()
    }


def _by_fold(folds: pd.DataFrame) -> dict[tuple[str, str, str], dict[int, list[float]]]:
    """(method, view, metric) → seed → values of the folds, in the units of the table."""
    by_metric: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for row in folds.sort_values("fold", kind="stable").itertuples():
        seeds = by_metric.setdefault((row.method, row.view, row.metric), {})
        seeds.setdefault(row.seed, []).append(_unit(row.metric) * row.value)
    return by_metric


def _unit(metric: str) -> int:
    return 1 if metric in DISTANCES else 100


def without_repeated_quotes(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without those that only repeat the published values of an earlier row."""
    seen, kept = set(), []
    for row in rows:
        cells = row["cells"].items()
        if all(cell["mean"] is None for _, cell in cells):
            quotes = [(metric, each["source"], each["value"]) for metric, cell in cells for each in cell["quotes"]]
            key = row["dataset"], row["compared"], row["view"], tuple(quotes)
            if key in seen:
                continue
            seen.add(key)
        kept.append(row)
    return kept


def by_dataset(
    facts: Iterable[Facts], files: Mapping[str, Iterable[str]]
) -> dict[str, tuple[Facts, dict[str, list[str]]]]:
    """Dataset → its facts and its files, from the facts of all datasets and the files of all of them together."""
    kinds = ("evaluations", "runs", "failures")
    return {
        each["dataset"]: (
            each,
            {
                kind: [path for path in files.get(kind, ()) if results.place(path).dataset == each["dataset"]]
                for kind in kinds
            },
        )
        for each in facts
    }


def relative(page: str | Path, folder: str | Path) -> str:
    """The link from a page in ``folder`` to another page."""
    return Path(os.path.relpath(page, folder)).as_posix()
