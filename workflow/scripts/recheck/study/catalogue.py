"""All targets: every study, its results so far (`<study>_so_far`) and its published values (`<study>_published`)."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.study import facts, grid
from recheck.study.checks import check_study
from recheck.study.compose import Files, top_level
from recheck.study.model import ALL, PUBLISHED, SO_FAR, Study, load_study
from recheck.study.published import Document, load_published, scoped


class Catalogue:
    """All studies by target. Each study is read once, on first use."""

    def __init__(
        self,
        files: Files,
        published: Path,
        chosen: Mapping[str, Any],
        with_weights: Callable[[dict[str, Any], str], dict[str, Any]],
        check_dataset: Callable[[str, Path], Any],
        place: Callable[[str], str],
    ):
        """``chosen`` holds the config's variant, seeds and methods; ``place`` replaces pathvars by folders."""
        self.files, self.published_folder, self.chosen = files, published, chosen
        self.with_weights, self.check_dataset, self.place = with_weights, check_dataset, place
        self.targets: dict[str, tuple[str, str]] = {name: (name, ALL) for name in files.studies}
        for name in files.studies:
            for scope in (PUBLISHED, SO_FAR) if top_level(name, files).get("published") else (SO_FAR,):
                target = f"{name}_{scope}"
                if target in files.studies:
                    raise UserError(
                        f"{files.studies[target]}: '{target}' is already a target of study '{name}'. Rename this file."
                    )
                self.targets[target] = name, scope
        self._studies: dict[str, Study] = {}
        self._documents: dict[str, list[Document]] = {}
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}

    def study(self, target: str) -> Study:
        """The study of a target, checked."""
        name = self.targets.get(target, (target,))[0]
        if name not in self._studies:
            self._studies[name] = self._load(name)
        return self._studies[name]

    def _load(self, name: str) -> Study:
        study = load_study(
            name,
            self.files,
            with_weights=self.with_weights,
            **{key: self.chosen.get(key) for key in ("variant", "seeds", "methods")},
        )
        check_study(study)
        for dataset in study.datasets:
            self.check_dataset(dataset, study.path)
        return study

    def shown(self, target: str) -> Study:
        """The study of a target, reduced to what the target shows."""
        return scoped(self.study(target), self.targets[target][1], self.documents(target))

    def documents(self, target: str) -> list[Document]:
        """The published documents of a study; empty if the study has no `published` file."""
        published = self.study(target).published
        if not published:
            return []
        if published not in self._documents:
            self._documents[published] = load_published(self.published_folder / published)
        return self._documents[published]

    def pages(self, target: str) -> list[str]:
        """Page and references of a target and, unless the config selects methods, of the studies in `also_build`."""
        name, scope = self.targets.get(target, (target, ALL))
        only_this = scope != ALL or self.chosen.get("methods") or name not in self.files.studies
        others = [] if only_this else top_level(name, self.files).get("also_build") or []
        return [f"<results>/{page}/{file}" for page in (target, *others) for file in ("index.html", "references.bib")]

    # used by the rules of report.smk

    def facts(self, target: str, dataset: str) -> dict[str, Any]:
        """The facts for tables and figures of a dataset, computed on the first call and then kept."""
        if (target, dataset) not in self._facts:
            measured = self._measured(target, dataset)
            self._facts[target, dataset] = facts.facts(self.shown(target), dataset, self.documents(target), measured)
        return self._facts[target, dataset]

    def page_facts(self, target: str) -> dict[str, Any]:
        return facts.page_facts(self.shown(target))

    def _measured(self, target: str, dataset: str) -> set[str]:
        """The rows with results when the report is made: all rows of the study, or the rows evaluated so far."""
        study, scope = self.study(target), self.targets[target][1]
        if scope == PUBLISHED:
            return set()
        if scope == ALL:
            return set(study.rows)
        paths = grid.existing(grid.report_files(study, dataset, ["evaluations"]), self.place)["evaluations"]
        return {Path(path).parts[-3] for path in paths}

    def figures(self, target: str, figures: Mapping[str, Any], suffix: str) -> list[str]:
        """The paths of all ``figures`` (name → figure) that apply to the target, for each of its datasets."""
        return [
            f"<results>/{target}/figures/{dataset}_{name}.{suffix}"
            for dataset in self.shown(target).datasets
            for name, figure in figures.items()
            if figure.applies(self.facts(target, dataset))
        ]

    def needed(self, target: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, list[str]]:
        """The files that a report job waits for; none for `so_far` and `published`, which show what exists."""
        return self._files(target, datasets, needs) if self.targets[target][1] == ALL else {}

    def existing(self, target: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, Any] | None:
        """The existing files for `so_far` and `published`; None for the study itself, whose files are inputs.

        They are not inputs, because Snakemake would create or update inputs, and would lock them against a second
        Snakemake.
        """
        scope = self.targets[target][1]
        if scope == ALL:
            return None
        if scope == PUBLISHED:
            return grid.stamped({})
        files = grid.existing(self._files(target, datasets, needs), self.place)
        failed = [path for dataset in datasets for path in grid.failures(self.study(target), dataset, self.place)]
        return grid.stamped({**files, "failures": failed})

    def _files(self, target: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {kind: [] for kind in needs}
        for dataset in datasets:
            for kind, paths in grid.report_files(self.study(target), dataset, needs).items():
                files[kind] += paths
        return files


def unknown_target(target: str, catalogue: Catalogue, others: Mapping[str, Path]) -> UserError:
    """The error for a target that does not exist."""
    study = target.removesuffix(f"_{PUBLISHED}")
    if study != target and study in catalogue.files.studies:
        catalogue.study(study)  # an unreadable study raises its own error
        return UserError(
            f"{catalogue.files.studies[study]} has no 'published' values, so there is no target '{target}'. Add "
            f"'published: <file>' or build '{study}'."
        )
    known = nearest(target, [*catalogue.targets, *others])
    return UserError(f"Unknown study '{target}'; {known} (config/studies/*.yaml).")
