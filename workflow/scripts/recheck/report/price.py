"""What training a row costs: images through the network, trainable parameters and CPU seconds, from ``run.json``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Price:
    """The cost of one seed of a row, all of its folds or members together; NaN if no run has recorded it.

    Each value is the median over runs times the number of members, so that one interrupted run does not distort it.
    """

    images: float
    parameters: float
    seconds: float


def prices(runs: Iterable[Mapping[str, Any]]) -> dict[str, Price]:
    """Row → the cost of one seed, from the records of all runs."""
    by_row: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        by_row.setdefault(run["method"], []).append(run)
    return {row: _price(records) for row, records in by_row.items()}


def _price(runs: list[Mapping[str, Any]]) -> Price:
    members = len({run["fold"] for run in runs})
    parameters = [_total(run.get("trainable_parameters")) for run in runs]
    return Price(
        *(members * _median(values) for values in (_of(runs, "images_forwarded"), parameters, _of(runs, "cpu_seconds")))
    )


def _of(runs: list[Mapping[str, Any]], key: str) -> list[float]:
    return [float(run.get(key, np.nan)) for run in runs]


def _total(parameters: Mapping[str, int] | None) -> float:
    return np.nan if parameters is None else float(sum(parameters.values()))


def _median(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else np.nan
