"""Studies and datasets as their YAML files say them: read, checked, and resolved into the runs they ask for.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

import ast
import copy
import importlib.util
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from referencing import Registry, Resource

from recheck.data.splits import SCHEMES, check_scheme
from recheck.errors import UserError, nearest
from recheck.evaluation.metrics import CLUSTERING, check_names
from recheck.evaluation.query_sets import check_query_metrics
from recheck.evaluation.views import BEST_ON_TEST, LAST_EPOCH, QUERY_VIEWS
from recheck.files import fingerprint
from recheck.shorthand import merge, with_base, with_borrowed_rows, with_fidelity, with_sweep

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
# What a run is trained with. A change of any of these is another run; a change of anything else is not.
TRAINING_KEYS = (
    "model",
    "transforms",
    "sampler",
    "relabel",
    "forward",
    "loss",
    "miner",
    "optimisers",
    "lr_schedule",
    "schedule",
    "selection",
    "precision",
)
# What a run is evaluated with that others have trained.
RELEASED_KEYS = ("model", "transforms", "sampler", "precision")
# The rows of released checkpoints are known by their names, so that the rule that makes a row is too.
RELEASED = "_released"
WEIGHTS_SUFFIXES = (".safetensors", ".pth", ".pt")
MOST_VALUES, MOST_LEVELS = 100_000, 40
# What a study says of a row or a dataset that is no setting of its runs.
NOT_SETTINGS = ("label", "published_as", "datasets", "classes", "tuned_as", "seeds")


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML mapping; duplicate keys are refused, because YAML would silently keep the last."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    return copy.deepcopy(_parsed(path, text))


@cache
def _parsed(path: str | Path, text: str) -> dict[str, Any]:
    """Once for each file: studies are built on one another, and every job of the workflow reads them all."""
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{where}: not valid YAML ({getattr(error, 'problem', None) or error}).") from None
    except RecursionError:
        raise UserError(f"{path}: it is nested too deeply.") from None
    except (ValueError, OverflowError) as error:  # of a date or a number that Python does not have
        raise UserError(f"{path}: it has a value that cannot be read ({error}).") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a mapping of keys to values, found {_described(value)}.")
    _check_plain(value, path)
    return value


def _check_plain(value: dict[str, Any], path: str | Path) -> None:
    """Refuse what YAML can say and nothing here can use: NaN and infinity, dates, sets, a mapping that holds itself.

    Aliases may stand for more values than any memory has, so they are counted, and how deep they are nested.
    """
    waiting, count = [(value, "")], 0
    while waiting:
        part, key = waiting.pop()
        count += 1
        if count > MOST_VALUES or key.count(".") > MOST_LEVELS:
            raise UserError(f"{path}: it has too many values, or is nested too deeply, at '{key[:60]}'.")
        if isinstance(part, dict):
            for name in part:
                if not isinstance(name, str):
                    raise UserError(f"{path}: a key in '{key}' is {_described(name)}; keys are words.")
            waiting += [(own, f"{key}.{name}".lstrip(".")) for name, own in part.items()]
        elif isinstance(part, list):
            waiting += [(own, f"{key}.{number}") for number, own in enumerate(part)]
        elif isinstance(part, float) and not math.isfinite(part):
            raise UserError(f"{path}: '{key}' is {part}, which is no finite number.")
        elif part is not None and not isinstance(part, (str, int, float)):
            raise UserError(f"{path}: '{key}' is {_described(part)}; put it in quotes if it is meant as text.")


# libyaml's where it is there: every `snakemake` call reads all studies, and Python's own is ten times slower.
class _UniqueKeyLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = _word(self.construct_object(key_node, deep=True))
            if isinstance(key, (str, int, float)) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' appears twice", key_node.start_mark)
            seen.add(key if isinstance(key, (str, int, float)) else id(key_node))
        return {_word(key): value for key, value in super().construct_mapping(node, deep).items()}


def _word(key: Any) -> Any:
    """A number is a name too (the values of a sweep): keys of two types can't be ordered."""
    return str(key) if type(key) is int else key


# YAML 1.1 reads 1e-4 as text; scientists write it, and mean a number.
_UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def validate(value: dict[str, Any], schema_name: str, source: str | Path) -> None:
    """Check against workflow/schemas/<schema_name>.schema.yaml; the first fault becomes one sentence."""
    schema = _schema(f"{schema_name}.schema.yaml").contents
    errors = list(Draft202012Validator(schema, registry=Registry(retrieve=_schema)).iter_errors(value))
    if errors:
        raise UserError(f"{source}: {_sentence(max(errors, key=_telling))}")


@cache
def _schema(file: str) -> Resource:
    return Resource.from_contents(read_yaml(SCHEMAS / file))


def _telling(error: ValidationError) -> tuple:
    """A misspelt key explains more than the key that is missing because of it."""
    return error.validator == "additionalProperties", relevance(error)


def _sentence(error: ValidationError) -> str:
    while error.context:
        error = max(error.context, key=_telling)
    key = ".".join(str(part) for part in error.absolute_path)
    inside = f" in '{key}'" if key else ""
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        unknown = next(name for name in error.instance if name not in known)
        return f"unknown key '{unknown}'{inside}; {nearest(str(unknown), known)}."
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"key '{missing}' is missing{inside}."
    if error.validator == "enum":
        return (
            f"'{key}' is {_described(error.instance)}; {nearest(str(error.instance), map(str, error.validator_value))}."
        )
    if error.validator == "type":
        wanted = error.validator_value if isinstance(error.validator_value, str) else " or ".join(error.validator_value)
        return f"'{key}' must be of type {wanted}, found {_described(error.instance)}."
    if error.validator == "propertyNames" or "propertyNames" in error.absolute_schema_path:
        return f"the name '{error.instance}'{inside} may only have lower-case letters, digits, '_' and '-'."
    return f"'{key}': {error.message}."


def _described(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return kinds.get(type(value), f"{type(value).__name__} '{value}'")


def names_in(folders: Iterable[str | Path]) -> dict[str, Path]:
    """The YAML files of the folders by their name; an earlier folder wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def load_dataset(name: str, paths: dict[str, Path], source: str | Path) -> dict[str, Any]:
    if name not in paths:
        raise UserError(f"{source}: there is no dataset '{name}'; {nearest(name, paths)} (config/datasets/*.yaml).")
    dataset = read_yaml(paths[name])
    validate(dataset, "dataset", paths[name])
    _check_files(dataset, paths[name])
    return {"name": name, "files": [], "options": {}, **dataset}


def _check_files(dataset: dict[str, Any], source: str | Path) -> None:
    """What the schema can't say of a dataset's files in a sentence."""
    forms = dataset.get("distributions", {})
    chosen = dataset.get("distribution")
    if chosen is not None and chosen not in forms:
        raise UserError(f"{source}: there is no distribution '{chosen}'; {nearest(chosen, forms)}.")
    common = dataset.get("files", [])
    for files in [common, *(common + form["files"] for form in forms.values())]:
        paths = [entry["path"] for entry in files]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise UserError(f"{source}: the file '{twice[0]}' is there twice.")
    entries = [*common, *(entry for form in forms.values() for entry in form["files"])]
    for entry in entries:
        if not any(entry.get(key) for key in ("size", "sha256", "md5", "unverified")):
            raise UserError(
                f"{source}: '{entry['path']}' has no 'sha256', 'md5' or 'size' to be checked by; "
                "give one, or 'unverified: true' if none is known."
            )
        if entry != next(other for other in entries if other["path"] == entry["path"]):
            raise UserError(f"{source}: '{entry['path']}' is not the same in all distributions.")


def with_distribution(dataset: dict[str, Any], folders: Iterable[str | Path]) -> dict[str, Any]:
    """The dataset with the files of one of its distributions.

    That is the one its YAML names, else the one of which most is in the folders already (by name, or by size where
    that is known: a user's copy may have another name), else the first.
    """
    forms = dataset.get("distributions")
    if not forms:
        return dataset
    name = dataset.get("distribution") or max(forms, key=lambda form: _share(forms[form]["files"], folders))
    return {**dataset, "distribution": name, "files": [*dataset["files"], *forms[name]["files"]]}


def _share(files: list[dict[str, Any]], folders: Iterable[str | Path]) -> float:
    """Which part of the files is there."""
    found = [path for folder in folders for path in Path(folder).rglob("[!.]*") if path.is_file()]
    names, sizes = {path.name for path in found}, {path.stat().st_size for path in found}
    there = [Path(entry["path"]).name in names or entry.get("size") in sizes for entry in files]
    return sum(there) / max(len(there), 1)


def listing(root: str | Path) -> str:
    """A hash of the files below a folder by name, size and time; hidden ones (.DS_Store) do not count."""
    files = sorted(path for path in Path(root).rglob("[!.]*") if path.is_file())
    stats = [(path.relative_to(root).as_posix(), path.stat()) for path in files]
    return fingerprint([[name, about.st_size, about.st_mtime_ns] for name, about in stats])


def file_of(dataset: dict[str, Any], path: str) -> dict[str, Any]:
    """The entry with that path, of the dataset's ``files`` or of any of its distributions."""
    forms = dataset.get("distributions", {}).values()
    files = {entry["path"]: entry for part in (dataset, *forms) for entry in part.get("files", [])}
    if path not in files:
        raise UserError(f"There is no file '{path}'; {nearest(path, files)}.")
    return files[path]


def load_weights(paths: dict[str, Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """The files of config/weights by the backbone and the word that a study names them by."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths.values():
        own = read_yaml(path)
        validate(own, "weights", path)
        _check_files(own, path)
        key, file = (own["backbone"], own["weights"]), own["files"][0]
        if not file.get("sha256") or "extract" in file:
            raise UserError(
                f"{path}: '{file['path']}' needs a 'sha256' and no 'extract': runs are tied to its content."
            )
        if Path(file["path"]).suffix not in WEIGHTS_SUFFIXES:
            raise UserError(f"{path}: '{file['path']}' is none of {', '.join(WEIGHTS_SUFFIXES)}.")
        for other, known in found.items():
            if other == key or known["file"]["path"] == file["path"]:
                raise UserError(f"{path}: {known['yaml']} has the same backbone and weights, or the same file.")
        found[key] = {"file": file, "yaml": str(path)}
    return found


def with_weights(
    resolved: dict[str, Any], registry: dict[tuple[str, str], dict[str, Any]], folder: str, source: str
) -> dict[str, Any]:
    """The settings of a run with the file that its backbone's weights are in, and the file's hash.

    ``{name: bn_inception, weights: imagenet}`` becomes a path and a ``sha256``: another content is another run, another
    mirror is not. Weights without an entry (a user's file, a package's, timm's, none) stay as they are.
    """
    backbone = resolved["model"]["backbone"]
    name, weights = backbone["name"], backbone["weights"]
    known = [word for own, word in registry if own == name]
    if (name, weights) in registry:
        file = registry[name, weights]["file"]
        backbone = {**backbone, "weights": f"{folder}/{file['path']}", "sha256": file["sha256"]}
    elif known and weights != "none" and Path(weights).suffix not in WEIGHTS_SUFFIXES:
        raise UserError(
            f"{source}: backbone '{name}' has no weights '{weights}'; {nearest(weights, [*known, 'none'])} "
            f"(config/weights/*.yaml), or a file ({', '.join(WEIGHTS_SUFFIXES)})."
        )
    return {**resolved, "model": {**resolved["model"], "backbone": backbone}}


def load_study(name: str, paths: dict[str, Path], fidelity: str | None = None) -> dict[str, Any]:
    """A study, checked on its own: shape, spelling of metrics and of the library's class names.

    ``fidelity`` is chosen instead of the study's own, where it has any to choose from.
    """
    if name not in paths:
        raise UserError(f"There is no study '{name}'; {nearest(name, paths)} (config/studies/*.yaml).")
    path = paths[name]
    study = with_base(read_yaml(path), path, paths, read_yaml)
    if isinstance(study.get("methods"), dict):
        study = with_borrowed_rows(study, path, paths, read_yaml)
    validate(study, "study", path)
    study = with_sweep(with_fidelity(study, fidelity, path), path)
    if "sweep" in study or "fidelities" in study:
        validate(study, "study", path)  # once more: their changes may be anything until they are made
    for other in study.get("includes") or []:
        if other not in paths or other == name:
            raise UserError(f"{path}: 'includes' names no other study '{other}'; {nearest(other, paths)}.")
    study = {"name": name, "views": ["concatenated", "separated"], **study}
    study["datasets"] = {dataset: own or {} for dataset, own in study["datasets"].items()}
    if study.get("compare_with") and study["compare_with"] not in study["methods"]:
        known = nearest(study["compare_with"], study["methods"])
        raise UserError(f"{path}: 'compare_with' names no method '{study['compare_with']}'; {known}.")
    if study.get("compare_with") and not set(study["views"]) <= set(QUERY_VIEWS):
        raise UserError(
            f"{path}: 'compare_with' needs the views {' and '.join(QUERY_VIEWS)}: others have no figure for it."
        )
    for method in study["methods"]:
        for dataset in study["datasets"]:
            _check_tuned(study, dataset, method, path)
            run, source = resolve(study, dataset, method), f"{path}, method '{method}'"
            _check_released(run.get("released"), run, method, source)
            _check_run(run, source, study["views"])
            _check_views(study["views"], run, source)
    return study


def published_file(name: str, paths: dict[str, Path]) -> str | None:
    """The file of published numbers that a study names.

    None also for a study that can't be read: what is wrong with it is said when it is asked for, not before.
    """
    try:
        return with_base(read_yaml(paths[name]), paths[name], paths, read_yaml).get("published")
    except UserError:
        return None


def included(name: str, paths: dict[str, Path]) -> list[str]:
    """The studies that are made together with a study; none of one that can't be read, as above."""
    try:
        return with_base(read_yaml(paths[name]), paths[name], paths, read_yaml).get("includes") or []
    except UserError:
        return []


def load_published(path: str | Path) -> list[dict[str, Any]]:
    """The documents of a file of published numbers."""
    found = read_yaml(path)
    validate(found, "published", path)
    return found["documents"]


def load_toy(path: str | Path) -> dict[str, Any]:
    """An experiment with points in a plane, which has no images and is no study."""
    toy = read_yaml(path)
    validate(toy, "toy", path)
    for name, experiment in toy["experiments"].items():
        cls, known = experiment["loss"]["class"], _part_classes("losses")
        if ":" not in cls and known and cls not in known:
            raise UserError(f"{path}, experiment '{name}': unknown class '{cls}' in 'loss'; {nearest(cls, known)}.")
    return {"name": Path(path).stem, "description": "", **toy}


def _check_tuned(study: dict[str, Any], dataset: str, method: str, path: Path) -> None:
    """A method with hyper-parameters for some datasets must have them for all: a library's defaults are not tuned."""
    tuned = study["methods"][method].get("datasets")
    if tuned is None:
        return
    source = study["datasets"][dataset].get("tuned_as", dataset)
    if source not in tuned:
        wanted = "" if source == dataset else f" (the '{dataset}' of this study is tuned as '{source}')"
        raise UserError(
            f"{path}: method '{method}' has no hyper-parameters for '{source}'{wanted}, only for {', '.join(tuned)}: "
            f"add 'methods.{method}.datasets.{source}', or set 'datasets.{dataset}.tuned_as' to one of these."
        )


def restrict(study: dict[str, Any], key: str, chosen: list | None) -> dict[str, Any]:
    """Only the chosen seeds or methods of a study (`--config seeds=[0,1] methods=[triplet]`).

    A method of a sweep stands for all of its rows.
    """
    if chosen is None:
        return study
    if key == "seeds":
        return {**study, "seeds": chosen}
    sweep = study.get("sweep") or {"methods": [], "values": {}}
    rows = {method: [f"{method}_{value}" for value in sweep["values"]] for method in sweep["methods"]}
    for name in chosen:
        if name not in study["methods"] and name not in rows:
            known = nearest(name, [*study["methods"], *rows])
            raise UserError(f"config 'methods': study '{study['name']}' has no method '{name}'; {known}.")
    kept = {row for name in chosen for row in rows.get(name, [name])}
    return {**study, "methods": {name: spec for name, spec in study["methods"].items() if name in kept}}


def resolve(study: dict[str, Any], dataset: str, method: str) -> dict[str, Any]:
    """All settings of a method on a dataset: the protocol, then the dataset's, then the method's own."""
    if method not in study["methods"]:
        raise UserError(f"Study '{study['name']}' has no method '{method}'; {nearest(method, study['methods'])}.")
    row, own_dataset = study["methods"][method], study["datasets"][dataset]
    tuned = row.get("datasets", {}).get(own_dataset.get("tuned_as", dataset), {})
    resolved: dict[str, Any] = {}
    for layer in (study["protocol"], own_dataset, row, tuned):
        own = {key: value for key, value in layer.items() if key not in NOT_SETTINGS}
        resolved = merge(resolved, own)
    return resolved


def canonical(value: Any) -> Any:
    """The same settings with their keys in alphabetical order, as far down as they go.

    Snakemake compares the repr of `params`: two lines of YAML that change places must not train again.
    """
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    return [canonical(part) for part in value] if isinstance(value, list) else value


def training_part(resolved: dict[str, Any]) -> dict[str, Any]:
    """What a run's checkpoint depends on, and how images are embedded by it."""
    keys = RELEASED_KEYS if resolved.get("released") else TRAINING_KEYS
    part = {key: resolved[key] for key in keys if resolved.get(key) is not None}
    if "relabel" in part:
        part["relabel"] = {**part["relabel"], "members": folds_of(resolved)}
    # how metrics are computed is a setting of the run only where they choose its checkpoint or are watched
    watched = {name for names in watched_metrics(part.get("selection", {})).values() for name in names}
    how = _how_evaluated(resolved, clusters=bool(watched & set(CLUSTERING))) if watched else {}
    return part | ({"evaluation": how} if how else {})


def embedding_part(resolved: dict[str, Any]) -> dict[str, Any]:
    """The same, and whether training images are embedded too; where they are not, nothing is said of it."""
    shown = resolved["evaluation"].get("distances", "test")
    return training_part(resolved) | ({"distances": shown} if shown != "test" else {})


def watched_metrics(selection: dict[str, Any]) -> dict[str, list[str]]:
    """The metrics of each role that a run is evaluated on while it is trained; those that select first."""
    found = {selection["role"]: [selection["metric"], *selection.get("also", [])]} if selection.get("role") else {}
    for role, names in selection.get("watch", {}).items():
        found[role] = [*found.get(role, []), *names]
    return {role: list(dict.fromkeys(names)) for role, names in found.items()}


def _how_evaluated(resolved: dict[str, Any], clusters: bool = True) -> dict[str, Any]:
    """What `evaluation` says of how metrics are computed, where it differs from the default."""
    evaluation = resolved["evaluation"]
    how = {} if evaluation.get("normalise", True) else {"normalise": False}
    return how | ({"clustering": evaluation["clustering"]} if clusters and evaluation.get("clustering") else {})


def evaluation_part(resolved: dict[str, Any]) -> dict[str, Any]:
    """What a run is evaluated with: a change of the table's columns is not among it."""
    part = {"metrics": resolved["evaluation"]["metrics"], "reduction": resolved.get("reduction")}
    selection, trained = resolved["selection"], resolved["schedule"]["epochs"] and not resolved.get("released")
    if trained and selection.get("role") == "test":
        part["select"] = selection["metric"]
    if "calibration" in resolved["evaluation"]:
        part["calibration"] = resolved["evaluation"]["calibration"]
    return part | _how_evaluated(resolved)


def eval_transforms(resolved: dict[str, Any]) -> dict[str, Any]:
    """What becomes of an image before a run's model sees it."""
    return {"resize": resolved["transforms"].get("resize"), "eval": resolved["transforms"]["eval"]}


def split_of(study: dict[str, Any], dataset: str) -> dict[str, Any]:
    """The split scheme of a dataset, which all methods of the study share."""
    return merge(study["protocol"]["split"], study["datasets"][dataset].get("split", {}))


def folds_of(resolved: dict[str, Any]) -> int:
    """How many checkpoints a method has: the split's folds (one, if its scheme has none), or what the method says."""
    return resolved.get("folds") or resolved["split"].get("folds", 1)


def seeds_of(study: dict[str, Any], method: str) -> list[int]:
    """The seeds of a row: the study's, or the first so many; checkpoints that others have released are there once."""
    return study["seeds"][:1] if method.endswith(RELEASED) else study["seeds"][: study["methods"][method].get("seeds")]


def own_files(configuration: Any) -> list[str]:
    """A user's files that a configuration names: the modules of its `module:Class` and its weights.

    An edit there is another run.
    """
    found: set[str] = set()
    if isinstance(configuration, dict):
        found.update(file for value in configuration.values() for file in own_files(value))
    elif isinstance(configuration, list):
        found.update(file for value in configuration for file in own_files(value))
    elif isinstance(configuration, str):
        path = Path(configuration)
        if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", configuration):
            path = Path(*configuration.split(":")[0].split(".")).with_suffix(".py")
        if path.suffix in (".py", *WEIGHTS_SUFFIXES) and path.is_file():
            found.add(str(path))
    return sorted(found)


def _check_run(resolved: dict[str, Any], source: str, views: Iterable[str]) -> None:
    evaluation = resolved["evaluation"]
    selection = resolved["selection"]
    metrics = {
        "evaluation.metrics": evaluation["metrics"],
        "evaluation.table": evaluation["table"],
        "selection.metric": [selection["metric"]] if "metric" in selection else [],
        "selection.also": selection.get("also", []),
        **{f"selection.watch.{role}": names for role, names in selection.get("watch", {}).items()},
    }
    asked = set(QUERY_VIEWS) & set(views)
    for key, names in metrics.items():
        try:
            (check_query_metrics if asked and key.startswith("evaluation") else check_names)(names)
        except UserError as error:
            raise UserError(f"{source}, '{key}': {error}") from None
    for name in evaluation["table"]:
        if name not in evaluation["metrics"]:
            raise UserError(
                f"{source}: 'evaluation.table' names '{name}', which 'evaluation.metrics' does not compute."
            )
    _check_split(resolved, source)
    resize = resolved["transforms"].get("resize")
    if resize and len({"shorter", "exact", "fit"} & set(resize)) != 1:
        raise UserError(f"{source}: 'transforms.resize' needs either 'shorter', 'exact' or 'fit'.")
    loss, miner = resolved.get("loss") or {}, resolved.get("miner") or {}
    inner = loss.get("loss") if isinstance(loss.get("loss"), dict) else {}
    parts = (
        ("loss", loss, "losses"),
        ("loss.loss", inner, "losses"),
        ("miner", miner, "miners"),
        ("sampler", resolved["sampler"], "samplers"),
        ("model.head", resolved["model"]["head"], "heads"),
        ("lr_schedule", resolved.get("lr_schedule") or {}, "schedulers"),
        *((f"optimisers.{own}", spec, "optimisers") for own, spec in resolved["optimisers"].items()),
    )
    for part, spec, library in parts:
        name, known = spec.get("class"), _part_classes(library)
        if name and ":" not in name and known and name not in known:
            raise UserError(f"{source}: unknown class '{name}' in '{part}'; {nearest(name, known)}, or 'module:Class'.")
    if "batch" not in resolved["sampler"]:
        raise UserError(f"{source}: 'sampler' has no 'batch', the number of images in a batch.")
    _check_batches(resolved, source)
    if resolved["schedule"]["epochs"] > 0 and not (resolved.get("loss") or resolved.get("released")):
        raise UserError(f"{source}: trains for {resolved['schedule']['epochs']} epochs but has no 'loss'.")


def _check_released(released: dict[str, Any] | None, resolved: dict[str, Any], method: str, source: str) -> None:
    if (released is not None) != method.endswith(RELEASED):
        raise UserError(
            f"{source}: the name of a method ends in '{RELEASED}' if it has 'released' checkpoints, and only then; "
            "rename it, or give it 'released' on every dataset."
        )
    if released is None:
        return
    if "layout" not in released:
        raise UserError(f"{source}: 'released' has no 'layout', how its files are named; known: mlrc.")
    for part in ("loss", "miner", "forward"):
        if resolved.get(part):
            raise UserError(f"{source}: 'released' checkpoints are not trained: remove '{part}'.")
    if resolved["model"]["head"]["class"] != "Linear":
        raise UserError(f"{source}: 'released' checkpoints of layout mlrc need 'head: {{class: Linear, dim: …}}'.")


def _check_split(resolved: dict[str, Any], source: str) -> None:
    try:
        check_scheme(resolved["split"])
    except UserError as error:
        raise UserError(f"{source}, 'split': {error}") from None
    name, role = resolved["split"]["scheme"], resolved["selection"].get("role")
    roles = SCHEMES[name].roles
    if role is not None and roles is not None and role not in roles:
        raise UserError(
            f"{source}: 'selection.role' is '{role}', but the split scheme {name} has only {', '.join(roles)}; leave "
            "'role' out to take the last epoch."
        )
    for watched in resolved["selection"].get("watch", {}):
        if roles is not None and watched not in roles:
            raise UserError(
                f"{source}: 'selection.watch' names '{watched}', but the split scheme {name} has only "
                f"{', '.join(roles)}."
            )


def _check_views(views: list[str], resolved: dict[str, Any], source: str) -> None:
    """A column that is called after an epoch must show that epoch, and one of queries needs a split that has them."""
    asked = [view for view in views if view in QUERY_VIEWS]
    if asked and (len(asked) < len(views) or resolved["split"]["scheme"] != "seen_unseen"):
        raise UserError(
            f"{source}: the view '{asked[0]}' needs 'split: {{scheme: seen_unseen, …}}', and no other views than "
            f"{' and '.join(QUERY_VIEWS)} beside it."
        )
    if asked and folds_of(resolved) > 1:
        raise UserError(f"{source}: the view '{asked[0]}' calibrates one model, so 'folds' can't be above 1.")
    if resolved.get("released") or not resolved["schedule"]["epochs"]:
        return
    role = resolved["selection"].get("role")
    if BEST_ON_TEST in views and role != "test":
        raise UserError(f"{source}: the view '{BEST_ON_TEST}' needs 'selection: {{role: test, metric: …}}'.")
    if LAST_EPOCH in views and role not in (None, "test"):
        raise UserError(
            f"{source}: the view '{LAST_EPOCH}' shows no last epoch if 'selection.role' is '{role}'; use 'test', leave "
            "'role' out, or show 'concatenated'."
        )


def _check_batches(resolved: dict[str, Any], source: str) -> None:
    """Parts that only make sense together."""
    sampler, forward = resolved["sampler"], (resolved.get("forward") or {}).get("class")
    loss, miner = ((resolved.get(part) or {}).get("class") for part in ("loss", "miner"))
    no_pairs = sampler["class"] == "Shuffled" or (sampler["class"] == "MPerClass" and sampler.get("per_class") == 1)
    if miner and no_pairs:
        raise UserError(
            f"{source}: the miner '{miner}' looks for images of the same class, but the sampler '{sampler['class']}' "
            "does not put them into a batch; use {class: MPerClass, per_class: 2} or more."
        )
    if loss == "WithinPairLoss" and not forward:
        raise UserError(
            f"{source}: the loss 'WithinPairLoss' needs several views: add 'forward: {{class: MultiView, …}}'."
        )
    parts = (resolved.get("forward") or {}).get("parts", 1)
    if forward == "InTurns" and sampler["batch"] % parts:
        raise UserError(
            f"{source}: 'forward' cuts batches of {sampler['batch']} into {parts} parts, which is no divisor."
        )
    if forward == "MultiView" and miner:
        raise UserError(f"{source}: a miner can't look at several views of an image: remove 'miner' or 'forward'.")
    if forward == "MultiView" and loss in _library_classes("pytorch_metric_learning", "losses"):
        raise UserError(
            f"{source}: the loss '{loss}' takes one view of an image: put it inside "
            "'{class: WithinPairLoss, loss: …}', or remove 'forward'."
        )


# Where the classes are that a part may name without a colon: package, and module below it.
LIBRARIES = {
    "losses": (("recheck.methods", "losses"), ("pytorch_metric_learning", "losses")),
    "miners": (("recheck.methods", "miners"), ("pytorch_metric_learning", "miners")),
    "samplers": (("recheck.methods", "samplers"),),
    "heads": (("recheck.models", "heads"),),
    "optimisers": (("recheck.methods", "mxnet_adam"), ("torch", "optim")),
    "schedulers": (("torch", "optim/lr_scheduler"),),
}


def _part_classes(library: str) -> list[str]:
    """The names a part may have without a colon; none, so that all are taken, where a library is not installed."""
    found = [_library_classes(*place) for place in LIBRARIES[library]]
    return [name for names in found for name in names] if all(found) else []


@cache
def _library_classes(package: str, module: str) -> list[str]:
    """The class names that a module has for its users, read from its source: importing it takes seconds."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return []
    place = Path(spec.submodule_search_locations[0], module)
    if place.is_dir():
        nodes = ast.walk(ast.parse((place / "__init__.py").read_text(encoding="utf-8")))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        names = {alias.asname or alias.name for node in imports for alias in node.names}
    else:
        nodes = ast.parse(place.with_suffix(".py").read_text(encoding="utf-8")).body
        names = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    return sorted(name for name in names if name[0].isupper())
