"""A study, its rows and its runs: frozen and resolved once. The workflow and the report only ask these objects."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.files import canonical
from recheck.names import CLUSTERING, RELEASED, watched_metrics
from recheck.parts import own_files
from recheck.study.compose import Files, compose, merge
from recheck.study.schema import settings_used_by

# What a target shows of a study: all of it, what has been measured by now, or the published values alone.
ALL, SO_FAR, PUBLISHED = "all", "so_far", "published"


@dataclass(frozen=True)
class Row:
    """A row of the table, whatever the dataset."""

    name: str
    label: str
    seeds: tuple[int, ...]
    compare_to: str
    family: str | None = None
    paper: Mapping[str, Any] | None = None

    @property
    def released(self) -> bool:
        """Whether the authors' own checkpoints are evaluated instead of training."""
        return self.name.endswith(RELEASED)


@dataclass(frozen=True)
class Run:
    """All settings of a row on a dataset, the same for every seed and member.

    What leaves it for Snakemake's ``params`` is plain and has its keys in alphabetical order: Snakemake compares the
    repr, and a dataclass would never trigger a rerun.
    """

    settings: Mapping[str, Any]
    # what the study calls the backbone's weights; in the settings they may be a file
    weights: str = "none"

    @property
    def released(self) -> dict[str, Any] | None:
        return canonical(self.settings.get("released"))

    @property
    def trained(self) -> bool:
        """Whether this run has a training of its own: not the authors', and of at least one epoch."""
        return bool(self.settings["schedule"]["epochs"]) and not self.released

    @property
    def members(self) -> int:
        """Number of checkpoints: the row's own, else one per fold of the split."""
        return self.settings.get("members") or self.settings["split"].get("folds", 1)

    @property
    def split(self) -> dict[str, Any]:
        return canonical(self.settings["split"])

    @cached_property
    def training(self) -> dict[str, Any]:
        """What the checkpoint depends on, and how it embeds images."""
        part = {
            key: self.settings[key]
            for key in settings_used_by("released" if self.released else "training")
            if self.settings.get(key) is not None
        }
        if "relabel" in part:
            part["relabel"] = {**part["relabel"], "members": self.members}
        # how metrics are computed matters to a run only where they choose its checkpoint or are watched
        watched = {name for names in watched_metrics(part.get("selection", {})).values() for name in names}
        how = self._how_measured(clusters=bool(watched & set(CLUSTERING))) if watched else {}
        return canonical(part | ({"evaluation": how} if how else {}))

    @cached_property
    def embedding(self) -> dict[str, Any]:
        """The training settings, and whether training images are embedded too."""
        shown = self.settings["evaluation"].get("distances", "test")
        return canonical(self.training | ({"distances": shown} if shown != "test" else {}))

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """What metrics depend on; the table's columns do not belong to it."""
        evaluation, selection = self.settings["evaluation"], self.settings["selection"]
        part = {"metrics": evaluation["metrics"], "reduction": self.settings.get("reduction")}
        if self.trained and selection.get("role") == "test":
            part["select"] = selection["metric"]
        if "calibration" in evaluation:
            part["calibration"] = evaluation["calibration"]
        return canonical(part | self._how_measured())

    @property
    def eval_transforms(self) -> dict[str, Any]:
        """From a stored image to what the model sees in evaluation."""
        transforms = self.settings["transforms"]
        return canonical({"resize": transforms.get("resize"), "eval": transforms["eval"]})

    @property
    def weights_file(self) -> str | None:
        """The backbone's weights, if config/weights describes the file."""
        backbone = self.settings["model"]["backbone"]
        return backbone["weights"] if "sha256" in backbone else None

    @cached_property
    def own_files(self) -> list[str]:
        """The user's own files that the run is made with; the backbone's weights from config/weights are not."""
        return [file for file in own_files(self.training) if file != self.weights_file]

    def _how_measured(self, clusters: bool = True) -> dict[str, Any]:
        """What `evaluation` says about computing metrics, where it differs from the default."""
        evaluation = self.settings["evaluation"]
        how = {} if evaluation.get("normalise", True) else {"normalise": False}
        return how | ({"clustering": evaluation["clustering"]} if clusters and evaluation.get("clustering") else {})


@dataclass(frozen=True)
class Study:
    """A study, written out and resolved. ``protocols`` has the settings of a dataset before any row changes them."""

    name: str
    path: Path
    title: str
    description: str
    views: tuple[str, ...]
    rows: Mapping[str, Row]
    runs: Mapping[str, Mapping[str, Run]] = field(repr=False)
    protocols: Mapping[str, Mapping[str, Any]] = field(repr=False)
    classes: Mapping[str, Mapping[str, int] | None] = field(repr=False)
    sweep: Mapping[str, Any] | None = field(default=None, repr=False)
    published: str | None = None
    baseline: str | None = None
    variant: str = ""
    scope: str = ALL

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(self.runs)

    def run(self, dataset: str, row: str) -> Run:
        if dataset not in self.runs:
            raise UserError(f"Study '{self.name}' has no dataset '{dataset}'; {nearest(dataset, self.runs)}.")
        if row not in self.rows:
            raise UserError(f"Study '{self.name}' has no row '{row}'; {nearest(row, self.rows)}.")
        return self.runs[dataset][row]

    def split(self, dataset: str) -> dict[str, Any]:
        """The split scheme of a dataset, which all rows share."""
        return canonical(self.protocols[dataset]["split"])

    def swept(self) -> dict[str, list[tuple[float, str]]]:
        """Label of each method of a sweep → its values with their rows, as far as the study has them."""
        found: dict[str, list[tuple[float, str]]] = {}
        for method in (self.sweep or {}).get("methods", ()):
            for value in self.sweep["values"]:
                if row := self.rows.get(f"{method}_{value}"):
                    found.setdefault(row.label.removesuffix(f", {value}"), []).append((float(value), row.name))
        return found

    def with_rows(self, names: Collection[str]) -> "Study":
        """The same study with some of its rows."""
        kept = [name for name in self.rows if name in names]
        runs = {dataset: {name: runs[name] for name in kept} for dataset, runs in self.runs.items()}
        return replace(self, rows={name: self.rows[name] for name in kept}, runs=runs)


def load_study(
    name: str,
    files: Files,
    *,
    with_weights: Callable[[dict[str, Any], str], dict[str, Any]] = lambda settings, source: settings,
    variant: str | None = None,
    seeds: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
) -> Study:
    """A study as its files and the config's choice of variant, seeds and methods define it. Not checked yet.

    ``with_weights(settings, source)`` puts the file of the backbone's weights into the settings of a run.
    """
    composed = compose(name, files, variant)
    rows = {row: _row(row, own, seeds or composed["seeds"]) for row, own in composed["methods"].items()}
    source = files.studies[name]

    def run(dataset: str, row: str, own: Mapping[str, Any]) -> Run:
        settings = _resolve(composed, dataset, own)
        return Run(with_weights(settings, f"{source}, row '{row}'"), settings["model"]["backbone"]["weights"])

    study = Study(
        name=name,
        path=source,
        title=composed["title"],
        description=composed.get("description", ""),
        views=tuple(composed["views"]),
        rows=rows,
        runs={
            dataset: {row: run(dataset, row, own) for row, own in composed["methods"].items()}
            for dataset in composed["datasets"]
        },
        protocols={dataset: _resolve(composed, dataset, {}) for dataset in composed["datasets"]},
        classes={dataset: canonical(own.get("classes")) for dataset, own in composed["datasets"].items()},
        sweep=composed.get("sweep"),
        published=composed.get("published"),
        baseline=composed.get("baseline"),
        variant=composed["variant"],
    )
    return study if methods is None else study.with_rows(_chosen(study, methods))


def _row(name: str, own: Mapping[str, Any], seeds: Sequence[int]) -> Row:
    """Released checkpoints exist once, whatever the seeds."""
    released = name.endswith(RELEASED)
    return Row(
        name=name,
        label=own["label"],
        seeds=tuple(seeds[:1] if released else seeds[: own.get("seeds")]),
        compare_to=own.get("compare_to", name),
        family=own.get("family"),
        paper=own.get("paper"),
    )


def _resolve(composed: Mapping[str, Any], dataset: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings, then the dataset's, then the row's, then what was tuned for the row on the dataset.

    A sampler of another class keeps the batch size unless it names its own.
    """
    of_dataset = composed["datasets"][dataset]
    tuned = row.get("datasets", {}).get(of_dataset.get("hyperparameters_of", dataset), {})
    known, resolved = settings_used_by(), {}
    for layer in (composed["protocol"], of_dataset, row, tuned):
        batch = resolved.get("sampler", {}).get("batch")
        resolved = merge(resolved, {key: value for key, value in layer.items() if key in known})
        if batch is not None:
            resolved["sampler"] = {"batch": batch, **resolved["sampler"]}
    return resolved


def _chosen(study: Study, names: Sequence[str]) -> list[str]:
    """The rows that `--config methods=[…]` names; a method of a sweep stands for all of its rows."""
    sweep = study.sweep or {"methods": [], "values": {}}
    rows = {method: [f"{method}_{value}" for value in sweep["values"]] for method in sweep["methods"]}
    for name in names:
        if name not in study.rows and name not in rows:
            known = nearest(name, [*study.rows, *rows])
            raise UserError(f"config 'methods': study '{study.name}' has no row '{name}'; {known}.")
    return [row for name in names for row in rows.get(name, [name])]
