"""What a table says, in percent: one row for each method, view and metric."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

# A row that is computed, not measured; and what is no better for being higher.
CHANCE, NOT_RANKED = "chance", ("distance",)


@dataclass(frozen=True)
class Published:
    """Values quoted from one document, in percent: method -> view -> metric."""

    source: str
    values: Mapping[str, Mapping[str, Mapping[str, float]]]
    # read off a plot
    approximate: bool = False
    # why values of a row are doubtful: method -> sentence
    notes: Mapping[str, str] = field(default_factory=dict)

    def value(self, method: str, view: str, metric: str) -> float:
        return float(((self.values.get(method) or {}).get(view) or {}).get(metric, np.nan))

    def note(self, method: str, metric: str, metrics: Collection[str] = ()) -> str:
        """The note on a value; one that begins with the name of another of the ``metrics`` is about that one alone."""
        text = self.notes.get(method, "")
        about = text.split(maxsplit=1)[0].rstrip(":,") if text else ""
        return "" if about in metrics and about != metric else text


def build(
    facts: Mapping[str, Any],
    summary: pd.DataFrame,
    chance: Mapping[str, Mapping[str, float]] | None = None,
    failed: Collection[str] = (),
) -> pd.DataFrame:
    """The rows in the study's order; what was not measured is NaN.

    ``chance``, by view and metric, is a row of its own before all others; ``failed`` are names of rows.
    """
    measured = summary.set_index(["method", "view", "metric"])
    documents = [Published(**document) for document in facts["published"]]
    rows = _chance_rows(chance, facts, len(documents)) if chance else []
    for row in facts["rows"]:
        name = row["name"]
        for view in facts["views"]:
            for metric in facts["metrics"]:
                found = measured.loc[(name, view, metric)] if (name, view, metric) in measured.index else None
                values = [document.value(name, view, metric) for document in documents]
                mean = np.nan if found is None else 100 * found["mean"]
                first = next((value for value in values if not np.isnan(value)), np.nan)
                rows.append(
                    {
                        "method": name,
                        "label": row["label"],
                        "view": view,
                        "metric": metric,
                        "dim": None if found is None or pd.isna(found["dim"]) else int(found["dim"]),
                        "mean": mean,
                        "interval": np.nan if found is None else 100 * found["interval"],
                        "seeds": 0 if found is None else int(found["seeds"]),
                        "planned": row["seeds"],
                        "failed": name in failed,
                        "published": first,
                        "quotes": tuple(values),
                        "approximate": tuple(document.approximate for document in documents),
                        "notes": tuple(document.note(name, metric, facts["metrics"]) for document in documents),
                        "difference": mean - first,
                    }
                )
    return _with_best(pd.DataFrame(rows))


def _chance_rows(
    chance: Mapping[str, Mapping[str, float]], facts: Mapping[str, Any], documents: int
) -> list[dict[str, Any]]:
    none = {"dim": None, "interval": np.nan, "seeds": 0, "planned": 0, "failed": False}
    quotes = {"published": np.nan, "quotes": (np.nan,) * documents, "difference": np.nan}
    doubts = {"approximate": (False,) * documents, "notes": ("",) * documents}
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


def _with_best(table: pd.DataFrame) -> pd.DataFrame:
    """Mark the best of each column, of our own values if there are any.

    They are compared as printed: two cells that read the same are either both best or both not.
    """
    lead = table["mean"] if table["mean"].notna().any() else table["published"]
    printed = lead.round(2).where((table["method"] != CHANCE) & ~table["metric"].isin(NOT_RANKED))
    highest = printed.groupby([table["view"], table["metric"]]).transform("max")
    return table.assign(best=printed.notna() & (printed == highest))


def with_quotes_only(table: pd.DataFrame) -> pd.DataFrame:
    """The views and metrics that something was published for; all of them if nothing was."""
    quoted = table.groupby(["view", "metric"])["published"].transform("count") > 0
    return table[quoted].reset_index(drop=True) if quoted.any() else table


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The frame as plain data: None where there is no number."""
    return [{key: _plain(value) for key, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def from_records(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The frame that ``records`` was made from."""
    table = pd.DataFrame(rows).astype(dict.fromkeys(("mean", "interval", "published", "difference"), float))
    quotes = [tuple(np.nan if value is None else value for value in values) for values in table["quotes"]]
    return table.assign(quotes=quotes, **{name: table[name].map(tuple) for name in ("approximate", "notes")})
