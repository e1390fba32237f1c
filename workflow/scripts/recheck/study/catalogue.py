"""Every target: the studies, and for each study what is measured so far and what was published."""

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
    """Studies are read when they are asked for, and once."""

    def __init__(
        self,
        files: Files,
        published: Path,
        chosen: Mapping[str, Any],
        with_weights: Callable[[dict[str, Any], str], dict[str, Any]],
        check_dataset: Callable[[str, Path], Any],
        place: Callable[[str], str],
    ):
        """``chosen`` are the config's variant, seeds and methods, ``place`` puts folders in the place of pathvars."""
        self.files, self.published_folder, self.chosen = files, published, chosen
        self.with_weights, self.check_dataset, self.place = with_weights, check_dataset, place
        self.targets: dict[str, tuple[str, str]] = {name: (name, ALL) for name in files.studies}
        for name in files.studies:
            for scope in (PUBLISHED, SO_FAR) if top_level(name, files).get("published") else (SO_FAR,):
                target = f"{name}_{scope}"
                if target in files.studies:
                    raise UserError(
                        f"{files.studies[target]}: '{target}' is a target of study '{name}' already; rename the file."
                    )
                self.targets[target] = name, scope
        self._studies: dict[str, Study] = {}
        self._documents: dict[str, list[Document]] = {}
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}

    def study(self, target: str) -> Study:
        """The study behind a target, checked."""
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
        """The study as a target shows it."""
        return scoped(self.study(target), self.targets[target][1], self.documents(target))

    def documents(self, target: str) -> list[Document]:
        """What a study is compared with; nothing if it names no file."""
        published = self.study(target).published
        if not published:
            return []
        if published not in self._documents:
            self._documents[published] = load_published(self.published_folder / published)
        return self._documents[published]

    def pages(self, target: str) -> list[str]:
        """The page and references of a target, and of the studies built with it unless only some rows are wanted."""
        name, scope = self.targets.get(target, (target, ALL))
        alone = scope != ALL or self.chosen.get("methods") or name not in self.files.studies
        others = [] if alone else top_level(name, self.files).get("also_build") or []
        return [f"<results>/{page}/{file}" for page in (target, *others) for file in ("index.html", "references.bib")]

    # for the rules of report.smk

    def facts(self, target: str, dataset: str) -> dict[str, Any]:
        """What tables and figures of a dataset are told; as of the first time it was asked."""
        if (target, dataset) not in self._facts:
            measured = self._measured(target, dataset)
            self._facts[target, dataset] = facts.facts(self.shown(target), dataset, self.documents(target), measured)
        return self._facts[target, dataset]

    def page_facts(self, target: str) -> dict[str, Any]:
        return facts.page_facts(self.shown(target))

    def _measured(self, target: str, dataset: str) -> set[str]:
        """Rows that have, or will have, results: of a study all, so far those with an evaluation."""
        study, scope = self.study(target), self.targets[target][1]
        if scope == PUBLISHED:
            return set()
        if scope == ALL:
            return set(study.rows)
        paths = grid.existing(grid.report_files(study, dataset, ["evaluations"]), self.place)["evaluations"]
        return {Path(path).parts[-3] for path in paths}

    def figures(self, target: str, figures: Mapping[str, Any], suffix: str) -> list[str]:
        """The figures (by name, with their ``applies``) of what is, or will be, measured on each dataset."""
        return [
            f"<results>/{target}/figures/{dataset}_{name}.{suffix}"
            for dataset in self.shown(target).datasets
            for name, figure in figures.items()
            if figure.applies(self.facts(target, dataset))
        ]

    def needed(self, target: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, list[str]]:
        """What a job of the report waits for: nothing in scopes that show what exists."""
        return self._files(target, datasets, needs) if self.targets[target][1] == ALL else {}

    def found(self, target: str, datasets: Iterable[str], needs: Iterable[str]) -> dict[str, Any] | None:
        """What exists of it, for scopes that show just that; None for a study itself, whose files are inputs.

        Not inputs, because Snakemake would make those, or make them again, and would not let two run at once.
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
    """The sentence about a target that does not exist."""
    study = target.removesuffix(f"_{PUBLISHED}")
    if study != target and study in catalogue.files.studies:
        catalogue.study(study)  # says what is wrong with a file that can't be read
        return UserError(f"{catalogue.files.studies[study]} names no 'published' values, so there are none to show.")
    known = nearest(target, [*catalogue.targets, *others])
    return UserError(f"There is no study '{target}'; {known} (config/studies/*.yaml).")
