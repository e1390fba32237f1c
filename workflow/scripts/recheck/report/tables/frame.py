"""The content of a table as a frame: one row per method, view and metric, in percent (distances as they are)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from recheck.names import DISTANCES, VALIDATION
from recheck.report import verdicts
from recheck.report.price import Price
from recheck.report.searches import Searched
from recheck.report.tables import bold

SEARCHED = ("metric", "selected", "rerun", "trials", "failed", "on_bound")
COSTS, NO_PRICE = ("images", "parameters", "seconds"), Price(np.nan, np.nan, np.nan)
# The row that is computed, not measured; and metrics for which higher is not better.
CHANCE, NOT_RANKED = "chance", DISTANCES
# How precise a published value is: number of runs, their standard deviation, error of reading the value.
PRECISION, NO_PRECISION = ("published_runs", "published_spread", "reading_error"), (0, np.nan, np.nan)


@dataclass(frozen=True)
class Published:
    """Values quoted from one document, as printed: method → view → metric."""

    source: str
    values: Mapping[str, Mapping[str, Mapping[str, float]]]
    # whether the values were read off a plot
    approximate: bool = False
    # largest error of reading or rounding a value
    reading_error: float = 0.0
    # number of runs that the values of a method are the mean of, and their standard deviations
    runs: Mapping[str, int] = field(default_factory=dict)
    spread: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    # why values of a row are doubtful: method → sentence
    notes: Mapping[str, str] = field(default_factory=dict)
    # link and BibTeX entry
    paper: Mapping[str, str] | None = None

    def value(self, method: str, view: str, metric: str) -> float:
        return _value(self.values, method, view, metric)

    def precision(self, method: str, view: str, metric: str) -> tuple[int, float, float]:
        """Number of runs, standard deviation over them (NaN if it was not published) and error of reading a value."""
        return self.runs.get(method, 1), _value(self.spread, method, view, metric), self.reading_error

    def note(self, method: str, metric: str, metrics: Collection[str] = ()) -> str:
        """The note on a value; a note that begins with the name of another metric is only about that metric."""
        text = self.notes.get(method, "")
        about = text.split(maxsplit=1)[0].rstrip(":,") if text else ""
        return "" if about in metrics and about != metric else text


def _value(values: Mapping[str, Any], method: str, view: str, metric: str) -> float:
    return float(((values.get(method) or {}).get(view) or {}).get(metric, np.nan))


def build(
    facts: Mapping[str, Any],
    summary: pd.DataFrame,
    chance: Mapping[str, Mapping[str, float]] | None = None,
    failed: Collection[str] = (),
    warned: Collection[str] = (),
) -> pd.DataFrame:
    """The frame with rows in the study's order; values that were not measured are NaN.

    ``chance`` (by view and metric) becomes the first row; ``failed`` and ``warned`` are names of rows. ``planned`` is 0
    for values that nothing will measure.
    """
    measured = summary.set_index(["method", "view", "metric"])
    documents = [Published(**document) for document in facts["published"]]
    rows = _chance_rows(chance, facts, len(documents)) if chance else []
    values_of: dict[int, dict[int, float]] = {}
    for row in facts["rows"]:
        name = row["name"]
        for view, metric in _shown(facts):
            ours = measured.loc[(name, view, metric)] if (name, view, metric) in measured.index else None
            values = [document.value(name, view, metric) for document in documents]
            unit = 1 if metric in DISTANCES else 100
            mean = np.nan if ours is None else unit * ours["mean"]
            place = next((place for place, value in enumerate(values) if not np.isnan(value)), None)
            first = np.nan if place is None else values[place]
            precision = NO_PRECISION if place is None else documents[place].precision(name, view, metric)
            if ours is not None:
                values_of[len(rows)] = ours["by_seed"]
            rows.append(
                {
                    "method": name,
                    "label": row["label"],
                    "view": view,
                    "metric": metric,
                    "dim": None if ours is None or pd.isna(ours["dim"]) else int(ours["dim"]),
                    "mean": mean,
                    "interval": np.nan if ours is None else unit * ours["interval"],
                    "seeds": 0 if ours is None else int(ours["seeds"]),
                    "planned": row["seeds"] if view != VALIDATION or row["trained"] else 0,
                    "failed": name in failed,
                    "warned": name in warned,
                    "published": first,
                    "quotes": tuple(values),
                    "approximate": tuple(document.approximate for document in documents),
                    "notes": tuple(document.note(name, metric, facts["metrics"]) for document in documents),
                    "difference": mean - first,
                    **dict(zip(PRECISION, precision, strict=True)),
                }
            )
    table = pd.DataFrame(rows)
    ranked = (table["method"] != CHANCE) & ~table["metric"].isin(NOT_RANKED) & ~table["warned"]
    table = table.assign(best=bold.best(table, ranked, values_of))
    return verdicts.judged(table, values_of, facts["verdicts"], facts["scope"] != "published")


def _shown(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The views and metrics of the table; the metric on validation classes is the last."""
    shown = [(view, metric) for view in facts["views"] for metric in facts["metrics"]]
    return [*shown, (VALIDATION, facts["validation"])] if facts["validation"] else shown


def _chance_rows(
    chance: Mapping[str, Mapping[str, float]], facts: Mapping[str, Any], documents: int
) -> list[dict[str, Any]]:
    none = {"dim": None, "interval": np.nan, "seeds": 0, "planned": 0, "failed": False, "warned": False}
    quotes = {"published": np.nan, "quotes": (np.nan,) * documents, "difference": np.nan}
    doubts = {"approximate": (False,) * documents, "notes": ("",) * documents}
    doubts |= dict(zip(PRECISION, NO_PRECISION, strict=True))
    return [
        {
            **{"method": CHANCE, "label": "Chance", "view": view, "metric": metric},
            "mean": 100 * chance[view].get(metric, np.nan),
            **none,
            **quotes,
            **doubts,
        }
        for view in facts["views"]
        for metric in facts["metrics"]
    ]


def with_searches(table: pd.DataFrame, searched: Mapping[str, Searched]) -> pd.DataFrame:
    """The frame with what the search of each row found; empty for rows without a search."""
    none = Searched("", np.nan, np.nan, 0, 0, ())
    of_rows = [searched.get(name, none) for name in table["method"]]
    return table.assign(**{f"search_{key}": [getattr(each, key) for each in of_rows] for key in SEARCHED})


def with_prices(table: pd.DataFrame, rows: Sequence[Mapping[str, Any]], prices: Mapping[str, Price]) -> pd.DataFrame:
    """The frame with what each row needs beyond the protocol and what it costs; ``rows`` are the facts of the rows."""
    needs = {row["name"]: tuple(row["needs"]) for row in rows}
    of_rows = [prices.get(name, NO_PRICE) for name in table["method"]]
    costs = {f"cost_{key}": [getattr(each, key) for each in of_rows] for key in COSTS}
    return table.assign(cost_needs=[needs.get(name, ()) for name in table["method"]], **costs)


def with_quotes_only(table: pd.DataFrame) -> pd.DataFrame:
    """The views and metrics with at least one published value; all of them if there is none."""
    quoted = table.groupby(["view", "metric"])["published"].transform("count") > 0
    return table[quoted].reset_index(drop=True) if quoted.any() else table


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The frame as plain data, with None for missing numbers."""
    return [{key: _plain(value) for key, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def from_records(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The frame, restored from the result of ``records``."""
    table = pd.DataFrame(rows).astype(
        dict.fromkeys(("mean", "interval", "published", "difference", *verdicts.NUMBERS), float)
    )
    if "search_trials" in table:
        table = table.astype(dict.fromkeys(("search_selected", "search_rerun"), float))
        table["search_on_bound"] = table["search_on_bound"].map(tuple)
    if "cost_needs" in table:
        table = table.astype({f"cost_{key}": float for key in COSTS})
        table["cost_needs"] = table["cost_needs"].map(tuple)
    quotes = [tuple(np.nan if value is None else value for value in values) for values in table["quotes"]]
    return table.assign(quotes=quotes, **{name: table[name].map(tuple) for name in ("approximate", "notes")})
