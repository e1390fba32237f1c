"""The warnings of a table: what sanity checks found in its runs and evaluations, per row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recheck.names import view_title
from recheck.sanity import CHECKS, Finding


@dataclass(frozen=True)
class Warned:
    """A check that found something in a row; ``where`` says in which runs, seeds or views, if not in all."""

    method: str
    check: str
    where: str = ""

    @property
    def sentence(self) -> str:
        # a newer version of Recheck may know other checks
        return CHECKS.get(self.check, self.check)


def of_rows(runs: Iterable[Mapping[str, Any]], evaluations: Iterable[Mapping[str, Any]]) -> list[Warned]:
    """The warnings of all rows, in the order of the checks.

    ``runs`` are records (``run.json``); ``evaluations`` have method, seed, view and warnings.
    """
    runs, evaluations = list(runs), list(evaluations)
    warnings = [*_of_runs(runs), *_of_selection(runs), *_of_evaluations(evaluations)]
    order = list(CHECKS)
    return sorted(warnings, key=lambda warned: order.index(warned.check) if warned.check in order else len(order))


def _of_runs(runs: list[Mapping[str, Any]]) -> list[Warned]:
    return [
        Warned(method, check, _share(len(flagged), len(records), "runs"))
        for method, records in _by_method(runs).items()
        for check, flagged in _by_check(records).items()
    ]


def _of_selection(runs: list[Mapping[str, Any]]) -> list[Warned]:
    """Rows with a seed whose folds all chose epoch 0 although they were trained."""
    warnings = []
    for method, records in _by_method(runs).items():
        seeds: dict[int, list[bool]] = {}
        for run in records:
            seeds.setdefault(run["seed"], []).append(bool(run.get("epochs")) and run.get("best_epoch") == 0)
        chosen = sum(all(folds) for folds in seeds.values())
        if chosen:
            warnings.append(Warned(method, "epoch_0", _share(chosen, len(seeds), "seeds")))
    return warnings


def _of_evaluations(evaluations: list[Mapping[str, Any]]) -> list[Warned]:
    warnings = []
    for method, results in _by_method(evaluations).items():
        views = {result["view"] for result in results}
        for check, places in _by_check(results).items():
            in_views = dict.fromkeys(view_title(place["view"]) for place in places)
            seeds = {place["seed"] for place in places}, {result["seed"] for result in results}
            where = [" and ".join(in_views) if len(in_views) < len(views) else "", _share(*map(len, seeds), "seeds")]
            warnings.append(Warned(method, check, ", ".join(filter(None, where))))
    return warnings


def _by_method(places: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for place in places:
        by_method.setdefault(place["method"], []).append(place)
    return by_method


def _by_check(places: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Check → the runs or evaluations in which it found something."""
    by_check: dict[str, list[Mapping[str, Any]]] = {}
    for place in places:
        findings: list[Finding] = place.get("warnings") or []
        for check in dict.fromkeys(finding["check"] for finding in findings):
            by_check.setdefault(check, []).append(place)
    return by_check


def _share(count: int, total: int, what: str) -> str:
    return "" if count == total else f"{count} of {total} {what}"
