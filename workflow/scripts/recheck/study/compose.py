"""A study written out: its base, method files, variant and sweep combined into one mapping.

Snakemake imports this module while it parses the workflow, so it must not import anything slow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.names import FOLD_VIEWS, QUERY_VIEWS, RELEASED, check_views
from recheck.study import sweep as sweeps
from recheck.study.definition import definition, redefined
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

RECOMMENDED = "recommended"
# Keys of a method file that describe the method; all other keys are settings of its rows.
ABOUT = ("family", "paper")
# Keys that describe one study: they would be wrong for a study that is based on it.
NOT_INHERITED = ("also_build", "description", "title")


@dataclass(frozen=True)
class Files:
    """Name → path of every study file and every method file."""

    studies: Mapping[str, Path]
    methods: Mapping[str, Path]


def compose(name: str, files: Files, variant: str | None = None) -> dict[str, Any]:
    """The complete study, with all keys filled in and checked against the schema.

    ``variant`` overrides the study's own choice, if the study has variants.
    """
    path = _study_path(name, files)
    study = _with_base(path, files)
    about: dict[str, dict[str, Any]] = {}
    labelled = {row for row, spec in _mapping(study, "methods").items() if isinstance(spec, dict) and "label" in spec}
    if isinstance(study.get("methods"), dict):
        study, about = _with_methods(study, path, files)
    validate(study, "study", path)
    study = _with_sweep(_with_variant(study, variant, path), path)
    if "tuning" in study and not study["tuning"]:
        study = _without_searches(study)
    if study.get("sweep") or study.get("variants"):
        validate(study, "study", path)  # again, because the changes of a variant or sweep are now merged in
    empty = {
        "title": "",
        "description": "",
        "views": list(FOLD_VIEWS),
        "published": None,
        "baseline": None,
        "sweep": None,
        "tuning": None,
        "verdicts": {},
    }
    study = {"name": name, **empty, **study, "variants": study.get("variants") or {}}
    study["also_build"] = study.get("also_build") or []
    study["datasets"] = {dataset: settings or {} for dataset, settings in study["datasets"].items()}
    study["methods"] = {
        row: {**settings, **_about_row(settings, about.get(settings.get("method"), {}), row in labelled)}
        for row, settings in study["methods"].items()
    }
    _check_top_level(study, path, files)
    _check_hyperparameters(study, path)
    return study


def top_level(name: str, files: Files) -> dict[str, Any]:
    """The keys of a study merged with its base, not validated; empty if the study can't be read.

    The error of an unreadable study is reported when it is built.
    """
    try:
        return _with_base(_study_path(name, files), files)
    except UserError:
        return {}


def merge(base: Any, over: Any) -> Any:
    """``base`` with the values of ``over``: mappings are merged key by key, everything else is replaced.

    A mapping with another `class` or `scheme` is replaced as a whole.
    """
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if any(key in over and over[key] != base.get(key) for key in ("class", "scheme")):
        return over
    return {**base, **{key: merge(base[key], value) if key in base else value for key, value in over.items()}}


def _study_path(name: str, files: Files) -> Path:
    if name not in files.studies:
        raise UserError(f"Unknown study '{name}'; {nearest(name, files.studies)} (config/studies/*.yaml).")
    return files.studies[name]


# --- base -----------------------------------------------------------------------------------------------------------


def _with_base(path: Path, files: Files, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """A study merged with its base; the keys `base` and `keep` are removed."""
    study = read_yaml(path)
    name = study.get("base")
    if not isinstance(name, str):
        if "keep" in study and name is None:
            raise UserError(f"{path}: 'keep' selects rows of the base, but 'base' is missing. Add it or remove 'keep'.")
        return study
    if name not in files.studies or files.studies[name] == path:
        others = [other for other in files.studies if files.studies[other] != path]
        raise UserError(f"{path}, 'base': there is no other study '{name}'; {nearest(name, others)}.")
    if name in seen:
        raise UserError(
            f"{path}: 'base' is circular: {' → '.join((*seen, name))}. Remove 'base' from one of these studies."
        )
    base = _kept(_with_base(files.studies[name], files, (*seen, name)), study.get("keep"), path)
    _check_labels(study, base, path)
    inherited = {key: value for key, value in base.items() if key not in NOT_INHERITED}
    changes = {key: value for key, value in study.items() if key != "base" and not (key == "keep" and _words(value))}
    both = {**inherited, **changes}
    for key, merged in (("protocol", merge), ("variants", merge), ("methods", _rows), ("datasets", _datasets)):
        if isinstance(base.get(key), dict) and isinstance(study.get(key), dict):
            both[key] = merged(base[key], study[key])
    emptied = [row for row, spec in _mapping(study, "methods").items() if spec is None]
    return _without(both, [row for row in emptied if row in _mapping(base, "methods")])


def _check_labels(study: dict[str, Any], base: dict[str, Any], path: Path) -> None:
    """Refuse a row that changes what defines its method but keeps the base's label."""
    for row, spec in _mapping(study, "methods").items():
        given = _mapping(base, "methods").get(row)
        if not (isinstance(spec, dict) and isinstance(given, dict)) or _says_method(spec):
            continue
        if "label" in given and "label" not in spec and (key := redefined(spec, given)):
            raise UserError(
                f"{path}: row '{row}' changes '{key}' but keeps the label '{given['label']}' of the base. A row that "
                "changes what defines its method must have its own 'label'."
            )


def _kept(base: dict[str, Any], keep: Any, path: Path) -> dict[str, Any]:
    """The base with only the rows in `keep`."""
    if not _words(keep):
        return base
    rows = _mapping(base, "methods")
    for row in keep:
        if row not in rows:
            raise UserError(f"{path}, 'keep': the base has no row '{row}'; {nearest(row, rows)}.")
    return _without(base, [row for row in rows if row not in keep])


def _without(study: dict[str, Any], rows: Iterable[str]) -> dict[str, Any]:
    """The study without these rows, in its variants too."""
    dropped = set(rows)
    if not dropped:
        return study

    def without_dropped(holder: Any) -> Any:
        if not isinstance(holder, dict) or not isinstance(holder.get("methods"), dict):
            return holder
        return {**holder, "methods": {row: spec for row, spec in holder["methods"].items() if row not in dropped}}

    study = without_dropped(study)
    if isinstance(study.get("variants"), dict):
        study = {**study, "variants": {name: without_dropped(changes) for name, changes in study["variants"].items()}}
    return study


def _rows(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The rows of two studies, merged; a row with another method, or with its own loss, replaces the base's row."""
    rows = dict(base)
    for name, spec in over.items():
        inherited = base.get(name)
        both = isinstance(spec, dict) and isinstance(inherited, dict)
        another = both and _says_method(spec) and _method_of(name, spec) != _method_of(name, inherited)
        rows[name] = merge(inherited, spec) if name in base and not another else spec
    return rows


def _datasets(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The datasets that `over` names, each merged with the base's settings for it; `classes` is replaced as a whole."""
    datasets = {}
    for name, settings in over.items():
        datasets[name] = base.get(name) if settings is None else merge(base.get(name), settings)
        if isinstance(settings, dict) and "classes" in settings:
            datasets[name] = {**datasets[name], "classes": settings["classes"]}
    return datasets


def _mapping(study: dict[str, Any], key: str) -> dict[str, Any]:
    return study[key] if isinstance(study.get(key), dict) else {}


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


# --- methods --------------------------------------------------------------------------------------------------------


def _with_methods(study: dict[str, Any], path: Path, files: Files) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The study with each row merged into its method's settings, and the `ABOUT` keys of each method."""
    rows, about = {}, {}
    for name, row in study["methods"].items():
        row = {} if row is None else row
        rows[name] = row
        if not isinstance(row, dict) or not isinstance(row.get("method", ""), str):
            continue  # the schema check reports it
        method = _method_of(name, row)
        if method is None or ("method" not in row and method not in files.methods and "label" in row):
            if "label" not in row:
                raise UserError(
                    f"{path}: row '{name}' has its own loss, so it needs a 'label'. To change only arguments of a "
                    "method's loss, add 'method: …' or leave out the loss's 'class'."
                )
            continue
        if method not in files.methods:
            known = nearest(method, files.methods)
            raise UserError(f"{path}, row '{name}': unknown method '{method}'; {known} (config/methods/*.yaml).")
        spec = _read_method(method, files)
        about[method] = {key: spec.pop(key) for key in ABOUT if key in spec}
        about[method] |= {"label": spec["label"], "defined": definition(spec)}
        # released checkpoints are not trained, so only the protocol's settings apply
        inherited = {"label": spec["label"]} if name.endswith(RELEASED) else spec
        rows[name] = {"method": method, **merge(inherited, row)}
    return {**study, "methods": rows}, about


def _about_row(settings: dict[str, Any], method: dict[str, Any], labelled: bool) -> dict[str, Any]:
    """Family and paper of a row's method and, if the row inherits the method's label, what defines the method."""
    about = {key: method[key] for key in ABOUT if key in method}
    inherits_label = method and not labelled and settings["label"] == method["label"]
    return about | ({"defined": method["defined"]} if inherits_label else {})


def _method_of(name: str, row: dict[str, Any]) -> str | None:
    """The method of a row; None if the row has its own loss instead."""
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
            raise UserError(f"{path}, 'paper': there is no method '{source}' with a paper; {nearest(source, papers)}.")
        method["paper"] = cited
    return method


# --- variants and sweeps --------------------------------------------------------------------------------------------


def _with_variant(study: dict[str, Any], chosen: str | None, path: Path) -> dict[str, Any]:
    """The study with the changes of the chosen variant (default: the study's own choice) merged in."""
    known = {RECOMMENDED: {}, **(study.get("variants") or {})}
    name = chosen if chosen is not None and "variants" in study else study.get("variant", RECOMMENDED)
    if name not in known:
        raise UserError(f"{path}: unknown variant '{name}'; {nearest(name, known)}.")
    changes = known[name] or {}
    rows = changes.get("methods", {})
    for row, change in rows.items():
        if row not in study["methods"]:
            raise UserError(f"{path}, variant '{name}': unknown row '{row}'; {nearest(row, study['methods'])}.")
        _check_no_method(change, f"{path}, variant '{name}'")
    return {
        **study,
        "variant": name,
        "protocol": merge(study["protocol"], changes.get("protocol", {})),
        "methods": {row: merge(spec, rows.get(row, {})) for row, spec in study["methods"].items()},
    }


def _with_sweep(study: dict[str, Any], path: Path) -> dict[str, Any]:
    """The study with the rows of its sweep: one row `<method>_<value>` per method and value."""
    sweep = study.get("sweep")
    if not sweep:
        return study
    places = sweeps.places(sweep["values"])
    for value, place in places.items():
        first = next(other for other in places if places[other] == place)
        if first != value:
            raise UserError(f"{path}, 'sweep': the values '{first}' and '{value}' are the same number. Remove one.")
    rows: dict[str, Any] = {}
    for method in sweep["methods"]:
        if method not in study["methods"]:
            raise UserError(f"{path}, 'sweep': unknown row '{method}'; {nearest(method, study['methods'])}.")
        row = study["methods"][method]
        for value, settings in sweep["values"].items():
            name = sweeps.row_name(method, value)
            if name in rows:
                raise UserError(
                    f"{path}, 'sweep': the row name '{name}' appears twice, because '{value}' and another value differ "
                    "only in capitals or punctuation. Change one of them."
                )
            changed = row
            for_all = {key: setting for key, setting in (settings or {}).items() if key != "methods"}
            for changes in (for_all, (settings or {}).get("methods", {}).get(method, {})):
                _check_no_method(changes, f"{path}, 'sweep'")
                changed = merge(changed, changes)
            rows[name] = {**changed, "label": sweeps.label(row["label"], value)}
    return {**study, "methods": rows}


def _without_searches(study: dict[str, Any]) -> dict[str, Any]:
    """The study without searches, for `tuning:` without a value: rows use the values that they set."""

    def fixed(settings: Any) -> Any:
        return {key: value for key, value in (settings or {}).items() if key not in ("space", "tuning")}

    rows = {row: fixed(spec) for row, spec in study["methods"].items()}
    for spec in rows.values():
        if "datasets" in spec:
            spec["datasets"] = {dataset: fixed(settings) for dataset, settings in spec["datasets"].items()}
    datasets = {dataset: fixed(settings) for dataset, settings in study["datasets"].items()}
    return {**study, "methods": rows, "datasets": datasets}


def _check_no_method(changes: Mapping[str, Any], source: str) -> None:
    if "method" in changes:
        raise UserError(f"{source}: 'method' of a row cannot be changed here. Add another row instead.")


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_top_level(study: dict[str, Any], path: Path, files: Files) -> None:
    try:
        check_views(study["views"])
    except UserError as error:
        raise UserError(f"{path}, 'views': {error}") from None
    for other in study["also_build"]:
        if other not in files.studies or other == study["name"]:
            raise UserError(
                f"{path}, 'also_build': there is no other study '{other}'; {nearest(other, files.studies)}."
            )
    baseline = study["baseline"]
    if baseline and baseline not in study["methods"]:
        raise UserError(f"{path}, 'baseline': unknown row '{baseline}'; {nearest(baseline, study['methods'])}.")
    if baseline and not set(study["views"]) <= set(QUERY_VIEWS):
        raise UserError(
            f"{path}: 'baseline' needs the views {' and '.join(QUERY_VIEWS)}, found {', '.join(study['views'])}. "
            "Change 'views' or remove 'baseline'."
        )


def _check_hyperparameters(study: dict[str, Any], path: Path) -> None:
    """Require hyper-parameters for all datasets or for none: a tuned row must not fall back to library defaults."""
    for row, spec in study["methods"].items():
        for dataset, settings in study["datasets"].items():
            source = settings.get("hyperparameters_of", dataset)
            if "datasets" not in spec or source in spec["datasets"]:
                continue
            user = "" if source == dataset else f" (used by '{dataset}')"
            raise UserError(
                f"{path}: row '{row}' has no hyper-parameters for '{source}'{user}, only for "
                f"{', '.join(spec['datasets'])}. Add 'methods.{row}.datasets.{source}', or set "
                f"'datasets.{dataset}.hyperparameters_of' to one of these datasets."
            )
