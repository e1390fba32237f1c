"""Studies and datasets as their YAML files say them: read, checked, and resolved into the runs they ask for.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

import ast
import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.names import (
    BEST_ON_TEST,
    CLUSTERING,
    LAST_EPOCH,
    QUERY_VIEWS,
    RELEASED,
    SCHEMES,
    WEIGHTS_SUFFIXES,
    check_metrics,
    check_query_metrics,
    check_scheme,
    watched_metrics,
)
from recheck.shorthand import merge, with_base, with_borrowed_rows, with_fidelity, with_sweep
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

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
# What a study says of a row or a dataset that is no setting of its runs.
NOT_SETTINGS = ("label", "published_as", "datasets", "classes", "tuned_as", "seeds")


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
            (check_query_metrics if asked and key.startswith("evaluation") else check_metrics)(names)
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
