"""A study written out: its base, its methods' files, one variant and its sweep put together.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.names import FOLD_VIEWS, QUERY_VIEWS, RELEASED, check_views
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

RECOMMENDED = "recommended"
# What a method file says about the method; all else in it is a setting of the rows.
ABOUT = ("family", "paper")


@dataclass(frozen=True)
class Files:
    """Name → path of every study and every method."""

    studies: Mapping[str, Path]
    methods: Mapping[str, Path]


def compose(name: str, files: Files, variant: str | None = None) -> dict[str, Any]:
    """A study with nothing left to look up, checked against its schema.

    ``variant`` is chosen instead of the study's own, if the study has variants.
    """
    path = _study_path(name, files)
    study = _with_base(path, files)
    about = {}
    if isinstance(study.get("methods"), dict):
        study, about = _with_methods(study, path, files)
    validate(study, "study", path)
    study = _with_sweep(_with_variant(study, variant, path), path)
    if study.get("sweep") or study.get("variants"):
        validate(study, "study", path)  # again: their changes can't be checked before they are made
    empty = {"description": "", "views": list(FOLD_VIEWS), "published": None, "baseline": None, "sweep": None}
    study = {"name": name, **empty, **study, "variants": study.get("variants") or {}}
    study["also_build"] = study.get("also_build") or []
    study["datasets"] = {dataset: own or {} for dataset, own in study["datasets"].items()}
    study["methods"] = {row: {**own, **about.get(own.get("method"), {})} for row, own in study["methods"].items()}
    _check_top_level(study, path, files)
    _check_hyperparameters(study, path)
    return study


def top_level(name: str, files: Files) -> dict[str, Any]:
    """The keys of a study after its base, not validated; none if it can't be read, which is reported when it is run."""
    try:
        return _with_base(_study_path(name, files), files)
    except UserError:
        return {}


def merge(base: Any, over: Any) -> Any:
    """Mappings are merged key by key; anything else, and a part of another `class` or `scheme`, is replaced."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if any(key in over and over[key] != base.get(key) for key in ("class", "scheme")):
        return over
    return {**base, **{key: merge(base[key], value) if key in base else value for key, value in over.items()}}


def _study_path(name: str, files: Files) -> Path:
    if name not in files.studies:
        raise UserError(f"There is no study '{name}'; {nearest(name, files.studies)} (config/studies/*.yaml).")
    return files.studies[name]


# --- base -----------------------------------------------------------------------------------------------------------


def _with_base(path: Path, files: Files, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """A study and what it inherits; `base` and `keep` are done with."""
    study = read_yaml(path)
    name = study.get("base")
    if not isinstance(name, str):
        if "keep" in study and name is None:
            raise UserError(f"{path}: 'keep' chooses rows of a base, but the study has no 'base'.")
        return study
    if name not in files.studies or files.studies[name] == path:
        others = [other for other in files.studies if files.studies[other] != path]
        raise UserError(f"{path}: 'base' names no other study '{name}'; {nearest(name, others)}.")
    if name in seen:
        raise UserError(f"{path}: 'base' goes in a circle: {' → '.join((*seen, name))}.")
    base = _kept(_with_base(files.studies[name], files, (*seen, name)), study.get("keep"), path)
    inherited = {key: value for key, value in base.items() if key != "also_build"}
    own = {key: value for key, value in study.items() if key != "base" and not (key == "keep" and _words(value))}
    both = {**inherited, **own}
    for key, merged in (("protocol", merge), ("variants", merge), ("methods", _rows), ("datasets", _datasets)):
        if isinstance(base.get(key), dict) and isinstance(study.get(key), dict):
            both[key] = merged(base[key], study[key])
    emptied = [row for row, spec in _mapping(study, "methods").items() if spec is None]
    return _without(both, [row for row in emptied if row in _mapping(base, "methods")])


def _kept(base: dict[str, Any], keep: Any, path: Path) -> dict[str, Any]:
    """The base with the rows that `keep` names."""
    if not _words(keep):
        return base
    rows = _mapping(base, "methods")
    for row in keep:
        if row not in rows:
            raise UserError(f"{path}: 'keep' names no row of the base '{row}'; {nearest(row, rows)}.")
    return _without(base, [row for row in rows if row not in keep])


def _without(study: dict[str, Any], rows: Iterable[str]) -> dict[str, Any]:
    """The study without some rows, which are gone from its variants too."""
    dropped = set(rows)
    if not dropped:
        return study

    def left(part: Any) -> Any:
        if not isinstance(part, dict) or not isinstance(part.get("methods"), dict):
            return part
        return {**part, "methods": {row: spec for row, spec in part["methods"].items() if row not in dropped}}

    study = left(study)
    if isinstance(study.get("variants"), dict):
        study = {**study, "variants": {name: left(changes) for name, changes in study["variants"].items()}}
    return study


def _rows(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The rows of two studies; a row of another method, or with a loss of its own, replaces the base's."""
    rows = dict(base)
    for name, own in over.items():
        first = base.get(name)
        both = isinstance(own, dict) and isinstance(first, dict)
        another = both and _says_method(own) and _method_of(name, own) != _method_of(name, first)
        rows[name] = merge(first, own) if name in base and not another else own
    return rows


def _datasets(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The datasets that `over` names, each with the base's settings of it; `classes` are one choice."""
    datasets = {}
    for name, own in over.items():
        datasets[name] = base.get(name) if own is None else merge(base.get(name), own)
        if isinstance(own, dict) and "classes" in own:
            datasets[name] = {**datasets[name], "classes": own["classes"]}
    return datasets


def _mapping(study: dict[str, Any], key: str) -> dict[str, Any]:
    return study[key] if isinstance(study.get(key), dict) else {}


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


# --- methods --------------------------------------------------------------------------------------------------------


def _with_methods(study: dict[str, Any], path: Path, files: Files) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The study with the settings of its rows' methods, and what the files of these say about them."""
    rows, about = {}, {}
    for name, own in study["methods"].items():
        own = {} if own is None else own
        rows[name] = own
        if not isinstance(own, dict) or not isinstance(own.get("method", ""), str):
            continue  # the schema says what is wrong
        method = _method_of(name, own)
        if method is None or ("method" not in own and method not in files.methods and "label" in own):
            if "label" not in own:
                raise UserError(
                    f"{path}: row '{name}' has a loss of its own, so it needs a 'label' too; to change the arguments "
                    f"of a method's loss, say 'method: …', or leave out the loss's 'class'."
                )
            continue
        if method not in files.methods:
            known = nearest(method, files.methods)
            raise UserError(f"{path}, row '{name}': there is no method '{method}'; {known} (config/methods/*.yaml).")
        spec = _read_method(method, files)
        about[method] = {key: spec.pop(key) for key in ABOUT if key in spec}
        # the settings of a released checkpoint are those of its protocol: nothing is trained
        settings = {"label": spec["label"]} if name.endswith(RELEASED) else spec
        rows[name] = {"method": method, **merge(settings, own)}
    return {**study, "methods": rows}, about


def _method_of(name: str, row: dict[str, Any]) -> str | None:
    """The method that a row names; none if it brings a loss of its own instead."""
    if "method" in row:
        return row["method"]
    return None if _says_method(row) else name


def _says_method(row: dict[str, Any]) -> bool:
    return "method" in row or (isinstance(row.get("loss"), dict) and "class" in row["loss"])


def _read_method(name: str, files: Files) -> dict[str, Any]:
    path = files.methods[name]
    method = read_yaml(path)
    validate(method, "method", path)
    if isinstance(method.get("paper"), str):
        source = method["paper"]
        cited = read_yaml(files.methods[source]).get("paper") if source in files.methods else None
        if not isinstance(cited, dict):
            papers = [
                other for other in files.methods if isinstance(read_yaml(files.methods[other]).get("paper"), dict)
            ]
            raise UserError(f"{path}: 'paper' names no method with a paper '{source}'; {nearest(source, papers)}.")
        method["paper"] = cited
    return method


# --- variants and sweeps --------------------------------------------------------------------------------------------


def _with_variant(study: dict[str, Any], chosen: str | None, path: Path) -> dict[str, Any]:
    """The study with the changes of one of its variants: the chosen one, else the one that it names itself."""
    known = {RECOMMENDED: {}, **(study.get("variants") or {})}
    name = chosen if chosen is not None and "variants" in study else study.get("variant", RECOMMENDED)
    if name not in known:
        raise UserError(f"{path}: there is no variant '{name}'; {nearest(name, known)}.")
    changes = known[name] or {}
    rows = changes.get("methods", {})
    for row, own in rows.items():
        if row not in study["methods"]:
            raise UserError(f"{path}, variant '{name}': there is no row '{row}'; {nearest(row, study['methods'])}.")
        _check_no_method(own, f"{path}, variant '{name}'")
    return {
        **study,
        "variant": name,
        "protocol": merge(study["protocol"], changes.get("protocol", {})),
        "methods": {row: merge(spec, rows.get(row, {})) for row, spec in study["methods"].items()},
    }


def _with_sweep(study: dict[str, Any], path: Path) -> dict[str, Any]:
    """The rows of a sweep: each of its methods with each of its values, called <method>_<value>."""
    sweep = study.get("sweep")
    if not sweep:
        return study
    rows: dict[str, Any] = {}
    for method in sweep["methods"]:
        if method not in study["methods"]:
            raise UserError(f"{path}, 'sweep': there is no row '{method}'; {nearest(method, study['methods'])}.")
        row = study["methods"][method]
        for value, settings in sweep["values"].items():
            if not str(value).isdecimal():
                raise UserError(
                    f"{path}, 'sweep': the value '{value}' must be a whole number: it is part of a row's name."
                )
            changed = row
            own = {key: part for key, part in (settings or {}).items() if key != "methods"}
            for changes in (own, (settings or {}).get("methods", {}).get(method, {})):
                _check_no_method(changes, f"{path}, 'sweep'")
                changed = merge(changed, changes)
            rows[f"{method}_{value}"] = {**changed, "label": f"{row['label']}, {value}"}
    return {**study, "methods": rows}


def _check_no_method(changes: Mapping[str, Any], source: str) -> None:
    if "method" in changes:
        raise UserError(f"{source}: it changes settings of a row, not its 'method'; add another row instead.")


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_top_level(study: dict[str, Any], path: Path, files: Files) -> None:
    try:
        check_views(study["views"])
    except UserError as error:
        raise UserError(f"{path}, 'views': {error}") from None
    for other in study["also_build"]:
        if other not in files.studies or other == study["name"]:
            raise UserError(f"{path}: 'also_build' names no other study '{other}'; {nearest(other, files.studies)}.")
    baseline = study["baseline"]
    if baseline and baseline not in study["methods"]:
        raise UserError(f"{path}: 'baseline' names no row '{baseline}'; {nearest(baseline, study['methods'])}.")
    if baseline and not set(study["views"]) <= set(QUERY_VIEWS):
        raise UserError(
            f"{path}: 'baseline' needs the views {' and '.join(QUERY_VIEWS)}: others have no figure for it."
        )


def _check_hyperparameters(study: dict[str, Any], path: Path) -> None:
    """A row with hyper-parameters for some datasets must have them for all: a library's defaults are not tuned."""
    for row, spec in study["methods"].items():
        for dataset, own in study["datasets"].items():
            source = own.get("hyperparameters_of", dataset)
            if "datasets" not in spec or source in spec["datasets"]:
                continue
            wanted = "" if source == dataset else f" ('{dataset}' takes the hyper-parameters of '{source}')"
            raise UserError(
                f"{path}: row '{row}' has no hyper-parameters for '{source}'{wanted}, only for "
                f"{', '.join(spec['datasets'])}: add 'methods.{row}.datasets.{source}', or set "
                f"'datasets.{dataset}.hyperparameters_of' to one of these."
            )
