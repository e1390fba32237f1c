"""The paths of a study's files, for the rules. ``<results>``, ``<resources>`` and ``<logs>`` are Snakemake pathvars."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recheck.files import fingerprint
from recheck.names import MODULE_ATTRIBUTE, QUERY_VIEWS
from recheck.resize import resize_slug
from recheck.study.model import Run, Study
from recheck.study.search import TRIAL, TUNING

EXPERIMENT = "<results>/{study}/{dataset}/{row}/seed{seed}"
EMBEDDINGS = "embeddings.safetensors"
RUN_FILES = ("model.safetensors", "history.csv", "run.json", "embeddings.safetensors")
SEARCH_FILES = (
    "searches.json",
    *(f"{name}.{suffix}" for name in ("searches", "effort") for suffix in ("md", "csv", "tex")),
)
TABLE_FILES = (*(f"table.{suffix}" for suffix in ("md", "csv", "tex", "json")), "comparison.csv")


def members(study: Study, dataset: str, row: str, seed: int | str, file: str) -> list[str]:
    """The path of ``file`` for every member (fold) of a row with one seed."""
    experiment = EXPERIMENT.format(study=study.name, dataset=dataset, row=row, seed=seed)
    return [f"{experiment}/fold{fold}/{file}" for fold in range(study.run(dataset, row).members)]


def evaluation_files(study: Study, dataset: str, row: str, seed: int | str) -> dict[str, list[str]]:
    """The embeddings of every member of a row with one seed, and the user's own files of its metrics."""
    user_files = study.run(dataset, row).metric_files
    return {
        "embeddings": members(study, dataset, row, seed, EMBEDDINGS),
        **({"own": user_files} if user_files else {}),
    }


def run_files(study: Study, dataset: str, file: str) -> list[str]:
    """The path of ``file`` for every run on a dataset; embeddings only for the first seed, which figures show."""
    return [
        path
        for row in study.rows.values()
        for seed in (row.seeds[:1] if file == EMBEDDINGS else row.seeds)
        for path in members(study, dataset, row.name, seed, file)
    ]


def evaluations(study: Study, dataset: str) -> list[str]:
    """The evaluation file of every row, seed and view on a dataset."""
    return [
        f"{EXPERIMENT.format(study=study.name, dataset=dataset, row=row.name, seed=seed)}/{view}.json"
        for row in study.rows.values()
        for seed in row.seeds
        for view in study.views
    ]


def packed(run: Run, dataset: str) -> str:
    """The folder of packed images that a run is trained and evaluated on."""
    return f"<resources>/datasets/{dataset}/packed/{resize_slug(run.settings['transforms'].get('resize'))}"


def packed_files(run: Run, dataset: str) -> dict[str, str]:
    """The packed images. One function for both inputs: Snakemake's call costs more than the function."""
    folder = packed(run, dataset)
    return {"pack": f"{folder}/pack.json", "pixels": f"{folder}/pixels.bin"}


def given_files(run: Run, wildcards: Any) -> dict[str, Any]:
    """A run's inputs besides its data: the user's own files, the backbone's weights and the chosen values.

    ``wildcards`` are those of the run's paths.
    """
    files = {"user_files": run.own_files, "weights": [run.weights_file] if run.weights_file else []}
    return {**files, **_chosen(run, wildcards)}


def _chosen(run: Run, wildcards: Any) -> dict[str, str]:
    """The values that the search of a tuned run has chosen."""
    return {"tuned": f"{_tuning(wildcards)}/best.json"} if run.search else {}


def _tuning(wildcards: Any) -> str:
    return TUNING.format(study=wildcards.study, dataset=wildcards.dataset, row=wildcards.method)


def model_files(run: Run, wildcards: Any) -> dict[str, Any]:
    """What a trained model needs to embed images: the packed images and what defines the model."""
    return {**packed_files(run, wildcards.dataset), "user_files": run.own_model_files, **_chosen(run, wildcards)}


def trial_files(run: Run, wildcards: Any) -> dict[str, Any]:
    """All inputs of a trial except index and split."""
    proposed = f"{_tuning(wildcards)}/round{run.search.round_of(int(wildcards.trial))}.json"
    return {**packed_files(run, wildcards.dataset), **given_files(run, wildcards), "tuned": proposed}


def round_files(run: Run, wildcards: Any, number: int) -> dict[str, Any]:
    """The file of a round and the records of its trials; empty before the first round."""
    if number < 0:
        return {}
    row = {"study": wildcards.study, "dataset": wildcards.dataset, "row": wildcards.method}
    return {
        "before": f"{_tuning(wildcards)}/round{number}.json",
        "records": [
            f"{TRIAL.format(**row, trial=trial)}/fold{fold}/run.json"
            for trial in run.search.trials_of(number)
            for fold in range(run.search.folds or run.members)
        ],
    }


def searches(study: Study, dataset: str, file: str, settings: int = 1) -> list[str]:
    """The path of ``file`` for the search of every row with at least this many free settings."""
    by_row = {row: study.run(dataset, row).search for row in study.rows}
    names = [row for row, search in by_row.items() if search and len(search.space) >= settings]
    return [f"{TUNING.format(study=study.name, dataset=dataset, row=row)}/{file}" for row in names]


def report_files(study: Study, dataset: str, needs: Iterable[str]) -> dict[str, list[str]]:
    """The files of each kind that a table or figure needs."""
    kinds: dict[str, Callable[[], list[str]]] = {
        "evaluations": lambda: evaluations(study, dataset),
        "histories": lambda: run_files(study, dataset, "history.csv"),
        "runs": lambda: run_files(study, dataset, "run.json"),
        "embeddings": lambda: run_files(study, dataset, EMBEDDINGS),
        "searches": lambda: searches(study, dataset, "best.json"),
        "trials": lambda: searches(study, dataset, "trials.csv"),
        "importances": lambda: searches(study, dataset, "importance.json", settings=2),
        "index": lambda: [f"<resources>/datasets/{dataset}/images.csv"],
        "split": lambda: [f"<results>/{study.name}/{dataset}/split.json"],
        "pack": lambda: [f"{_first_pack(study, dataset)}/{name}" for name in ("pack.json", "shapes.npy", "pixels.bin")],
    }
    return {kind: kinds[kind]() for kind in needs}


def _first_pack(study: Study, dataset: str) -> str:
    return packed(study.run(dataset, next(iter(study.rows))), dataset)


def existing(files: Mapping[str, list[str]], place: Callable[[str], str]) -> dict[str, list[str]]:
    """The files that exist; ``place`` replaces pathvars by folders."""
    places = {kind: [place(path) for path in paths] for kind, paths in files.items()}
    return {kind: [path for path in paths if Path(path).exists()] for kind, paths in places.items()}


def deleted(study: Study, dataset: str, place: Callable[[str], str], has_table: bool) -> Iterator[str]:
    """Deleted files of finished work. Snakemake does not miss them while the files made from them exist.

    A missing evaluation counts only if the table exists, because a table that is still to be made requests it anyway.
    """
    views = [f"{view}.json" for view in study.views]
    if set(study.views) & set(QUERY_VIEWS):
        views += ["evaluation.json", "calibration.json"]
    for row in study.rows.values():
        folds = range(study.run(dataset, row.name).members)
        for seed in row.seeds:
            experiment = EXPERIMENT.format(study=study.name, dataset=dataset, row=row.name, seed=seed)
            evaluated = _files_in(place(experiment))
            missing = [f"{experiment}/{view}" for view in views if view not in evaluated]
            if missing:
                yield from missing if has_table else ()
                continue
            for fold in folds:
                kept = _files_in(place(f"{experiment}/fold{fold}"))
                yield from (f"{experiment}/fold{fold}/{file}" for file in RUN_FILES if file not in kept)


def _files_in(folder: str) -> set[str]:
    """The names in a folder, empty if it does not exist; listing them takes one disk access."""
    try:
        return {path.name for path in Path(folder).iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def failures(study: Study, dataset: str, place: Callable[[str], str]) -> list[str]:
    """The files with the reasons (one line each) of failed jobs, next to their logs."""
    folder = Path(place(f"<logs>/{study.name}/{dataset}"))
    return sorted(str(path) for row in study.rows for path in folder.glob(f"{row}/**/*.failed"))


def stamped(files: dict[str, list[str]]) -> dict[str, Any]:
    """The files plus a stamp that changes whenever one of them changes."""
    stats = [(path, Path(path).stat()) for paths in files.values() for path in paths]
    return {**files, "stamp": fingerprint([[path, about.st_size, about.st_mtime_ns] for path, about in stats])}


def tried(study: Study, dataset_of: Callable[[str], Any], place: Callable[[str], str]) -> list[dict[str, Any]]:
    """What the target `try` needs to know about every row: its settings and where images may be found.

    ``dataset_of`` returns a dataset's description, ``place`` replaces pathvars by folders.
    """
    rows = []
    for name, runs in study.runs.items():
        dataset = dataset_of(name)
        source = {
            "classes": study.classes[name],
            "downloads": bool(dataset.files),
            "index": place(f"<resources>/datasets/{name}/images.csv"),
            "parser": dataset.parser,
            "reading": dataset.image_reading,
            "root": dataset.root,
            "scheme": study.split(name),
        }
        for row, run in runs.items():
            images = {"pack": place(packed(run, name)), "resize": run.settings["transforms"].get("resize")}
            metrics = [name for name in run.settings["evaluation"]["metrics"] if MODULE_ATTRIBUTE.fullmatch(name)]
            rows.append(
                {"name": row, "configuration": run.untuned.training, "own_metrics": metrics, "source": source | images}
            )
    return rows
