"""Checks of a search when the study is read: its free settings, their values, and what it may see."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from recheck import space as spaces
from recheck.errors import UserError, nearest
from recheck.names import watched_metrics
from recheck.study.model import Run
from recheck.study.schema import has_setting, settings_used_by, validate_settings
from recheck.study.search import ADAPTIVE, Search

# Settings that a search must not change: they choose the checkpoint that is measured, or files that the plan needs.
FIXED = ("selection", "transforms", "model.backbone.name", "model.backbone.weights")
KEYS = ("low", "high", "log", "integer")
# A larger grid is a mistake: its points would fill the memory, and no search tries them all.
LARGEST_GRID = 100_000


def check_search(run: Run, source: str, check: Callable[[Run], None]) -> None:
    """Raise a UserError if the search of a run cannot work; ``check`` refuses settings that do not work."""
    space = run.settings.get("space")
    if not space:
        return
    if not run.settings.get("tuning"):
        raise UserError(
            f"{source}: 'space' needs a search. Add 'tuning: {{sampler: gp, rounds: 10, trials: 5}}' to the study, or "
            "remove 'space'."
        )
    if not run.trained:
        raise UserError(
            f"{source}: 'space' is only for rows that are trained, but this row is not trained. Remove 'space'."
        )
    for name, entry in space.items():
        _check_entry(name, entry, source)
        _check_setting(run, name, source)
    _check_budget(run.search, source)
    _check_folds(run, source)
    _check_objective(run, source)
    _check_ends(run, source, check)


def _check_entry(name: str, entry: Mapping[str, Any], source: str) -> None:
    """Refuse an empty interval, and an entry that is both a list and an interval."""
    key = f"'space.{name}'"
    if "values" in entry:
        if others := [word for word in KEYS if word in entry]:
            raise UserError(f"{source}: {key} has both 'values' and '{others[0]}'. Remove one of them.")
        if len({_kind(value) for value in entry["values"]}) > 1:
            raise UserError(
                f"{source}: {key} has values of several types, found {entry['values']}. Use only numbers, only text, "
                "or only true and false."
            )
        return
    if missing := [word for word in ("low", "high") if word not in entry]:
        raise UserError(f"{source}: {key} has no '{missing[0]}'. Give 'low' and 'high', or a list of 'values'.")
    low, high = entry["low"], entry["high"]
    if not low < high:
        raise UserError(f"{source}: {key} has low {low} and high {high}. 'low' must be less than 'high'.")
    if entry.get("log") and low <= 0:
        raise UserError(
            f"{source}: {key} is searched on a logarithmic scale, so 'low' must be greater than 0, found {low}. "
            "Raise 'low', or remove 'log'."
        )
    if entry.get("integer") and not all(float(bound).is_integer() for bound in (low, high)):
        raise UserError(
            f"{source}: {key} is 'integer', so 'low' and 'high' must be whole numbers, found {low} and {high}."
        )


def _kind(value: Any) -> type:
    """bool, str or, for every number, float."""
    return float if spaces.is_number(value) else type(value)


def _check_setting(run: Run, name: str, source: str) -> None:
    """Refuse a setting that the run does not have or that a search must not change."""
    if _fixed(name):
        raise UserError(f"{source}: 'space' cannot change '{name}'. Use a separate row for each value.")
    trained = settings_used_by("training")
    known = [each for each in _dotted(run.settings) if each.partition(".")[0] in trained and not _fixed(each)]
    if name in known or (name.partition(".")[0] in trained and has_setting(name)):
        return
    raise UserError(
        f"{source}: 'space' names '{name}', which is not a setting of this row; {nearest(name, known)}. To tune an "
        "argument that the row leaves to its class, give it a value in the row first."
    )


def _fixed(name: str) -> bool:
    """Whether a setting must not be searched: see `FIXED`; classes; and settings that training does not read."""
    root = name.partition(".")[0]
    if root in settings_used_by() and root not in settings_used_by("training"):
        return True
    return any(f"{name}.".startswith(f"{fixed}.") for fixed in FIXED) or name.endswith(".class")


def _dotted(settings: Any, prefix: str = "") -> list[str]:
    """The dotted names of all single settings; lists have none."""
    if not isinstance(settings, Mapping):
        return [prefix] if prefix and not isinstance(settings, list) else []
    inner = ((f"{prefix}.{key}" if prefix else str(key), value) for key, value in settings.items())
    return [name for key, value in inner for name in _dotted(value, key)]


def _check_budget(search: Search, source: str) -> None:
    if search.sampler in ADAPTIVE and search.total < search.startup:
        raise UserError(
            f"{source}: 'tuning' has {search.total} trials ({search.rounds} × {search.trials}), but "
            f"'tuning.startup' is {search.startup}. Add rounds or trials, or lower 'startup'."
        )
    if search.sampler == "grid":
        for parameter in spaces.parameters(search.space):
            if not parameter.points:
                raise UserError(
                    f"{source}: a grid needs 'values' or 'integer: true' for every setting, but "
                    f"'space.{parameter.name}' is an interval. Add one of them, or choose another 'tuning.sampler'."
                )
        if search.grid_points > LARGEST_GRID:
            raise UserError(
                f"{source}: the grid of 'space' has {search.grid_points:,} points, but at most {LARGEST_GRID:,} are "
                "allowed. Give fewer 'values', or choose another 'tuning.sampler'."
            )


def _check_folds(run: Run, source: str) -> None:
    if run.search.folds is not None and run.search.folds > run.members:
        raise UserError(
            f"{source}: 'tuning.folds' is {run.search.folds}, but the row has {run.members} members. Lower 'folds', or "
            "remove it to train all of them."
        )


def _check_objective(run: Run, source: str) -> None:
    """Refuse a search that sees more than training and validation images, or does not compute its objective."""
    selection = run.settings["selection"]
    seen = watched_metrics(selection)
    if selection.get("role") != "val" or selection.get("what") == "members":
        key = "what" if selection.get("what") == "members" else "role"
        actual = f"is {selection[key]!r}" if selection.get(key) else "is missing"
        raise UserError(
            f"{source}: a search needs 'selection: {{role: val, metric: …}}', because only validation images may "
            f"decide, but 'selection.{key}' {actual}. Correct it, and choose a split with validation images, such as "
            "class_disjoint_folds."
        )
    if others := [role for role in seen if role not in ("train", "val")]:
        raise UserError(
            f"{source}: 'selection.watch' names '{others[0]}', which a search must not see. Remove it from the rows "
            "with 'space'."
        )
    role, _, metric = run.search.objective.partition("_")
    if metric not in seen[role]:
        raise UserError(
            f"{source}: 'tuning.objective.metric' is '{metric}', which 'selection' does not compute; "
            f"{nearest(metric, seen[role])}. Add the metric to 'selection.also'."
        )


def _check_ends(run: Run, source: str, check: Callable[[Run], None]) -> None:
    """Check the run with the first, the middle and the last value of every interval, and with every value of a list."""
    free = spaces.parameters(run.search.space)
    places = {0.0, 0.5, 1.0, *((n + 0.5) / len(each.values) for each in free for n in range(len(each.values)))}
    for place in sorted(places):
        values = {parameter.name: parameter.at(place) for parameter in free}
        settings = spaces.filled(run.untuned.settings, values)
        changed = {key: settings[key] for key in dict.fromkeys(name.partition(".")[0] for name in values)}
        try:
            # without the backbone: its weights are resolved to a file by now, which adds keys that no study has
            validate_settings(spaces.without(changed, ["model.backbone"]), source)
            check(replace(run, settings=settings))
        except UserError as error:
            tried = ", ".join(f"{name} {value}" for name, value in values.items())
            raise UserError(f"{error} (Found with these values from 'space': {tried}.)") from None
