# Constants and functions for the rules. The package workflow/scripts/recheck/study reads and resolves studies.
# Other workflows may import this one (docs/module.md): `workflow.basedir` and the working directory are theirs.
import contextlib
import gc
import os
import re
import sys
import tarfile
import tempfile
import time
from functools import cache, partial, wraps
from pathlib import Path

from snakemake.sourcecache import HostingProviderFile


def checked_out(source):
    """A folder with all files of a hosted repository (`github(…)`); Snakemake fetches only those that rules name."""
    repository = source.hosted_repo.repo
    commit = repository.commit(source.ref).hexsha
    folder = Path(".snakemake", "recheck", commit).absolute()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            archive, files = Path(temporary, "files.tar"), Path(temporary, "files")
            repository.git.archive(commit, format="tar", output=str(archive))
            with tarfile.open(archive) as members:
                members.extractall(files, filter="data")
            with contextlib.suppress(OSError):  # another Snakemake was faster
                files.rename(folder)
    return folder


HOSTED = isinstance(workflow.included_stack[-1], HostingProviderFile)
RECHECK = (
    checked_out(workflow.included_stack[-1])
    if HOSTED
    else Path(os.path.abspath(workflow.snakefile)).parents[2]
)
sys.path.insert(0, str(RECHECK / "workflow" / "scripts"))
if HOSTED:  # jobs run copies of our scripts, away from the package
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [sys.path[0], os.getenv("PYTHONPATH")])))

from snakemake.cli import parse_args
from snakemake.jobs import GroupJob, Job
from snakemake.logging import logger
from snakemake.scheduling.job_scheduler import JobScheduler

from recheck import failures, reevaluation, retries, terminal
from recheck.cost import limits
from recheck.cost.estimate import packed_bytes
from recheck.cost.gpus import load_gpu
from recheck.cost.plan import finished_files, plan, sizes_of
from recheck.data import description
from recheck.doctor.profile import submitted
from recheck.errors import UserError
from recheck.files import check_writable
from recheck.names import EPOCH_VIEWS, FOLD_VIEWS, LISTS, MODEL_VIEWS, RELEASED
from recheck.report.figures import all_figures, source_of, study_figures
from recheck.resize import PLAIN_GB
from recheck.study import grid
from recheck.study.catalogue import CHOSEN, Catalogue, unknown_target
from recheck.study.compose import Files
from recheck.study.doubts import Reductions, doubtful_settings, doubtful_splits
from recheck.study.model import ALL, COST
from recheck.study.schema import validate
from recheck.study.toy import PICTURES, load_toy
from recheck.study.yaml import first_file, names_in, read_yaml
from recheck.training.gpus import visible_gpus
from recheck.training.usable import NO_GPU, NO_MPS

# Container images often set this variable. Without bytecode files every job would compile all of its imports again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A plan of thousands of jobs holds millions of objects, and scanning them for garbage is slow.
gc.set_threshold(200_000, 100, 1000)


def for_users(function):
    """Report a UserError as one line and exit."""

    @wraps(function)
    def wrapper(*args):
        try:
            return function(*args)
        except UserError as error:
            logger.error(f"Error: {error}")
            sys.exit(1)

    return wrapper


DEFAULT = workflow.default_target is None
IMPORTED = not workflow.modifier.is_main_snakefile()
# Functions of the rules run when `workflow.pathvars` belongs to the importing workflow.
PATHVARS = workflow.pathvars
# Files of the user come before ours. Paths stay relative in a clone, because they are `params` of jobs.
FOLDERS = [Path()] if RECHECK.samefile(Path.cwd()) else [Path(), RECHECK]
STUDIES, METHODS, DATASETS, WEIGHTS, TOYS = (
    names_in([folder / "config" / kind for folder in FOLDERS])
    for kind in ("studies", "methods", "datasets", "weights", "toys")
)
if IMPORTED:
    # The importing workflow states only what differs from our config. Snakemake has read its pathvars.
    config = {**read_yaml(RECHECK / "config" / "config.yaml"), **config}
    known = ("resources", "results", "logs", "scratch")
    config["pathvars"] = {name: PATHVARS.items[name] for name in known if name in PATHVARS.items}
# A user's figures (`module:Class`) live in the working directory, beside the Snakefile.
sys.path.append(os.getcwd())
OWN_FIGURES = config.get("figures") if isinstance(config.get("figures"), list) else []
STUDY_FIGURES = for_users(study_figures)(tuple(OWN_FIGURES))
FIGURES = all_figures(tuple(OWN_FIGURES)) | STUDY_FIGURES
RESOURCES, RESULTS, LOGS = (PATHVARS.get(name) for name in ("resources", "results", "logs"))
EXPERIMENT = "{study}/{dataset}/{method}/seed{seed}"
RUN = f"{EXPERIMENT}/fold{{fold}}"
# State that a run resumes from. It is not a declared output, because Snakemake would delete it.
STATE = f"{RESULTS}/state/{RUN}"
SEARCH = "{study}/{dataset}/{method}/tuning"
TRIAL = "{study}/{dataset}/{method}/trial{trial}/fold{fold}"
ROW = r"[a-z0-9][a-z0-9._-]*"
SEARCH_NEEDS = ("quoted_searches", "searches", "trials")
TABLE_NEEDS = ("evaluations", "index", "runs", "searches", "split")
PAGE_NEEDS = ("evaluations", "runs")
GALLERY_NEEDS = ("embeddings", "evaluations", "index", "pack", "split")

ON_MPS = config.get("device") == "mps"
GPUS = [] if config.get("device") == "cpu" else ["mps"] if ON_MPS else visible_gpus()
# Threads of a run on a machine with enough cores; `RUN_THREADS` may get smaller below. No loader processes with MPS:
# on a Mac, a process that uses the GPU cannot fork safely.
WANTED_THREADS = RUN_THREADS = 8 if GPUS and not ON_MPS else 1
# older copies of config.yaml lack these
config.setdefault("gpu_share", 1)
config.setdefault("container", "recheck.sif")

if ON_MPS:
    # PyTorch reads this variable when it is imported: operators without an MPS version run on the CPU.
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
elif not GPUS:
    # A login node has no GPU, but conda on it must create environments (envs/train.yaml) for nodes with GPUs.
    os.environ.setdefault("CONDA_OVERRIDE_CUDA", "13.0")


@for_users
def check_prefix():
    """Refuse `prefix` of an importing workflow: the paths of states and of existing results would not have it."""
    for folder in (RESOURCES, RESULTS, LOGS):
        if workflow.modifier.modify_path(f"{folder}/x") != f"{folder}/x":
            raise UserError(
                "The module statement that imports Recheck has 'prefix' or 'replace_prefix', which Recheck does not "
                "support. Use 'pathvars' instead, for results, resources and logs."
            )


check_prefix()


def growing(amount):
    """A resource such as memory that grows with each attempt, for profiles with `retries`."""
    return lambda wildcards, attempt: amount * attempt


@for_users
def read_configuration():
    """Check the config; return the catalogue of all studies and the weights files by path."""
    if isinstance(config.get("seeds"), list):
        # Snakemake turns the numbers of `--config seeds=[0,1]` into text.
        config["seeds"] = [int(seed) if str(seed).isdecimal() else seed for seed in config["seeds"]]
    if isinstance(config.get("tuning"), dict):
        numbers = config["tuning"].items()
        config["tuning"] = {key: int(value) if str(value).isdecimal() else value for key, value in numbers}
    for key in ("deterministic", "reuse"):
        # Snakemake turns `--config reuse=false` into text.
        if config.get(key) in ("true", "false"):
            config[key] = config[key] == "true"
    validate(config, "config", "config/config.yaml (or --config)")
    weights = description.load_weights(WEIGHTS)
    catalogue = Catalogue(
        Files(STUDIES, METHODS),
        [Path(os.path.abspath(folder), "resources", "published") for folder in FOLDERS],
        config,
        lambda settings, source: description.with_weights(settings, weights, f"{RESOURCES}/weights", source),
        lambda name, source: dataset_of(name, source),
        PATHVARS.apply,
    )
    return catalogue, {file.entry["path"]: file for file in weights.values()}


@cache
@for_users
def dataset_of(name, source="config"):
    return description.load_dataset(name, DATASETS, source, RESOURCES)


CATALOGUE, WEIGHT_FILES = read_configuration()

if GPUS and workflow.is_main_process and workflow.global_resources["_nodes"].value is None:
    # On one machine, run at most one job per place on a GPU unless `--resources gpu=…` is given, and share the cores among
    # them.
    places = len(GPUS) * config["gpu_share"]
    limit = workflow.global_resources.setdefault("gpu", places).value
    cores = workflow.global_resources["_cores"].value or RUN_THREADS
    RUN_THREADS = max(1, min(RUN_THREADS, cores // max(1, min(limit, places))))

TARGETS, REPORTS = CATALOGUE.targets, CATALOGUE.reports
SITE_REPORTS = CATALOGUE.site_reports()
COST_REPORTS = [report for report, (target, _) in REPORTS.items() if TARGETS[target][1] == COST]
study_of, shown_study, facts_of, all_facts_of, page_facts, figures_of, search_tables, needed, existing = (
    for_users(getattr(CATALOGUE, name))
    for name in (
        "study",
        "shown",
        "facts",
        "all_facts",
        "page_facts",
        "figures",
        "search_tables",
        "needed",
        "existing",
    )
)
evaluation_files = for_users(grid.evaluation_files)
toy_of = cache(for_users(lambda name: load_toy(TOYS[name])))


# Only `--sdm conda apptainer` uses it (docs/containers.md).
containerized: config["container"]


wildcard_constraints:
    study="|".join(map(re.escape, CATALOGUE.run_folders)) or "none",
    dataset="|".join(DATASETS) or "none",
    method=ROW,
    seed=r"\d+",
    fold=r"\d+",
    trial=r"\d+",
    round=r"\d+",
    figure="|".join(FIGURES),
    resize=r"original|(?:shorter\d+|(?:exact|fit)\d+x\d+)(?:jpeg\d+)?",


@for_users
def target_files(name, wildcards):
    """The pages of a target, and files of its finished work that were deleted."""
    return CATALOGUE.pages(name) + CATALOGUE.deleted(name, FIGURES)


site_studies = for_users(lambda: CATALOGUE.site(TABLE_NEEDS))
site_galleries = for_users(CATALOGUE.site_galleries)
run_folder = for_users(lambda report: CATALOGUE.reported(report).name)


@for_users
def tried_rows(name):
    """The rows of a study that the target `try` tries, with their settings and the places of their images."""
    return grid.tried(CATALOGUE.reported(CATALOGUE.report(name)), dataset_of, PATHVARS.apply)


@for_users
def first_trained_row(name):
    """A row of a study that is trained, as `tried_rows` describes it."""
    for row in tried_rows(name):
        if row["configuration"]["schedule"]["epochs"]:
            return row
    raise UserError(
        f"Study '{name}' trains nothing, so the target 'doctor' cannot try a training step. Choose another "
        "study, for example with `--config study=quickstart`."
    )


@for_users
def run_of(wildcards):
    """The run that a job belongs to, from the study, dataset and method in its paths."""
    return study_of(wildcards.study).run(wildcards.dataset, wildcards.method)


gpu_of_config = cache(
    for_users(
        lambda: load_gpu(
            config.get("gpu"), first_file(FOLDERS, "config/gpus.yaml"), config["gpu_share"], config["device"]
        )
    )
)


@for_users
def cost_plan(report):
    """What the cost report of a study is made from."""
    study = CATALOGUE.reported(report)
    also = CATALOGUE.also_built(CATALOGUE.targets[CATALOGUE.reports[report][0]][0])
    plain_limit = config.get("plain_pack_gb", PLAIN_GB) * 1e9
    only = config.get("datasets")
    return plan(study, dataset_of, PATHVARS.apply, gpu_of_config(), plain_limit, only, also)


@for_users
def finished_runs(report):
    """The files of a study's finished runs, for its cost report."""
    study = CATALOGUE.reported(report)
    return finished_files(study, study.datasets, PATHVARS.apply)


@cache
def limits_of(study, dataset, method):
    """Time and memory limits of a row's jobs, the same for all seeds and folds."""
    study = study_of(study)
    run, images = study.run(dataset, method), dataset_of(dataset).description.get("expected", {}).get(
        "images"
    )
    pack = packed_bytes(run.settings["transforms"].get("resize"), images)
    return limits.limits(run, sizes_of(study, dataset_of, dataset), gpu_of_config(), pack)


def longest_limits(study):
    """Rule → minutes of its longest first attempt in a study."""
    rows = [limits_of(study, dataset, row) for dataset, runs in study_of(study).runs.items() for row in runs]
    train, embed = (max(getattr(row, f"{kind}_minutes") for row in rows) for kind in ("train", "embed"))
    return {"train": train, "trial": train, "embed": embed}


def row_limit(name, longest=None):
    """A resource of a run's jobs that grows with each attempt, up to ``longest``."""

    def of_row(wildcards, attempt):
        first = getattr(limits_of(wildcards.study, wildcards.dataset, wildcards.method), name)
        return min(first * attempt, longest) if longest else first * attempt

    return of_row


@for_users
def check_name(name):
    """Refuse a study whose name cannot be a target and a folder in results."""
    taken = {rule.name for rule in workflow.modifier.rules}
    if not name.isidentifier() or workflow.modifier.modify_rulename(name) in taken or name == "state":
        raise UserError(
            f"{STUDIES.get(name, name)}: a target cannot be named '{name}'. Its name must consist of letters, digits "
            "and '_', must not begin with a digit, and must not be 'state' or the name of a rule. Rename the file."
        )


def requested_targets():
    """The targets on Snakemake's command line; empty inside a job."""
    if workflow.exec_mode.name != "DEFAULT" or not Path(sys.argv[0]).name.startswith("snakemake"):
        return set()
    return set(parse_args(sys.argv[1:])[1].targets)


def chosen_values():
    """What the searches of the requested studies chose, as YAML to paste."""
    requested = requested_targets() or {config["study"]}
    reports = [CATALOGUE.report(name) for name in TARGETS if name in requested]
    paths = [Path(PATHVARS.apply(path)) for path in CATALOGUE.chosen(reports)]
    paths += [Path(name) for name in sorted(requested) if Path(name).name == CHOSEN]
    return [f"{path}:\n\n{path.read_text(encoding='utf-8')}" for path in paths if path.exists()]


def check_chosen_datasets(study):
    """Refuse config 'datasets' if the study has none of them."""
    chosen = config.get("datasets")
    if chosen and not set(chosen) & set(study.datasets):
        raise UserError(
            f"Config 'datasets' is [{', '.join(chosen)}], but study '{study.name}' has none of them. "
            f"Choose among: {', '.join(study.datasets)}."
        )


@for_users
def check_request():
    """Check the requested targets, the datasets and the folders before Snakemake plans any job."""
    requested = requested_targets()
    for target in () if IMPORTED else requested:
        if target.isidentifier() and not workflow.is_rule(target) and not os.path.exists(target):
            raise unknown_target(target, CATALOGUE, TOYS)
    # The importing workflow may have renamed the targets.
    names = [name for name in TARGETS if workflow.modifier.modify_rulename(name) in requested]
    for name in names or [config["study"]]:
        if name not in TARGETS:
            CATALOGUE.study(name)
            continue
        page = CATALOGUE.report(name)
        CATALOGUE.shown(page)
        if workflow.exec_mode.name != "DEFAULT":
            continue
        report_file = f"{RESULTS}/{page}/{'cost.md' if TARGETS[name][1] == COST else 'index.html'}"
        if page != name:
            logger.info(
                f"'{name}' is restricted by {CATALOGUE.selection.options.strip()}, so its report is {report_file}. The "
                "report without this option is not changed."
            )
        elif TARGETS[name][1] == COST:
            logger.info(f"The report of '{name}' is {report_file}.")
        if TARGETS[name][1] == COST:
            check_chosen_datasets(CATALOGUE.reported(page))
        if TARGETS[name][1] == ALL:
            # Cluster jobs see other GPUs than this machine does.
            if config["device"] == "cuda" and not GPUS and workflow.global_resources["_nodes"].value is None:
                raise UserError(NO_GPU)
            if ON_MPS and sys.platform != "darwin":
                raise UserError(NO_MPS)
            study = CATALOGUE.reported(page)
            for sentence in (*doubtful_settings(study), *doubtful_splits(study, PATHVARS.apply)):
                logger.warning(f"Warning: {sentence}")
            if config.get("device") != "cpu":
                images = cache(lambda dataset, study=study: sizes_of(study, dataset_of, dataset))
                for sentence in limits.too_large(study, images, gpu_of_config()):
                    logger.warning(f"Warning: {sentence}")
    for name in config.get("datasets") or []:
        dataset_of(name, "Config 'datasets'")
    for key, folder in PATHVARS.items.items():
        if key == "scratch":  # a disk of the nodes, which this machine may lack
            continue
        check_writable(f"pathvars.{key}", folder, f"--config 'pathvars={{{key}: elsewhere}}'")
