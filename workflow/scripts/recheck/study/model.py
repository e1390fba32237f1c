"""A study, its rows and its runs, resolved once and immutable. The workflow and the report use only these objects."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from recheck import space
from recheck.errors import UserError, nearest
from recheck.files import canonical
from recheck.names import BACKBONE, CLUSTERING, RELEASED, watched_metrics
from recheck.parts import own_files
from recheck.study import sweep as sweeps
from recheck.study.compose import Files, compose, merge
from recheck.study.schema import settings_used_by
from recheck.study.search import Search

# What a target shows of a study: everything, the results so far, only the published values, or the cost of its runs.
ALL, SO_FAR, PUBLISHED, COST = "all", "so_far", "published", "cost"


@dataclass(frozen=True)
class Row:
    """A row of the table, the same for all datasets."""

    name: str
    label: str
    seeds: tuple[int, ...]
    compare_to: str
    family: str | None = None
    paper: Mapping[str, Any] | None = None
    method: str | None = None
    # what defines the method, for rows with the method's label
    defined: Mapping[str, str | None] | None = field(default=None, repr=False)

    @property
    def released(self) -> bool:
        """Whether released checkpoints are evaluated instead of trained ones."""
        return self.name.endswith(RELEASED)


@dataclass(frozen=True)
class Run:
    """The run settings of a row on a dataset, the same for every seed and member.

    Its properties for Snakemake's ``params`` are plain mappings with sorted keys: Snakemake compares their repr, and a
    dataclass would never trigger a rerun.
    """

    settings: Mapping[str, Any]
    # the backbone's weights as named in the study; in the settings they may be a file
    weights: str = "none"
    # whether a view shows the backbone's features too
    features: bool = False

    @property
    def released(self) -> dict[str, Any] | None:
        return canonical(self.settings.get("released"))

    @property
    def trained(self) -> bool:
        """Whether this run is trained here, for at least one epoch."""
        return bool(self.settings["schedule"]["epochs"]) and not self.released

    @cached_property
    def search(self) -> Search | None:
        """The search for this run's free settings; None if it has none."""
        return Search.of(self.settings)

    @property
    def untuned(self) -> "Run":
        """The same run with the values that the study gives to its free settings."""
        return replace(self, settings={key: value for key, value in self.settings.items() if key != "space"})

    @property
    def members(self) -> int:
        """Number of checkpoints (default: one per fold of the split)."""
        return self.settings.get("members") or self.settings["split"].get("folds", 1)

    @property
    def split(self) -> dict[str, Any]:
        return canonical(self.settings["split"])

    @cached_property
    def training(self) -> dict[str, Any]:
        """The settings that the checkpoint depends on, including how it embeds images; without free settings."""
        training = {
            key: self.settings[key]
            for key in settings_used_by("released" if self.released else "training")
            if self.settings.get(key) is not None
        }
        if "relabel" in training:
            training["relabel"] = {**training["relabel"], "members": self.members}
        # how metrics are computed matters to training only if a metric selects the checkpoint or is watched
        watched = {name for names in watched_metrics(training.get("selection", {})).values() for name in names}
        options = self._metric_options(clusters=bool(watched & set(CLUSTERING))) if watched else {}
        fixed = canonical(training | ({"evaluation": options} if options else {}))
        return space.without(fixed, self.settings["space"]) if self.search else fixed

    @cached_property
    def embedding(self) -> dict[str, Any]:
        """The training settings, plus `distances` if training images are embedded, and `features` of the backbone."""
        shown = self.settings["evaluation"].get("distances", "test")
        also = {"distances": shown} if shown != "test" else {}
        return canonical(self.training | also | ({"features": True} if self.features else {}))

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """The settings that metrics depend on; the table's columns are not among them."""
        evaluation, selection = self.settings["evaluation"], self.settings["selection"]
        options = {"metrics": evaluation["metrics"], "reduction": self.settings.get("reduction")}
        if self.trained and selection.get("role") == "test":
            options["select"] = selection["metric"]
        if "calibration" in evaluation:
            options["calibration"] = evaluation["calibration"]
        return canonical(options | self._metric_options())

    @property
    def eval_transforms(self) -> dict[str, Any]:
        """The steps from a stored image to the model's input in evaluation."""
        transforms = self.settings["transforms"]
        return canonical({"resize": transforms.get("resize"), "eval": transforms["eval"]})

    @property
    def weights_file(self) -> str | None:
        """The file of the backbone's weights, if config/weights describes it."""
        backbone = self.settings["model"]["backbone"]
        return backbone["weights"] if "sha256" in backbone else None

    @cached_property
    def own_files(self) -> list[str]:
        """The user's own files that the run uses, without weights described in config/weights."""
        return [file for file in own_files(self.training) if file != self.weights_file]

    @cached_property
    def own_model_files(self) -> list[str]:
        """The user's own files that embedding needs, without weights described in config/weights."""
        used = [self.training["model"], self.training["transforms"]["eval"]]
        return [file for file in own_files(used) if file != self.weights_file]

    @property
    def metric_files(self) -> list[str]:
        """The user's own files that the evaluation uses."""
        return own_files(self.evaluation["metrics"])

    def _metric_options(self, clusters: bool = True) -> dict[str, Any]:
        """How metrics are computed, where `evaluation` differs from the defaults."""
        evaluation = self.settings["evaluation"]
        options = {} if evaluation.get("normalise", True) else {"normalise": False}
        clustering = evaluation.get("clustering") if clusters else None
        curvature = evaluation.get("curvature")
        options |= {"curvature": curvature} if curvature else {}
        return options | ({"clustering": clustering} if clustering else {})


@dataclass(frozen=True)
class Study:
    """A resolved study. ``protocols`` has the settings of each dataset before any row changes them."""

    name: str
    path: Path
    title: str
    description: str
    views: tuple[str, ...]
    rows: Mapping[str, Row]
    runs: Mapping[str, Mapping[str, Run]] = field(repr=False)
    protocols: Mapping[str, Mapping[str, Any]] = field(repr=False)
    classes: Mapping[str, Mapping[str, int] | None] = field(repr=False)
    # dataset → where the values that searches choose for it belong (see _blocks)
    blocks: Mapping[str, Mapping[str, Any]] = field(repr=False, default_factory=dict)
    sweep: Mapping[str, Any] | None = field(default=None, repr=False)
    published: str | None = None
    baseline: str | None = None
    # `alpha` and `delta`, as far as the study gives them
    verdicts: Mapping[str, Any] = field(repr=False, default_factory=dict)
    variant: str = ""
    scope: str = ALL
    # the target that shows the study, if it has another name, and the options to choose a part of the study
    target: str = ""
    options: str = ""

    @property
    def command(self) -> str:
        """The command that makes the study's report."""
        return f"snakemake --cores all {self.target or self.name}{self.options}"

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(self.runs)

    @property
    def searches(self) -> bool:
        """Whether any row has free settings."""
        return any(run.search for runs in self.runs.values() for run in runs.values())

    def run(self, dataset: str, row: str) -> Run:
        if dataset not in self.runs:
            raise UserError(f"Study '{self.name}' has no dataset '{dataset}'; {nearest(dataset, self.runs)}.")
        if row not in self.rows:
            raise UserError(f"Study '{self.name}' has no row '{row}'; {nearest(row, self.rows)}.")
        return self.runs[dataset][row]

    def split(self, dataset: str) -> dict[str, Any]:
        """The split settings of a dataset, shared by all rows."""
        return canonical(self.protocols[dataset]["split"])

    def swept(self) -> dict[str, list[tuple[float, str]]]:
        """Label of each method in the sweep → its (place on the axis, row) pairs, for the rows in this study."""
        lines: dict[str, list[tuple[float, str]]] = {}
        for method in (self.sweep or {}).get("methods", ()):
            for value, place in sweeps.places(self.sweep["values"]).items():
                if row := self.rows.get(sweeps.row_name(method, value)):
                    lines.setdefault(row.label.removesuffix(sweeps.label("", value)), []).append((place, row.name))
        return lines

    def with_rows(self, names: Collection[str]) -> "Study":
        """The same study with only these rows."""
        kept = [name for name in self.rows if name in names]
        runs = {dataset: {name: runs[name] for name in kept} for dataset, runs in self.runs.items()}
        return replace(self, rows={name: self.rows[name] for name in kept}, runs=runs)


def load_study(
    name: str,
    files: Files,
    *,
    with_weights: Callable[[dict[str, Any], str], dict[str, Any]] = lambda settings, source: settings,
    variant: str | None = None,
    tuning: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
) -> Study:
    """The study, resolved with the config's variant, seeds and methods; ``check_study`` is left to the caller.

    ``with_weights(settings, source)`` inserts the file of the backbone's weights into the settings of a run. ``tuning``
    replaces keys of every search.
    """
    composed = compose(name, files, variant)
    rows = {row: _row(row, spec, seeds or composed["seeds"]) for row, spec in composed["methods"].items()}
    source = files.studies[name]

    def run(dataset: str, row: str, spec: Mapping[str, Any]) -> Run:
        settings = _resolve(composed, dataset, spec, tuning)
        complete = with_weights(settings, f"{source}, row '{row}'")
        return Run(complete, settings["model"]["backbone"]["weights"], BACKBONE in composed["views"])

    study = Study(
        name=name,
        path=source,
        title=composed["title"],
        description=composed["description"],
        views=tuple(composed["views"]),
        rows=rows,
        runs={
            dataset: {row: run(dataset, row, spec) for row, spec in composed["methods"].items()}
            for dataset in composed["datasets"]
        },
        protocols={dataset: _resolve(composed, dataset, {}) for dataset in composed["datasets"]},
        classes={dataset: canonical(settings.get("classes")) for dataset, settings in composed["datasets"].items()},
        blocks=_blocks(composed),
        sweep=composed.get("sweep"),
        published=composed.get("published"),
        baseline=composed.get("baseline"),
        verdicts=composed["verdicts"],
        variant=composed["variant"],
    )
    return study if methods is None else study.with_rows(_chosen(study, methods))


def _row(name: str, spec: Mapping[str, Any], seeds: Sequence[int]) -> Row:
    """The row with its seeds; released checkpoints exist once, so they have only the first."""
    released = name.endswith(RELEASED)
    return Row(
        name=name,
        label=spec["label"],
        seeds=tuple(seeds[:1] if released else seeds[: spec.get("seeds")]),
        compare_to=spec.get("compare_to", name),
        family=spec.get("family"),
        paper=spec.get("paper"),
        method=spec.get("method"),
        defined=None if released else spec.get("defined"),
    )


def _resolve(
    composed: Mapping[str, Any], dataset: str, row: Mapping[str, Any], tuning: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The run settings: the protocol's, changed by the dataset, then the row, then the row's block for the dataset.

    A sampler of another class that has no `batch` keeps the batch size of the previous layers. ``tuning`` is the
    config's change to the study's `tuning`.
    """
    of_dataset = composed["datasets"][dataset]
    tuned = row.get("datasets", {}).get(of_dataset.get("hyperparameters_of", dataset), {})
    known, resolved = settings_used_by(), {}
    search = {"tuning": composed["tuning"]} if composed.get("tuning") else {}
    shortened = {"tuning": tuning} if search and tuning else {}
    for layer in (composed["protocol"], search, of_dataset, row, tuned, shortened):
        batch = resolved.get("sampler", {}).get("batch")
        resolved = merge(resolved, {key: value for key, value in layer.items() if key in known})
        if batch is not None:
            resolved["sampler"] = {"batch": batch, **resolved["sampler"]}
    return resolved


def _blocks(composed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Dataset → name of the rows' block that gets its tuned values and, if the block is new, its first content by row.

    Datasets that share the block of another dataset (`hyperparameters_of`) each need a new block. Others need none.
    """
    sources = {dataset: about.get("hyperparameters_of", dataset) for dataset, about in composed["datasets"].items()}
    rows = {row: spec["datasets"] for row, spec in composed["methods"].items() if "datasets" in spec}
    taken = {block for blocks in rows.values() for block in blocks}
    chosen = {}
    for dataset, source in sources.items():
        if source == dataset or list(sources.values()).count(source) == 1:
            chosen[dataset] = {"block": source, "new": None}
            continue
        start = {row: {k: v for k, v in blocks[source].items() if k != "space"} for row, blocks in rows.items()}
        chosen[dataset] = {"block": f"{dataset}_tuned" if dataset in taken else dataset, "new": start}
    return canonical(chosen)


def _chosen(study: Study, names: Sequence[str]) -> list[str]:
    """The rows that `--config methods=[…]` selects; a method of a sweep selects all of its rows."""
    sweep = study.sweep or {"methods": [], "values": {}}
    rows = {method: [sweeps.row_name(method, value) for value in sweep["values"]] for method in sweep["methods"]}
    for name in names:
        if name not in study.rows and name not in rows:
            known = nearest(name, [*study.rows, *rows])
            raise UserError(f"Config 'methods': study '{study.name}' has no row '{name}'; {known}.")
    return [row for name in names for row in rows.get(name, [name])]
