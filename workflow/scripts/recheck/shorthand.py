"""A study's shorthand written out: the study it starts from, rows of other studies, fidelity, the rows of a sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest

RECOMMENDED = "recommended"
# What a row takes with it to another study; all else is the protocol's there.
OF_A_METHOD = ("label", "loss", "miner", "forward", "sampler", "relabel", "folds", "model")


def merge(base: Any, over: Any) -> Any:
    """Mappings are merged key by key; anything else, and a part of another `class` or `scheme`, is replaced."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if any(key in over and over[key] != base.get(key) for key in ("class", "scheme")):
        return over
    return {**base, **{key: merge(base[key], value) if key in base else value for key, value in over.items()}}


def with_base(
    study: dict[str, Any],
    path: Path,
    paths: dict[str, Path],
    read: Callable[[Path], dict[str, Any]],
    seen: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A study that says `base: <study>` is that study with changes.

    Protocol, methods and fidelities are merged key by key, the rest is replaced. A method of the base that is empty
    here is left out.
    """
    if not isinstance(study.get("base"), str):
        return study
    name = study["base"]
    if name not in paths or paths[name] == path:
        others = [other for other in paths if paths[other] != path]
        raise UserError(f"{path}: 'base' names no other study '{name}'; {nearest(name, others)}.")
    if name in seen:
        raise UserError(f"{path}: 'base' goes in a circle: {' → '.join((*seen, name))}.")
    base = with_base(read(paths[name]), paths[name], paths, read, (*seen, name))
    merged = {key: merge(base.get(key), study.get(key, {})) for key in ("protocol", "methods", "fidelities")}
    return _without_empty_rows({**base, **study, **{key: value for key, value in merged.items() if value is not None}})


def _without_empty_rows(study: dict[str, Any]) -> dict[str, Any]:
    """Rows that a study with a base leaves out are gone from its fidelities too."""
    if not isinstance(study.get("methods"), dict):
        return study
    dropped = {method for method, own in study["methods"].items() if own is None}
    if not dropped:
        return study

    def kept(rows: dict[str, Any]) -> dict[str, Any]:
        return {method: own for method, own in rows.items() if method not in dropped}

    fidelities = {
        name: {**changes, "methods": kept(changes["methods"])} if "methods" in (changes or {}) else changes
        for name, changes in (study.get("fidelities") or {}).items()
    }
    return {**study, "methods": kept(study["methods"]), **({"fidelities": fidelities} if fidelities else {})}


def with_borrowed_rows(
    study: dict[str, Any], path: Path, paths: dict[str, Path], read: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """Rows that say `from: <study>` are that study's rows of the same name, under this study's protocol.

    A row brings its loss, miner, sampler, forward pass, head and the optimiser of the loss's own parameters; batches,
    rates, schedule, transforms and backbone are the protocol's, unless the row says otherwise.
    """
    methods = {}
    for method, own in study["methods"].items():
        methods[method] = own
        if not isinstance(own, dict) or "from" not in own:
            continue
        name = own["from"]
        if name not in paths or paths[name] == path:
            raise UserError(f"{path}, method '{method}': 'from' names no other study '{name}'; {nearest(name, paths)}.")
        rows = with_base(read(paths[name]), paths[name], paths, read)["methods"]
        if method not in rows:
            raise UserError(f"{path}: study '{name}' has no method '{method}'; {nearest(method, rows)}.")
        layers = {"": rows[method], **(rows[method].get("datasets") or {})}
        taken = {layer: _of_a_method(settings or {}) for layer, settings in layers.items()}
        row = taken.pop("")
        if any(taken.values()):
            row["datasets"] = taken
        methods[method] = merge(row, {key: value for key, value in own.items() if key != "from"})
    return {**study, "methods": methods}


def _of_a_method(settings: dict[str, Any]) -> dict[str, Any]:
    taken = {key: settings[key] for key in OF_A_METHOD if key in settings}
    if head := (taken.pop("model", None) or {}).get("head"):
        taken["model"] = {"head": head}
    if loss := (settings.get("optimisers") or {}).get("loss"):
        taken["optimisers"] = {"loss": loss}
    return taken


def with_fidelity(study: dict[str, Any], chosen: str | None, source: str | Path) -> dict[str, Any]:
    """The study with the changes of one of its `fidelities`: the chosen one, else the one that it names itself."""
    known = {RECOMMENDED: {}, **(study.get("fidelities") or {})}
    name = study.get("fidelity", RECOMMENDED)
    if chosen is not None and "fidelities" in study:
        name = chosen
    if name not in known:
        raise UserError(f"{source}: there is no fidelity '{name}'; {nearest(name, known)}.")
    changes = known[name] or {}
    rows = changes.get("methods", {})
    for row in rows:
        if row not in study["methods"]:
            raise UserError(
                f"{source}, fidelity '{name}': there is no method '{row}'; {nearest(row, study['methods'])}."
            )
    return {
        **study,
        "fidelity": name,
        "protocol": merge(study["protocol"], changes.get("protocol", {})),
        "methods": {row: merge(spec, rows.get(row, {})) for row, spec in study["methods"].items()},
    }


def with_sweep(study: dict[str, Any], source: str | Path) -> dict[str, Any]:
    """The rows of a sweep: each of its methods with each of its values, called <method>_<value>."""
    sweep = study.get("sweep")
    if not sweep:
        return study
    rows: dict[str, Any] = {}
    for method in sweep["methods"]:
        if method not in study["methods"]:
            raise UserError(f"{source}, 'sweep': there is no method '{method}'; {nearest(method, study['methods'])}.")
        row = study["methods"][method]
        for value, settings in sweep["values"].items():
            if not str(value).isdecimal():
                raise UserError(
                    f"{source}, 'sweep': the value '{value}' must be a whole number: it is part of a row's name."
                )
            own = {key: part for key, part in (settings or {}).items() if key != "methods"}
            changed = merge(merge(row, own), (settings or {}).get("methods", {}).get(method, {}))
            rows[f"{method}_{value}"] = {**changed, "label": f"{row['label']}, {value}"}
    return {**study, "methods": rows}


def swept(study: dict[str, Any]) -> dict[str, list[tuple[float, str]]]:
    """Of each method of a sweep, by its label, the values and their rows: those that the study has (or a variant)."""
    found: dict[str, list[tuple[float, str]]] = {}
    for method in study["sweep"]["methods"]:
        for value in study["sweep"]["values"]:
            if row := study["methods"].get(f"{method}_{value}"):
                label = row["label"].removesuffix(f", {value}")
                found.setdefault(label, []).append((float(value), f"{method}_{value}"))
    return found
