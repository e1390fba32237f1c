"""The trials of a search: what a round proposed, what its runs measured, and the table of all trials."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recheck.errors import UserError
from recheck.files import read_json
from recheck.space import filled

FINISHED, FAILED = "finished", "failed"
COLUMNS = ("round", "trial", "state", "objective", "standard_error")


@dataclass(frozen=True)
class Trial:
    """A finished or failed trial; ``objective`` is the mean over its folds and None if a fold failed."""

    trial: int
    round: int
    values: dict[str, Any]
    state: str
    objective: float | None = None
    standard_error: float | None = None
    reason: str = ""


def proposed_values(path: str | Path, trial: int) -> dict[str, Any]:
    """The values that a round's file proposes for a trial."""
    for proposal in _field(path, "proposed"):
        if proposal["trial"] == trial:
            return proposal["values"]
    raise UserError(f"{path} has no trial {trial}: delete it and run again to recreate it.")


def completed(configuration: Mapping[str, Any], path: str | Path | None, trial: int | None = None) -> dict[str, Any]:
    """Run settings with the values of their free settings.

    ``path`` is the file of a round, if ``trial`` is given, or the file of chosen values. Without ``path``
    there are no free settings.
    """
    if path is None:
        return dict(configuration)
    return filled(configuration, _field(path, "values") if trial is None else proposed_values(path, trial))


def round_file(number: int, finished: Sequence[Trial], proposed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The content of a round's file: all trials of earlier rounds, and what this round tries."""
    return {
        "round": number,
        "finished": [asdict(trial) for trial in finished],
        "proposed": [{"trial": trial, "values": dict(values)} for trial, values in sorted(proposed.items())],
    }


def finished_trials(path: str | Path, records: Iterable[str | Path], objective: str) -> list[Trial]:
    """All trials up to the end of a round, in their order, from the round's file and the records of its runs.

    ``objective`` is the column of the history to maximise.
    """
    number, earlier = _field(path, "round"), [Trial(**trial) for trial in _field(path, "finished")]
    folds: dict[int, dict[int, Any]] = {}
    for record in map(read_json, records):
        folds.setdefault(record["trial"], {})[record["fold"]] = record
    measured = []
    for proposal in _field(path, "proposed"):
        of_folds = folds.get(proposal["trial"], {})
        if not of_folds:
            raise UserError(f"No fold of trial {proposal['trial']} of {path} has been trained: run again.")
        measured.append(
            _measured(proposal["trial"], number, proposal["values"], [of_folds[f] for f in sorted(of_folds)], objective)
        )
    return sorted([*earlier, *measured], key=lambda trial: trial.trial)


def _measured(
    trial: int, number: int, values: dict[str, Any], folds: Sequence[Mapping[str, Any]], objective: str
) -> Trial:
    for record in folds:
        if record.get("failed"):
            return Trial(trial, number, values, FAILED, reason=f"fold {record['fold']}: {record['failed']}")
    scores = [record["best"][objective] for record in folds]
    mean = math.fsum(scores) / len(scores)
    spread = math.fsum((score - mean) ** 2 for score in scores)
    error = math.sqrt(spread / (len(scores) - 1) / len(scores)) if len(scores) > 1 else None
    return Trial(trial, number, values, FINISHED, mean, error)


def best(trials: Iterable[Trial]) -> Trial | None:
    """The trial with the highest objective, the first one if several are equal; None if all failed."""
    finished = [trial for trial in trials if trial.objective is not None]
    return max(finished, key=lambda trial: (trial.objective, -trial.trial)) if finished else None


def table(trials: Iterable[Trial], parameters: Sequence[str]) -> str:
    """One line per trial, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *parameters, "reason"])
    for trial in trials:
        about = asdict(trial)
        writer.writerow(
            [
                *(_text(about[column]) for column in COLUMNS),
                *(_text(trial.values[name]) for name in parameters),
                trial.reason,
            ]
        )
    return text.getvalue()


def _text(value: Any) -> str:
    """A value with all digits, so that it reads back to the same bits."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _field(path: str | Path, name: str) -> Any:
    content = read_json(path)
    if not isinstance(content, dict) or name not in content:
        raise UserError(f"{path} has no '{name}': delete it and run again to recreate it.")
    return content[name]
