"""What searches found: the chosen values, the table of trials, and how the chosen values did when trained again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from recheck.errors import UserError
from recheck.files import read_json
from recheck.report.results import place
from recheck.space import filled, get

TRIAL_COLUMNS = ("round", "trial", "state", "objective", "standard_error")


@dataclass(frozen=True)
class Searched:
    """The search of one row: validation of the selected trial and of its reruns, in percent, and what it took.

    ``rerun`` is the mean over the table's seeds, without the selected trial; NaN before the first rerun.
    """

    metric: str
    selected: float
    rerun: float
    trials: int
    failed: int
    on_bound: tuple[str, ...]


def read_chosen(paths: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """Row → content of its best.json."""
    return {place(path).method: _content(path, "values") for path in paths}


def read_importances(paths: Iterable[str | Path]) -> dict[str, dict[str, float]]:
    """Row → share of each free setting, without the rows whose trials do not determine them."""
    shares = {place(path).method: _content(path, "importance")["importance"] for path in paths}
    return {row: of_row for row, of_row in shares.items() if of_row}


def _content(path: str | Path, key: str) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or key not in content:
        raise UserError(f"{path} has no '{key}': delete it and run again to recreate it.")
    return content


def read_trials(paths: Iterable[str | Path]) -> dict[str, pd.DataFrame]:
    """Row → its trials, in their order: TRIAL_COLUMNS, one column per free setting, and the reason of a failure."""
    trials = {}
    for path in paths:
        try:
            table = pd.read_csv(path, keep_default_na=False, na_values=[""])
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not valid CSV ({error}): delete it and run again to recreate it.") from None
        if missing := [name for name in TRIAL_COLUMNS if name not in table]:
            raise UserError(f"{path} has no column '{missing[0]}': delete it and run again to recreate it.")
        trials[place(path).method] = table
    return trials


def searched(chosen: Mapping[str, Mapping[str, Any]], runs: Iterable[Mapping[str, Any]]) -> dict[str, Searched]:
    """Row → its search, from the chosen values and the records of all final runs.

    A run with other values is left out: the search has chosen new ones, and the run has not been trained with them yet.
    """
    reruns: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        best = chosen.get(run["method"])
        if best and "best" in run and _has(run.get("configuration", {}), best["values"]):
            value = run["best"].get(best["metric"])
            reruns.setdefault(run["method"], {}).setdefault(run["seed"], []).append(value)
    return {
        row: Searched(
            content["metric"].partition("_")[2],
            100 * content["objective"],
            100 * float(np.mean([np.mean(folds) for folds in reruns[row].values()])) if row in reruns else np.nan,
            content["trials"],
            content["failed"],
            tuple(content["on_bound"]),
        )
        for row, content in chosen.items()
    }


def _has(configuration: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(get(configuration, name) == value for name, value in values.items())


def chosen_study(base: str, paths: Iterable[str | Path], blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """The YAML of a study with the chosen values of another study, and without its searches.

    ``blocks`` maps each dataset to the name of the rows' block for it and, if the block is new, to what it starts from.
    """
    rows: dict[str, dict[str, Any]] = {}
    for about in blocks.values():
        for row, content in (about["new"] or {}).items():
            rows.setdefault(row, {})[about["block"]] = content
    for path in paths:
        where, content = place(path), read_chosen([path])
        block, of_row = blocks[where.dataset]["block"], rows.setdefault(where.method, {})
        of_row[block] = filled(of_row.get(block, {}), content[where.method]["values"])
    study: dict[str, Any] = {}
    if any(about["new"] is not None for about in blocks.values()):
        study["datasets"] = {
            dataset: None if about["new"] is None else {"hyperparameters_of": about["block"]}
            for dataset, about in blocks.items()
        }
    study["methods"] = {row: {"datasets": datasets} for row, datasets in rows.items()}
    about = f"# The values that the searches of study '{base}' chose. With an empty 'tuning', rows train with them."
    text = yaml.safe_dump(study, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return f"{about}\nbase: {base}\ntuning:\n{text}"
