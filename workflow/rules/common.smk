# No rules here: configuration, the grid of runs, and helpers that the rules share.
import gc
import os
import re
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, os.path.join(workflow.basedir, "workflow", "scripts"))

from snakemake.cli import parse_args
from snakemake.logging import logger

from recheck import config as settings
from recheck import failures, targets
from recheck.data import description
from recheck.errors import UserError, nearest
from recheck.files import fingerprint
from recheck.names import RELEASED as RELEASED_SUFFIX
from recheck.resize import resize_slug
from recheck.study.schema import validate
from recheck.study.yaml import names_in
from recheck.training.gpus import visible_gpus

# A plan of thousands of jobs is made of millions of objects that stay: looking for garbage among them takes long.
gc.set_threshold(200_000, 100, 1000)

STUDY_FILES = names_in(["config/studies"])
DATASET_FILES = names_in(["config/datasets"])
TOY_FILES = names_in(["config/toys"])
METHOD = r"[a-z0-9][a-z0-9_-]*"
# rows whose models are converted, and those that are trained
RELEASED, TRAINED = rf"{METHOD}{RELEASED_SUFFIX}", rf"{METHOD}(?<!{RELEASED_SUFFIX})"
RESOURCES = workflow.pathvars.get("resources")
RESULTS = workflow.pathvars.get("results")
GPUS = [] if config.get("device") == "cpu" else visible_gpus()
GPU = bool(GPUS)
RUN_THREADS = 8 if GPU else 1

if not GPU:
    # A login node has no GPU, but its conda makes the environments (envs/train.yaml) of nodes that have.
    os.environ.setdefault("CONDA_OVERRIDE_CUDA", "13.0")
elif workflow.is_main_process and workflow.global_resources["_nodes"].value is None:
    # On this machine no more jobs at once than GPUs, unless `--resources gpu=…` says otherwise, and as many cores for
    # each as keep all of these busy.
    limit = workflow.global_resources.setdefault("gpu", len(GPUS)).value
    cores = workflow.global_resources["_cores"].value or RUN_THREADS
    RUN_THREADS = max(1, min(RUN_THREADS, cores // max(1, min(limit, len(GPUS)))))


wildcard_constraints:
    study="|".join(STUDY_FILES) or "none",
    dataset="|".join(DATASET_FILES) or "none",
    method=METHOD,
    seed=r"\d+",
    fold=r"\d+",
    figure="|".join(targets.FIGURES),
    resize=r"original|(?:shorter\d+|(?:exact|fit)\d+x\d+)(?:jpeg\d+)?",


def growing(amount):
    """Of a resource such as memory: more of it with each attempt, where a profile has `retries`."""
    return lambda wildcards, attempt: amount * attempt


def for_users(function):
    """What a user can mend is said in one sentence, and that is the end of it."""

    def wrapper(*args):
        try:
            return function(*args)
        except UserError as error:
            logger.error(f"Error: {error}")
            sys.exit(1)

    return wrapper


WEIGHTS = for_users(description.load_weights)(names_in(["config/weights"]))
WEIGHT_FILES = {entry["file"]["path"]: entry for entry in WEIGHTS.values()}

# Every study and its variants (<study>_published, <study>_so_far), which only the rules of report.smk know.
TARGETS = for_users(targets.targets)(STUDY_FILES)


def report_failures(logs):
    """Say at the end what failed for good; `logs` are Snakemake's own, or one of them."""
    texts = [Path(path).read_text(encoding="utf-8") for path in ([logs] if isinstance(logs, str) else logs)]
    if summary := failures.report("\n".join(texts)):
        logger.error(summary)


@cache
@for_users
def study_of(name):
    """A study or one of its variants."""
    base, variant = TARGETS.get(name, (name, None))
    if variant:
        return targets.as_variant(study_of(base), variant, published_of(base))
    study = settings.load_study(name, STUDY_FILES, config.get("fidelity"))
    for key in ("seeds", "methods"):
        study = settings.restrict(study, key, config.get(key))
    for dataset in study["datasets"]:
        dataset_of(dataset, STUDY_FILES[name])
    return study


@cache
@for_users
def published_of(target):
    """The documents a study is compared with; none if it names no file."""
    study = study_of(TARGETS[target][0])
    if not study.get("published"):
        return []
    path = Path(workflow.basedir, "resources", "published", study["published"])
    return targets.for_methods(settings.load_published(path), study)


@cache
@for_users
def dataset_of(name, source="config"):
    dataset = description.load_dataset(name, DATASET_FILES, source)
    return description.with_distribution(dataset, [drop_folder(name), downloads_folder(name)])


def drop_folder(name):
    """Where users put files that they have themselves: of a dataset, of `weights`, of `released` checkpoints."""
    return f"{RESOURCES}/drop/{name}"


def downloads_folder(dataset):
    return f"{RESOURCES}/datasets/{dataset}/downloads"


@cache
@for_users
def resolved(study, dataset, method):
    found = settings.resolve(study_of(study), dataset, method)
    source = f"{STUDY_FILES.get(study, study)}, method '{method}'"
    return description.with_weights(found, WEIGHTS, f"{RESOURCES}/weights", source)


def run_of(wildcards):
    return resolved(wildcards.study, wildcards.dataset, wildcards.method)


@for_users
def check_request():
    """Look at the configuration and the targets before anything is built on them."""
    if isinstance(config.get("seeds"), list):
        # of `--config seeds=[0,1]` Snakemake makes text
        config["seeds"] = [int(seed) if str(seed).isdecimal() else seed for seed in config["seeds"]]
    validate(config, "config", "config/config.yaml (or --config)")
    for name in STUDY_FILES:
        if not name.isidentifier() or name in RESERVED:
            raise UserError(
                f"{STUDY_FILES[name]}: a study's name is a target, so it must be a plain word other than {RESERVED}."
            )
    requested = requested_targets()
    for target in requested - set(RESERVED) - set(TARGETS):
        study = target.removesuffix(f"_{targets.PUBLISHED}")
        if study != target and study in STUDY_FILES:
            study_of(study)  # says what is wrong with a file that can't be read
            raise UserError(f"{STUDY_FILES[study]} names no 'published' values, so there are none to show.")
        if target.isidentifier() and not os.path.exists(target):
            raise UserError(
                f"There is no study '{target}'; {nearest(target, [*TARGETS, *TOY_FILES])} (config/studies/*.yaml)."
            )
    for name in (requested & set(TARGETS)) or {config["study"]}:
        study_of(name)
    for name in config.get("datasets") or []:
        dataset_of(name, "config 'datasets'")
    for key, folder in workflow.pathvars.items.items():
        check_writable(key, folder)


RESERVED = (
    *TOY_FILES,
    "all",
    "data",
    "fetch",
    "fetch_weights",
    "fetch_released",
    "verify",
    "extract",
    "index",
    "pack",
    "split",
    "train",
    "convert",
    "embed",
    "evaluate",
    "evaluate_epochs",
    "calibrate",
    "table",
    "figure",
    "page",
    "toy",
    "toy_figure",
    "toy_page",
    "state",
)


def requested_targets():
    """The targets on the command line; Snakemake itself would only say that there is no rule for a misspelt one."""
    if workflow.exec_mode.name != "DEFAULT" or not Path(sys.argv[0]).name.startswith("snakemake"):
        return set()
    return set(parse_args(sys.argv[1:])[1].targets)


def check_writable(key, folder):
    """A folder that can't be written is said now, not after an hour."""
    existing = next(
        path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists()
    )
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise UserError(
            f"pathvars.{key}: {existing} is read-only or not a folder; make it writable or choose another, "
            f"e.g. --config 'pathvars={{{key}: elsewhere}}'."
        )


check_request()


# The grid of runs


def runs(study, dataset, pattern):
    """The pattern for every method, seed and fold of a study on a dataset."""
    return [
        path
        for method in study_of(study)["methods"]
        for seed in settings.seeds_of(study_of(study), method)
        for path in folds_of(study, dataset, method, seed, pattern)
    ]


def folds_of(study, dataset, method, seed, pattern):
    count = settings.folds_of(resolved(study, dataset, method))
    return [
        pattern.format(study=study, dataset=dataset, method=method, seed=seed, fold=fold)
        for fold in range(count)
    ]


def study_pages(target):
    """The page of a study or variant, and of the studies that are made with it, unless only some rows are wanted."""
    name, variant = TARGETS.get(target, (target, None))
    alone = variant is not None or config.get("methods") or name not in STUDY_FILES
    others = [] if alone else settings.included(name, STUDY_FILES)
    return [f"<results>/{name}/index.html" for name in (target, *others)]


def evaluations(study, dataset):
    return [
        f"<results>/{study}/{dataset}/{method}/seed{seed}/{view}.json"
        for method in study_of(study)["methods"]
        for seed in settings.seeds_of(study_of(study), method)
        for view in study_of(study)["views"]
    ]


# What the rules pass on: parts of the configuration, so that a change reruns what depends on it and nothing else


def packed(study, dataset, method):
    """The folder of packed images that a method is trained and evaluated on."""
    slug = resize_slug(resolved(study, dataset, method)["transforms"].get("resize"))
    return f"<resources>/datasets/{dataset}/packed/{slug}"


def packed_of(wildcards):
    return packed(wildcards.study, wildcards.dataset, wildcards.method)


def packed_files(wildcards):
    """In one function, because Snakemake takes longer to call one than it takes itself."""
    folder = packed_of(wildcards)
    return {"pack": f"{folder}/pack.json", "pixels": f"{folder}/pixels.bin"}


# Where a run keeps what it needs to continue: never a declared output, which Snakemake would delete.
STATE = f"{RESULTS}/state/{{study}}/{{dataset}}/{{method}}/seed{{seed}}/fold{{fold}}"


def training_of(wildcards):
    return settings.canonical(settings.training_part(run_of(wildcards)))


def embedding_of(wildcards):
    return settings.canonical(settings.embedding_part(run_of(wildcards)))


def weights_of(wildcards):
    """The file that a backbone starts from, if config/weights has it; its hash is a setting of the run."""
    backbone = run_of(wildcards)["model"]["backbone"]
    return backbone["weights"] if "sha256" in backbone else []


def own_of(wildcards):
    """A user's own files that a run is made with; those of config/weights are no user's."""
    own = own_files(wildcards.study, wildcards.dataset, wildcards.method)
    return [file for file in own if file != weights_of(wildcards)]


def given_files(wildcards):
    """What a run is made with besides its data."""
    return {"own": own_of(wildcards), "weights": weights_of(wildcards)}


@cache
def own_files(study, dataset, method):
    """Looked for once for all seeds and folds."""
    return settings.own_files(settings.training_part(resolved(study, dataset, method)))


def evaluation_of(wildcards):
    return settings.canonical(settings.evaluation_part(run_of(wildcards)))


# What the rules of data.smk ask for


def data_indices(wildcards):
    """What the target `data` makes: the index of every dataset, or of those that the config names."""
    return [
        f"<resources>/datasets/{dataset}/images.csv" for dataset in config.get("datasets") or DATASET_FILES
    ]


def dataset_files(wildcards):
    return [
        f"<resources>/datasets/{wildcards.dataset}/downloads/{entry['path']}"
        for entry in dataset_of(wildcards.dataset)["files"]
    ]


@for_users
def file_entry(wildcards):
    return description.file_of(dataset_of(wildcards.dataset), wildcards.file)


def known_of_files(wildcards):
    """What the files of a dataset are compared with."""
    keys = ("path", "sha256", "md5", "size")
    files = dataset_of(wildcards.dataset)["files"]
    return settings.canonical([{key: entry[key] for key in keys if key in entry} for entry in files])


def archives_of(dataset):
    """The files of a dataset that are unpacked."""
    keys = ("path", "extract", "unpacked_size")
    files = [entry for entry in dataset_of(dataset)["files"] if "extract" in entry]
    return settings.canonical([{key: entry[key] for key in keys if key in entry} for entry in files])


def archive_files(wildcards):
    return [
        f"<resources>/datasets/{wildcards.dataset}/downloads/{entry['path']}"
        for entry in archives_of(wildcards.dataset)
    ]


def extracted_of(wildcards):
    """A dataset without archives has nothing to unpack, and no job for it."""
    return (
        f"<resources>/datasets/{wildcards.dataset}/extracted.json" if archives_of(wildcards.dataset) else []
    )


def parser_settings(wildcards):
    dataset = dataset_of(wildcards.dataset)
    keys = ("name", "parser", "distribution", "root", "csv", "expected", "options")
    return settings.canonical({key: dataset[key] for key in keys if key in dataset})


def image_reading(wildcards):
    """What becomes of turned and transparent images: another choice packs again."""
    options = dataset_of(wildcards.dataset)["options"]
    return settings.canonical({key: options[key] for key in ("exif", "alpha") if key in options})


def image_root(dataset):
    return dataset_of(dataset).get("root", f"{RESOURCES}/datasets/{dataset}/images")


def parser_files(wildcards):
    """A user's own files that the index is made from, besides the images."""
    dataset = dataset_of(wildcards.dataset)
    return [*settings.own_files(dataset["parser"]), *([dataset["csv"]] if "csv" in dataset else [])]


@cache
def listing_of(dataset):
    """A user's images, so that added, removed or edited ones are noticed; nothing for datasets that are fetched."""
    if dataset_of(dataset)["files"]:
        return None
    return description.listing(image_root(dataset))


# What the rules of report.smk ask for


def needed(files):
    """What a job waits for: all that `files` lists for a study, nothing for its variants, which show what there is."""
    return lambda wildcards: {} if TARGETS[wildcards.study][1] else files(wildcards.study, wildcards)


def found(files):
    """What of it is there for <study>_so_far. None for a study itself, whose files are inputs.

    Not inputs, because Snakemake would make those, or make them again, and would not let two run at once. The stamp
    changes whenever a file does, so that the next call notices.
    """

    def look(wildcards):
        study, variant = TARGETS[wildcards.study]
        if variant is None:
            return None
        there = existing(files(study, wildcards)) if variant == targets.SO_FAR else {}
        stats = [(path, os.stat(path)) for paths in there.values() for path in paths]
        stamp = fingerprint([[path, about.st_size, about.st_mtime_ns] for path, about in stats])
        return {**there, "stamp": stamp}

    return look


def existing(files):
    """The files that are there, by the same names."""
    places = {name: [workflow.pathvars.apply(path) for path in paths] for name, paths in files.items()}
    return {name: [path for path in paths if os.path.exists(path)] for name, paths in places.items()}


def table_files(study, wildcards):
    return {
        "evaluations": evaluations(study, wildcards.dataset),
        "index": [f"<resources>/datasets/{wildcards.dataset}/images.csv"],
        "split": [f"<results>/{study}/{wildcards.dataset}/split.json"],
    }


def figure_files(study, wildcards):
    """Only what a figure shows, so that it is made as soon as that is there."""
    dataset, figure = wildcards.dataset, wildcards.figure
    if figure == "generalisation":
        return {"histories": run_files(study, dataset, "history.csv")}
    files = {"evaluations": evaluations(study, dataset)}
    if figure == "curves":
        files["histories"] = run_files(study, dataset, "history.csv")
        files["runs"] = run_files(study, dataset, "run.json")
    if figure in ("distances", "map", "gallery", *targets.QUERY_FIGURES):
        files["embeddings"] = shown_embeddings(study, dataset)
        files["index"] = [f"<resources>/datasets/{dataset}/images.csv"]
        files["split"] = [f"<results>/{study}/{dataset}/split.json"]
    if figure == "costs":
        files["index"] = [f"<resources>/datasets/{dataset}/images.csv"]
        files["split"] = [f"<results>/{study}/{dataset}/split.json"]
    if figure in ("map", "gallery"):
        folder = packed(study, dataset, next(iter(study_of(study)["methods"])))
        files["pack"] = [f"{folder}/{name}" for name in ("pack.json", "shapes.npy", "pixels.bin")]
    return files


def page_files(study, wildcards):
    datasets = study_of(study)["datasets"]
    return {"runs": [path for dataset in datasets for path in run_files(study, dataset, "run.json")]}


def run_files(study, dataset, file):
    """The named file of every run of a study on a dataset."""
    pattern = f"<results>/{{study}}/{{dataset}}/{{method}}/seed{{seed}}/fold{{fold}}/{file}"
    return runs(study, dataset, pattern)


def shown_embeddings(study, dataset):
    """Maps and galleries show the first seed."""
    return [
        path
        for method in study_of(study)["methods"]
        for path in folds_of(
            study,
            dataset,
            method,
            study_of(study)["seeds"][0],
            "<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/embeddings.safetensors",
        )
    ]


def figures_of(target, dataset):
    """The figures that a target has of a dataset: those that can be drawn from what is, or will be, there."""
    study, variant = TARGETS[target]
    measured = study_of(study)["methods"]
    if variant == targets.SO_FAR:
        there = existing({"evaluations": evaluations(study, dataset)})["evaluations"]
        measured = {Path(path).parts[-3] for path in there}
    return targets.figures_of(study_of(target), dataset, measured, published_of(study))


def study_figures(kind):
    return lambda wildcards: [
        f"<results>/{wildcards.study}/figures/{dataset}_{figure}.{kind}"
        for dataset in study_of(wildcards.study)["datasets"]
        for figure in figures_of(wildcards.study, dataset)
    ]


def study_tables(wildcards):
    return expand(
        "<results>/{study}/{dataset}/table.{kind}",
        study=wildcards.study,
        dataset=study_of(wildcards.study)["datasets"],
        kind=("md", "csv", "tex"),
    )


# What the rules of toy.smk ask for

TOY_NAMES = "|".join(TOY_FILES) or "none"
TOY_PICTURES = ("data", "losses", "embeddings")


@cache
@for_users
def toy_of(name):
    return settings.load_toy(TOY_FILES[name])


@for_users
def toy_settings(wildcards):
    """What a run is made of; a label is not among it."""
    toy = toy_of(wildcards.toy)
    if wildcards.experiment not in toy["experiments"]:
        known = nearest(wildcards.experiment, toy["experiments"])
        raise UserError(
            f"{TOY_FILES[wildcards.toy]}: there is no experiment '{wildcards.experiment}'; {known}."
        )
    own = {key: value for key, value in toy["experiments"][wildcards.experiment].items() if key != "label"}
    return settings.canonical({"experiment": own, **{key: toy[key] for key in ("seed", "steps", "points")}})


def toy_runs(wildcards):
    return [
        f"<results>/{wildcards.toy}/{experiment}.npz" for experiment in toy_of(wildcards.toy)["experiments"]
    ]


def toy_labels(wildcards):
    return [experiment["label"] for experiment in toy_of(wildcards.toy)["experiments"].values()]
