"""All targets: every study, its results so far, its published values and its cost (`<study>_so_far`, …)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.study import facts, grid
from recheck.study.checks import check_study
from recheck.study.compose import RECOMMENDED, Files, top_level
from recheck.study.model import ALL, COST, PUBLISHED, SO_FAR, Study, load_study
from recheck.study.published import Document, load_published, scoped
from recheck.study.selection import Selection
from recheck.study.summary import described
from recheck.study.yaml import first_file

PAGE_FILES = ("index.html", "references.bib", "verdicts.csv")
COST_FILES = tuple(f"cost.{suffix}" for suffix in ("md", "csv", "json", "png", "svg"))
# a study file with the values that the searches chose
CHOSEN = "chosen.yaml"
# kind of the files with published searches, which belong to no dataset and no run
QUOTED_SEARCHES = "quoted_searches"


class Catalogue:
    """All studies by target. Each study is read once, on first use."""

    def __init__(
        self,
        files: Files,
        published: Sequence[Path],
        chosen: Mapping[str, Any],
        with_weights: Callable[[dict[str, Any], str], dict[str, Any]],
        dataset_of: Callable[[str, Path], Any],
        place: Callable[[str], str],
    ):
        """``published`` are the folders of published numbers: the first that has a file wins.

        ``chosen`` holds the config's variant, tuning, seeds and methods; ``place`` replaces pathvars by folders.
        """
        self.files, self.published_folders, self.selection = files, published, Selection.of(chosen)
        self.with_weights, self.dataset_of, self.place = with_weights, dataset_of, place
        self.targets: dict[str, tuple[str, str]] = {name: (name, ALL) for name in files.studies}
        for name in files.studies:
            quoted = (PUBLISHED,) if top_level(name, files).get("published") else ()
            for scope in (*quoted, SO_FAR, COST):
                target = f"{name}_{scope}"
                if target in files.studies:
                    raise UserError(
                        f"{files.studies[target]}: '{target}' is already a target of study '{name}'. Rename this file."
                    )
                self.targets[target] = name, scope
        # every folder with a report → its target, and whether it shows the part that the config selects
        self.reports: dict[str, tuple[str, bool]] = {target: (target, False) for target in self.targets}
        if self.selection:
            self.reports |= {self._selected_report(target): (target, True) for target in self.targets}
        # every folder with runs → its study
        self.run_folders = {name: name for name in files.studies}
        if self.selection.of_runs():
            self.run_folders |= {self.selection.of_runs().folder(name): name for name in files.studies}
        self._studies: dict[str, Study] = {}
        self._parts: dict[str, Study] = {}
        self._documents: dict[str, list[Document]] = {}
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}

    def study(self, name: str) -> Study:
        """A whole study by the name of the folder of its runs, in the chosen variant, checked."""
        name = self.run_folders.get(name, name)
        if name not in self._studies:
            chosen = {"variant": self.selection.variant, "tuning": self.selection.tuning}
            study = load_study(name, self.files, with_weights=self.with_weights, **chosen)
            if not self._has_usual_runs(study, name):
                study = replace(study, name=self.selection.of_runs().folder(name))
            check_study(study)
            for dataset in study.datasets:
                self.dataset_of(dataset, study.path)
            self._studies[name] = described(study)
        return self._studies[name]

    def reported(self, report: str) -> Study:
        """The study of a report, or the part of it that the config selects."""
        target, is_part = self.reports[report]
        name = self.targets[target][0]
        if not is_part:
            return self.study(name)
        if name not in self._parts:
            chosen = self.selection
            selected = load_study(
                name,
                self.files,
                with_weights=self.with_weights,
                variant=chosen.variant,
                tuning=chosen.tuning,
                seeds=chosen.seeds or None,
                methods=chosen.methods or None,
            )
            self._parts[name] = chosen.applied(name, self.study(name), selected)
        return self._parts[name]

    def report(self, target: str) -> str:
        """The folder of a target's report: the target's name for the whole study, else one with the selection."""
        if not self.selection:
            return target
        name, scope = self.targets[target]
        whole, selected = self.study(name), self.reported(self._selected_report(target))
        same_seeds = scope == PUBLISHED or all(
            selected.rows[row].seeds == whole.rows[row].seeds for row in selected.rows
        )
        same = same_seeds and len(selected.rows) == len(whole.rows) and self._has_usual_runs(whole, name)
        return target if same else self._selected_report(target)

    def _has_usual_runs(self, study: Study, name: str) -> bool:
        """Whether a study has the variant and the searches that its file names."""
        usual = study.variant == top_level(name, self.files).get("variant", RECOMMENDED)
        return usual and not (self.selection.tuning and study.searches)

    def _selected_report(self, target: str) -> str:
        name, scope = self.targets[target]
        return self.selection.folder(name) + ("" if scope == ALL else f"_{scope}")

    def shown(self, report: str) -> Study:
        """The study of a report, reduced to what the report shows."""
        target = self.reports[report][0]
        study = scoped(self.reported(report), self._scope(report), self.documents(report))
        return replace(study, name=report, target=target)

    def _scope(self, report: str) -> str:
        return self.targets[self.reports[report][0]][1]

    def documents(self, report: str) -> list[Document]:
        """The published documents of a study; empty if the study has no `published` file."""
        published = self.reported(report).published
        if not published:
            return []
        if published not in self._documents:
            self._documents[published] = load_published(first_file(self.published_folders, published))
        return self._documents[published]

    def pages(self, target: str) -> list[str]:
        """The files of a target's page and, unless the config selects methods, of the studies in `also_build`.

        They include the chosen values of searches. A cost target has the files of the cost report instead.
        """
        reports = self._built(target)
        files = COST_FILES if self.targets.get(target, ("", ALL))[1] == COST else PAGE_FILES
        return [f"<results>/{report}/{file}" for report in reports for file in files] + self.chosen(reports)

    def chosen(self, reports: Iterable[str]) -> list[str]:
        """The paths of the chosen values, for those of the reports whose study has searches."""
        return [
            f"<results>/{report}/{CHOSEN}"
            for report in reports
            if report in self.reports and self._scope(report) == ALL and self.reported(report).searches
        ]

    def _built(self, target: str) -> list[str]:
        """The reports that a target builds."""
        name, scope = self.targets.get(target, (target, ALL))
        others = self.also_built(name) if scope in (ALL, COST) else []
        others = [f"{other}_{COST}" for other in others if other in self.files.studies] if scope == COST else others
        return [self.report(page) if page in self.targets else page for page in (target, *others)]

    def also_built(self, name: str) -> list[str]:
        """The names in `also_build`, which the study's target builds too; empty if the config selects methods."""
        if self.selection.methods or name not in self.files.studies:
            return []
        return top_level(name, self.files).get("also_build") or []

    def deleted(self, target: str, figures: Mapping[str, Any]) -> list[str]:
        """Deleted files of a target's finished work, which the target requests again.

        Only work of which some files exist is checked, so that planning thousands of new jobs does not take longer.
        """
        gone: list[str] = []
        for report in self._built(target):
            if report not in self.reports or self._scope(report) != ALL:
                continue
            has_page = self._exists(f"<results>/{report}/index.html")
            for dataset in self.shown(report).datasets:
                tables = [f"<results>/{report}/{dataset}/{file}" for file in grid.TABLE_FILES]
                missing = [path for path in tables if not self._exists(path)]
                gone += missing if has_page else []
                gone += grid.deleted(self.reported(report), dataset, self.place, has_table=not missing)
            if has_page:
                drawn = [path for suffix in ("png", "svg") for path in self.figures(report, figures, suffix)]
                gone += [path for path in (*drawn, *self.search_tables(report)) if not self._exists(path)]
        return gone

    def _exists(self, path: str) -> bool:
        return Path(self.place(path)).exists()

    # used by the rules of report.smk

    def facts(self, report: str, dataset: str) -> dict[str, Any]:
        """The facts for tables and figures of a dataset, computed on the first call and then kept."""
        if (report, dataset) not in self._facts:
            measured = self._measured(report, dataset)
            self._facts[report, dataset] = facts.facts(
                self.shown(report), dataset, self.documents(report), measured, self._title(report, dataset)
            )
        return self._facts[report, dataset]

    def all_facts(self, report: str) -> list[dict[str, Any]]:
        """The facts of every dataset of a report, for figures that show them together."""
        return [self.facts(report, dataset) for dataset in self.shown(report).datasets]

    def page_facts(self, report: str, figures: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The facts for the page, with the captions of those ``figures`` (name → figure) that apply."""
        datasets = self.shown(report).datasets
        titles = {dataset: self._title(report, dataset) for dataset in datasets}
        captions = {
            dataset: {
                name: figure.describe(self.facts(report, dataset))
                for name, figure in (figures or {}).items()
                if not figure.across and figure.applies(self.facts(report, dataset))
            }
            for dataset in datasets
        }
        about = facts.page_facts(self.shown(report), self.documents(report), titles)
        return {**about, "captions": captions, "captions_across": self._across(report, figures or {})}

    def _title(self, report: str, dataset: str) -> str:
        return self.dataset_of(dataset, self.reported(report).path).title

    def _measured(self, report: str, dataset: str) -> set[str]:
        """The rows with results when the report is made: all rows of the study, or the rows evaluated so far."""
        study, scope = self.reported(report), self._scope(report)
        if scope == PUBLISHED:
            return set()
        if scope == ALL:
            return set(study.rows)
        paths = grid.existing(grid.report_files(study, dataset, ["evaluations"]), self.place)["evaluations"]
        return {Path(path).parts[-3] for path in paths}

    def figures(self, report: str, figures: Mapping[str, Any], suffix: str) -> list[str]:
        """The paths of all ``figures`` (name → figure) of a report: of each dataset, then of all together."""
        each = [
            f"<results>/{report}/figures/{dataset}_{name}.{suffix}"
            for dataset in self.shown(report).datasets
            for name, figure in figures.items()
            if not figure.across and figure.applies(self.facts(report, dataset))
        ]
        return each + [f"<results>/{report}/figures/{name}.{suffix}" for name in self._across(report, figures)]

    def _across(self, report: str, figures: Mapping[str, Any]) -> dict[str, str]:
        """Name → caption of those ``figures`` of all datasets together that apply to a report."""
        all_facts = self.all_facts(report)
        return {
            name: figure.describe(all_facts)
            for name, figure in figures.items()
            if figure.across and figure.applies(all_facts)
        }

    def search_tables(self, report: str) -> list[str]:
        """The tables of a report with published searches of its rows; the first is the one that the page reads."""
        quoted = any(self.facts(report, dataset)["quoted_searches"] for dataset in self.shown(report).datasets)
        return [f"<results>/{report}/{file}" for file in grid.SEARCH_FILES] if quoted else []

    def needed(self, report: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, list[str]]:
        """The files that a report job waits for; none for `so_far` and `published`, which show what exists."""
        return self._files(report, datasets, needs) if self._scope(report) == ALL else {}

    def existing(self, report: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, Any] | None:
        """The existing files for `so_far` and `published`; None for the study itself, whose files are inputs.

        They are not inputs, because Snakemake would create or update inputs, and would lock them against a second
        Snakemake.
        """
        scope = self._scope(report)
        if scope == ALL:
            return None
        if scope == PUBLISHED:
            return grid.stamped(self._quoted_files(report, needs))
        files = grid.existing(self._files(report, datasets, needs), self.place)
        failed = [path for dataset in datasets for path in grid.failures(self.reported(report), dataset, self.place)]
        return grid.stamped({**files, "failures": failed})

    def _files(self, report: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, list[str]]:
        quoted = self._quoted_files(report, needs)
        files: dict[str, list[str]] = {kind: [] for kind in needs if kind != QUOTED_SEARCHES}
        for dataset in datasets:
            for kind, paths in grid.report_files(self.reported(report), dataset, list(files)).items():
                files[kind] += paths
        return {**files, **quoted}

    def _quoted_files(self, report: str, needs: Iterable[str]) -> dict[str, list[str]]:
        """The files of published searches, if they are needed."""
        files = [path for document in self.documents(report) for path in document.get("search_files", ())]
        return {QUOTED_SEARCHES: files} if QUOTED_SEARCHES in needs else {}

    # used by the rules of site.smk

    def site_reports(self) -> dict[str, str]:
        """Report with the results so far → its study, for every study. The site shows these.

        Seeds that the config selects replace those of every study. Selected methods change nothing: a site over all
        studies has rows that a single study lacks.
        """
        targets = {name: f"{name}_{SO_FAR}" for name in self.files.studies}
        seeds_only = self.selection.seeds and not self.selection.methods
        return {self._selected_report(each) if seeds_only else each: name for name, each in targets.items()}

    def site(self, needs: Iterable[str]) -> list[dict[str, Any]]:
        """What the site shows of every study: facts, the files that exist, and its report if there is one."""
        return [
            {
                "folder": report,
                "about": self.page_facts(name),
                "datasets": [
                    (self.facts(report, dataset), self.existing(report, [dataset], needs))
                    for dataset in self.shown(report).datasets
                ],
                "page": next(filter(self._exists, self._site_pages(name)), None),
            }
            for report, name in self.site_reports().items()
        ]

    def _site_pages(self, name: str) -> list[str]:
        """The reports of a study, the most complete first."""
        return [
            self.place(f"<results>/{report}/index.html") for report in (name, f"{name}_{SO_FAR}", f"{name}_{PUBLISHED}")
        ]

    def site_galleries(self) -> list[str]:
        """The galleries of the datasets with embeddings."""
        return [
            f"<results>/{report}/{dataset}/galleries.json"
            for report in self.site_reports()
            for dataset in self.shown(report).datasets
            if grid.existing(grid.report_files(self.reported(report), dataset, ["embeddings"]), self.place)[
                "embeddings"
            ]
        ]


def unknown_target(target: str, catalogue: Catalogue, others: Mapping[str, Path]) -> UserError:
    """The error for a target that does not exist."""
    study = target.removesuffix(f"_{PUBLISHED}")
    if study != target and study in catalogue.files.studies:
        catalogue.study(study)  # an unreadable study raises its own error
        return UserError(
            f"{catalogue.files.studies[study]} has no 'published' values, so there is no target '{target}'. Add "
            f"'published: <file>' or build '{study}'."
        )
    known = nearest(target, [*catalogue.targets, *others], listed=[*catalogue.files.studies, *others])
    return UserError(f"Unknown study '{target}'; {known} (config/studies/*.yaml).")
