"""Published hyper-parameter searches: their spaces, all their trials, and what can be computed from them."""

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from recheck.errors import UserError
from recheck.space import Parameter

SPACES, TRIALS = "spaces.tsv", "trials.tsv"
KEY = ("dataset", "row", "batch")
ABOUT_SPACE = (*KEY, "setting", "low", "high", "log", "startup", "published_name")
ABOUT_TRIAL = (*KEY, "trial", "best_so_far", "objective", "error_bar")
# A search is close to its best once its objective is within this difference of it: half a percentage point.
CLOSE = 0.005
# Values closer than this fraction of the range are equal: at a bound, an optimiser tries the bound, up to rounding.
SAME = 1e-9


@dataclass(frozen=True)
class QuotedTrial:
    """A published trial; objectives of single trials were published only for searches with one setting."""

    trial: int
    best_so_far: float
    values: Mapping[str, float]
    objective: float | None = None
    error_bar: float | None = None


@dataclass(frozen=True)
class QuotedSearch:
    """A published search. Objectives are fractions, and trials are in the order in which they were run.

    The first ``startup`` trials were proposed without regard to any result.
    """

    dataset: str
    row: str
    batch: int
    startup: int
    space: tuple[Parameter, ...]
    trials: tuple[QuotedTrial, ...]

    @property
    def best_so_far(self) -> list[float]:
        return [trial.best_so_far for trial in self.trials]

    @property
    def best(self) -> float:
        return self.trials[-1].best_so_far

    @cached_property
    def selected(self) -> QuotedTrial:
        """The first trial that reached the best objective."""
        return next(trial for trial in self.trials if trial.best_so_far >= self.best)

    @property
    def needed(self) -> int:
        return needed(self.best_so_far)

    @property
    def has_objectives(self) -> bool:
        return all(trial.objective is not None for trial in self.trials)

    @cached_property
    def on_bound(self) -> dict[str, str]:
        """Setting → the bound that its selected value lies on; settings between their bounds are left out.

        Bounds were widened by hand during some searches, and only the final ones were published. An earlier bound shows
        in the trials: the selected value is the lowest or the highest so far, and was tried more than once.
        """
        bounds = {parameter.name: self._bound(parameter) for parameter in self.space}
        return {name: bound for name, bound in bounds.items() if bound}

    def _bound(self, parameter: Parameter) -> str:
        selected = self.selected
        tried = [parameter.place(trial.values[parameter.name]) for trial in self.trials[: selected.trial + 1]]
        place = tried[-1]
        for end, extreme, bound in (("lower", min(tried), 0), ("upper", max(tried), 1)):
            if abs(place - bound) <= SAME:
                return f"{end} bound"
            if abs(place - extreme) <= SAME and sum(abs(other - place) <= SAME for other in tried) > 1:
                return f"{end} bound, later widened"
        return ""


def needed(best_so_far: Sequence[float]) -> int:
    """The number of trials after which a search was close to its own best."""
    return 1 + next(number for number, value in enumerate(best_so_far) if value >= best_so_far[-1] - CLOSE)


def median_needed(searches: Iterable[QuotedSearch]) -> dict[str, float]:
    """Row → median number of trials that its published searches needed; the smallest median comes first."""
    counts: dict[str, list[int]] = {}
    for search in searches:
        counts.setdefault(search.row, []).append(search.needed)
    medians = {row: statistics.median(values) for row, values in counts.items()}
    return dict(sorted(medians.items(), key=lambda item: (item[1], statistics.mean(counts[item[0]]))))


def files(folder: str | Path) -> list[str]:
    """The files of a folder of published searches."""
    return [str(Path(folder, name)) for name in (SPACES, TRIALS)]


@cache
def read(folder: str | Path) -> tuple[QuotedSearch, ...]:
    """All searches of a folder with the files ``spaces.tsv`` and ``trials.tsv``, in the order of the first file."""
    spaces: dict[tuple[str, str, int], list[Parameter]] = {}
    startups: dict[tuple[str, str, int], int] = {}
    for where, line in _lines(Path(folder, SPACES), ABOUT_SPACE):
        low, high = _number(line, "low", where), _number(line, "high", where)
        if low >= high or line["log"] not in ("true", "false"):
            raise UserError(
                f"{where}: expected 'low' below 'high' and 'log' true or false, found {low}, {high} and "
                f"'{line['log']}'."
            )
        startup = int(_number(line, "startup", where))
        if startups.setdefault(_key(line, where), startup) != startup:
            raise UserError(
                f"{where}: 'startup' must be the same in all lines of a search, found {startups[_key(line, where)]} "
                f"and {startup}."
            )
        spaces.setdefault(_key(line, where), []).append(
            Parameter(line["setting"], low, high, log=line["log"] == "true")
        )
    trials: dict[tuple[str, str, int], list[QuotedTrial]] = {key: [] for key in spaces}
    for where, line in _lines(Path(folder, TRIALS), ABOUT_TRIAL):
        key = _key(line, where)
        if key not in spaces:
            raise UserError(
                f"{where}: {SPACES} beside it has no search {', '.join(map(str, key))}. Add its space, or remove the "
                "trial."
            )
        if line["trial"] != str(len(trials[key])):
            raise UserError(f"{where}: expected trial {len(trials[key])} of this search, found '{line['trial']}'.")
        known = [name for name in ("objective", "error_bar") if line[name]]
        trials[key].append(
            QuotedTrial(
                len(trials[key]),
                _number(line, "best_so_far", where),
                {parameter.name: _number(line, parameter.name, where) for parameter in spaces[key]},
                **{name: _number(line, name, where) for name in known},
            )
        )
    for key, of_search in trials.items():
        if not of_search:
            raise UserError(
                f"{Path(folder, TRIALS)} has no trial of the search {', '.join(map(str, key))}. Add its trials, or "
                f"remove it from {SPACES}."
            )
    return tuple(QuotedSearch(*key, startups[key], tuple(spaces[key]), tuple(trials[key])) for key in spaces)


def _lines(path: Path, columns: Sequence[str]) -> Iterable[tuple[str, dict[str, str]]]:
    """Place (for messages) and content of every line of a tab-separated file."""
    if not path.exists():
        raise UserError(f"{path} does not exist. A folder of published searches needs {SPACES} and {TRIALS}.")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t")
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise UserError(f"{path} has no column '{missing[0]}'. Add it.")
        for number, line in enumerate(reader, start=2):
            if None in line or None in line.values():
                surplus = line.pop(None, [])
                count = len(surplus) + sum(value is not None for value in line.values())
                raise UserError(
                    f"{path}, line {number}: expected {len(reader.fieldnames)} values separated by tabs, found {count}."
                )
            yield f"{path}, line {number}", line


def _key(line: Mapping[str, str], where: str) -> tuple[str, str, int]:
    return line["dataset"], line["row"], int(_number(line, "batch", where))


def _number(line: Mapping[str, Any], column: str, where: str) -> float:
    try:
        value = float(line.get(column, ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{where}: '{column}' must be a number, found '{line.get(column, '')}'.")
    return value
