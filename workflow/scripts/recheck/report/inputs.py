"""The inputs of a table or figure: the facts of one dataset in a study, and the files of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recheck import quoted_searches
from recheck.data.index import read_index
from recheck.data.packed import PackedImages
from recheck.data.splits import paired_training_images
from recheck.errors import UserError
from recheck.evaluation import query_sets
from recheck.evaluation.embeddings import read_embeddings
from recheck.files import read_json
from recheck.names import QUERY_VIEWS
from recheck.quoted_searches import QuotedSearch
from recheck.report import comparison, price, results, searches, tables, warned
from recheck.report.tables.frame import Published, build


@dataclass(frozen=True)
class Shown:
    """Images with their embeddings (by the row's label) under the untrained model and the best trained model."""

    images: np.ndarray
    labels: np.ndarray
    names: dict[int, str]
    groups: dict[int, str]
    embeddings: dict[str, np.ndarray]


@dataclass(frozen=True)
class StudyInputs:
    """The facts and the tables of all datasets of a study, for figures that show them together."""

    facts: Sequence[Mapping[str, Any]]
    tables: Sequence[tables.Table]


class Inputs:
    """The facts and the contents of the files; each file is read on first use.

    ``files`` maps kinds (evaluations, histories, runs, embeddings, searches, trials, importances,
    quoted_searches, index, split, pack, failures) to paths. A figure needs only some of them.
    """

    def __init__(self, facts: Mapping[str, Any], files: Mapping[str, Sequence[str | Path]]):
        self.facts, self.files = facts, files
        self.rows = {row["name"]: row for row in facts["rows"]}
        self.labels = {name: row["label"] for name, row in self.rows.items()}
        self.quoted = [Published(**document) for document in facts["published"]]

    def paths(self, kind: str) -> list[str | Path]:
        return list(self.files.get(kind, []))

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """The evaluations of the seeds that have all views."""
        return results.complete(results.read_evaluations(self.paths("evaluations")), self.facts["views"])

    @cached_property
    def summary(self) -> pd.DataFrame:
        return results.summarise(self.evaluations)

    @cached_property
    def folds(self) -> pd.DataFrame:
        return results.read_folds(self.paths("evaluations"))

    @cached_property
    def comparison(self) -> pd.DataFrame:
        """All pairs of rows, compared on the seeds and folds that both have."""
        return comparison.build(self.facts, self.evaluations, self.folds)

    @cached_property
    def failures(self) -> list[results.Failure]:
        """The failures of seeds without an evaluation; a seed with an evaluation has succeeded since."""
        measured = set(self.evaluations[["method", "seed"]].itertuples(index=False, name=None))
        failures = results.read_failures(self.paths("failures"))
        return [failure for failure in failures if (failure.method, failure.seed) not in measured]

    @cached_property
    def warnings(self) -> list[warned.Warned]:
        """What sanity checks found in the measured seeds."""
        measured = set(self.evaluations[["method", "seed"]].itertuples(index=False, name=None))
        records = results.read_runs(self.paths("runs")), results.read_warnings(self.paths("evaluations"))
        return warned.of_rows(*([one for one in each if (one["method"], one["seed"]) in measured] for each in records))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The frame of the table, for figures."""
        return build({**self.facts, "validation": None}, self.summary)

    @cached_property
    def table(self) -> tables.Table:
        split_known = bool(self.paths("split") and self.paths("index"))
        has_queries = split_known and self.facts["views"][0] in QUERY_VIEWS
        return tables.make(
            self.facts,
            pd.concat([self.summary, results.summarise(self.validation)]) if len(self.validation) else self.summary,
            sizes=results.split_facts(self.split, self.index) if split_known else {},
            chance=self.chance(self.facts["metrics"]) if has_queries else None,
            failures=self.failures,
            warnings=self.warnings,
            searched=searches.searched(self.chosen, results.read_runs(self.paths("runs"))) if self.chosen else None,
            prices=self.prices if self.facts["show_cost"] else None,
        )

    @cached_property
    def prices(self) -> dict[str, price.Price]:
        """What training each row costs."""
        return price.prices(results.read_runs(self.paths("runs")))

    @cached_property
    def validation(self) -> pd.DataFrame:
        """The values on validation classes that the table compares with published ones; empty if there are none."""
        metric = self.facts["validation"]
        runs = results.read_runs(self.paths("runs")) if metric else []
        return results.validation(self.evaluations, runs, metric)

    @cached_property
    def quoted_searches(self) -> tuple[QuotedSearch, ...]:
        """All published searches, of all datasets."""
        paths = self.paths("quoted_searches")
        return quoted_searches.read(Path(paths[0]).parent) if paths else ()

    @cached_property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """The values that the search of each tuned row has chosen."""
        return searches.read_chosen(self.paths("searches"))

    @cached_property
    def trials(self) -> dict[str, pd.DataFrame]:
        """The trials of each tuned row."""
        return searches.read_trials(self.paths("trials"))

    @cached_property
    def importances(self) -> dict[str, dict[str, float]]:
        """The importance of each free setting, for the tuned rows whose trials determine it."""
        return searches.read_importances(self.paths("importances"))

    @cached_property
    def histories(self) -> pd.DataFrame:
        return results.read_histories(self.paths("histories"))

    @cached_property
    def chosen_epochs(self) -> dict[tuple[str, int, int], int]:
        return results.chosen_epochs(results.read_runs(self.paths("runs")))

    @cached_property
    def split(self) -> dict[str, Any]:
        return read_json(self.paths("split")[0])

    @cached_property
    def index(self) -> pd.DataFrame:
        return read_index(self.paths("index")[0])

    @cached_property
    def pack(self) -> PackedImages:
        return PackedImages(Path(self.paths("pack")[0]).parent)

    @property
    def swept(self) -> dict[str, list[tuple[float, str]]]:
        """Label of each line of a sweep → its (place on the axis, row) pairs; empty without a sweep."""
        lines = (self.facts["sweep"] or {}).get("lines", [])
        return {line["label"]: [tuple(point) for point in line["points"]] for line in lines}

    @property
    def sweep_names(self) -> dict[float, str]:
        """Place on the axis of a sweep → the value as the study writes it."""
        return dict((self.facts["sweep"] or {}).get("names", []))

    def chance(self, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
        """The metrics of a random order, by view and metric."""
        return query_sets.chance(self.split["folds"][0], self.index["label"].to_numpy(), metrics)

    @cached_property
    def query_sets(self) -> dict[str, dict[str, query_sets.QuerySet]]:
        """Both query sets of each row, with its first seed."""
        labels = self.index["label"].to_numpy()
        fold = {role: np.asarray(images, np.int64) for role, images in self.split["folds"][0].items()}
        return {
            name: query_sets.query_sets(
                read_embeddings(files[0]), fold, labels, ["R@1"], self.rows[name]["calibration"]
            )
            for name, files in results.embedding_files(self.paths("embeddings")).items()
        }

    @property
    def best(self) -> str | None:
        """The trained row with the highest lead metric in the first view, if possible one without a warning."""
        lead, reference = (self.facts["lead_metric"], self.facts["views"][0]), self.facts["reference"]
        warned_rows = [warning.method for warning in self.warnings]
        sane = results.best_method(self.summary, *lead, exclude=[reference, *warned_rows])
        return sane or results.best_method(self.summary, *lead, exclude=[reference])

    def _compared(self) -> dict[str, list[str | Path]]:
        """The embedding files of the untrained row (if the study has one) and of the best trained row."""
        files = results.embedding_files(self.paths("embeddings"))
        names = [name for name in (self.facts["reference"], self.best) if name in files]
        if not names:
            raise UserError(
                f"No embeddings found for dataset '{self.facts['dataset']}': evaluate a method of study "
                f"'{self.facts['study']}' first."
            )
        return {name: files[name] for name in names}

    @property
    def queries(self) -> int:
        """The number of queries, which are the first images of ``shown(with_gallery=True)``."""
        return len(results.test_images(self.split))

    def shown(self, with_gallery: bool = False) -> Shown:
        """The test images or, with queries and a gallery, the queries; ``with_gallery`` appends the gallery."""
        embeddings = {}
        for name, files in self._compared().items():
            row = self.rows[name]
            embeddings[row["label"]] = results.concatenated_view(
                files, row["reduction"], row["normalise"], with_gallery
            )
        return self._shown_images(results.test_images(self.split, with_gallery), embeddings)

    def shown_training(self) -> Shown:
        """The embedded training images of the first fold."""
        embeddings = {}
        for name, files in self._compared().items():
            roles = read_embeddings(files[0])
            if "train" not in roles:
                raise UserError(f"{files[0]} has no training images: delete it and run again to recreate it.")
            embeddings[self.labels[name]] = roles["train"]
        images = paired_training_images(self.split["folds"][0], self.index["label"].to_numpy())
        return self._shown_images(images, embeddings)

    def _shown_images(self, images: np.ndarray, embeddings: dict[str, np.ndarray]) -> Shown:
        names, groups = results.class_names(self.index), results.class_groups(self.index)
        return Shown(images, self.index["label"].to_numpy()[images], names, groups, embeddings)
