"""Verdicts on published cells: computed for the frame of a table, counted in a sentence, listed in ``verdicts.csv``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from recheck.names import DISTANCES, VALIDATION, metric_title
from recheck.statistics import verdict
from recheck.statistics.verdict import (
    HIGHER,
    LOWER,
    MOST_SEEDS,
    NOT_RUN,
    ONE_SEED,
    REPRODUCED,
    TESTED,
    UNDECIDED,
    Quote,
)

# What the frame of a table gets. `verdict` and `seeds_needed` are texts, "" if there is none.
NUMBERS = ("published_spread", "reading_error", "sd", "low", "high", "delta", "alpha", "p", "p_equivalence")
# The lines of verdicts.csv. Dataset, method, view and metric are the keys of the rows of table.json.
COLUMNS = (
    "dataset",
    "method",
    "label",
    "view",
    "metric",
    "published",
    "published_runs",
    "published_spread",
    "reading_error",
    "seeds",
    "mean",
    "sd",
    "low",
    "high",
    "delta",
    "alpha",
    "p",
    "p_adjusted",
    "p_equivalence",
    "verdict",
    "seeds_needed",
)
MORE = f"more than {MOST_SEEDS}"


def judged(
    table: pd.DataFrame, values: Mapping[Any, Mapping[int, float]], rule: Mapping[str, Any], measured: bool
) -> pd.DataFrame:
    """The frame with the verdict on every published cell.

    ``table`` has published_runs, published_spread and reading_error; ``values`` has the value of every seed as a
    fraction, by the index of ``table``. ``rule`` has `alpha` and, by metric, `delta`. Values on validation classes get
    no verdict: the published ones are the best of many trials, so a repetition is expected to be lower.
    """
    cells = [_judged(row, values.get(row.Index, {}), rule, measured) for row in table.itertuples()]
    added = pd.DataFrame(cells, index=table.index, columns=[*NUMBERS[2:], "verdict", "seeds_needed"])
    return table.assign(**{name: added[name] for name in added})


def _judged(row: Any, by_seed: Mapping[int, float], rule: Mapping[str, Any], measured: bool) -> dict[str, Any]:
    none = {**dict.fromkeys(NUMBERS[2:], np.nan), "verdict": "", "seeds_needed": ""}
    seeds, unit = np.array(list(by_seed.values())), 1 if row.metric in DISTANCES else 100
    if len(seeds) > 1:
        none["sd"] = unit * float(seeds.std(ddof=1))
    if not measured or np.isnan(row.published) or row.view == VALIDATION:
        return none
    settings = {"delta": float(rule["delta"][row.metric]), "alpha": float(rule["alpha"])}
    if len(seeds) < 2:
        return {**none, **settings, "verdict": ONE_SEED if len(seeds) else NOT_RUN}
    quote = Quote(row.published, row.published_runs, row.published_spread, row.reading_error)
    known = (row.mean, none["sd"], len(seeds), quote, *settings.values())
    comparison = verdict.compare(*known)
    needed = ""
    if comparison.verdict == UNDECIDED:
        needed = str(verdict.seeds_needed(*known) or MORE)
    tests = {name: float(getattr(comparison, name)) for name in ("low", "high", "p", "p_equivalence")}
    return {**none, **settings, **tests, "verdict": str(comparison.verdict), "seeds_needed": needed}


def words(row: Any) -> str:
    """The verdict on a row of the frame, for readers: with the number of seeds that would decide, or “within δ”."""
    if row.verdict == UNDECIDED:
        return f"{UNDECIDED} ({row.seeds_needed} seeds)"
    if row.verdict in (LOWER, HIGHER) and row.p_equivalence < row.alpha:
        return f"{row.verdict}, within δ"
    return row.verdict


def about(table: pd.DataFrame) -> list[str]:
    """Sentences for the caption of a table: the count, the rule and the false alarms to expect."""
    cells = table[table["verdict"] != ""]
    if cells.empty:
        return []
    tested = cells[cells["verdict"].isin(TESTED)]
    if tested.empty:
        return [sentence(cells["verdict"])]
    alpha = float(tested["alpha"].iloc[0])
    within = (_refuted(tested) & (tested["p_equivalence"] < alpha)).any()
    return [
        sentence(cells["verdict"]),
        f"Verdicts (α = {alpha:g}, {_deltas(tested)}): “lower” and “higher” (not reproduced): the published value lies "
        "outside the prediction interval of our seeds; “reproduced”: inside, and the means differ by less than δ (two "
        "one-sided tests); “undecided”: neither, with the number of seeds that would decide it.",
        *(["“within δ”: different, but by less than δ."] if within else []),
        _expected(len(tested), alpha),
    ]


def _refuted(cells: pd.DataFrame) -> pd.Series:
    return cells["verdict"].isin([LOWER, HIGHER])


def _deltas(tested: pd.DataFrame) -> str:
    """The values of δ in words: one for all metrics, or one per metric."""
    by_metric = dict(zip(tested["metric"], tested["delta"], strict=True))
    unit = {metric: "" if metric in DISTANCES else " points" for metric in by_metric}
    texts = {m: "1 point" if value == 1 and unit[m] else f"{value:g}{unit[m]}" for m, value in by_metric.items()}
    if len(set(texts.values())) == 1:
        return f"δ = {next(iter(texts.values()))}"
    return "δ = " + ", ".join(f"{text} of {metric_title(metric)}" for metric, text in texts.items())


def _expected(tests: int, alpha: float) -> str:
    return (
        f"If all published means equalled ours, {alpha * tests:.3g} of the {tests} tested cells would still be called "
        f"“not reproduced” by chance (α × {tests})."
    )


def lines(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One line per published cell of all datasets (dataset → frame), with p-values adjusted for all of them."""
    judged = [frame[frame["verdict"] != ""].assign(dataset=dataset) for dataset, frame in frames.items()]
    cells = pd.concat(judged, ignore_index=True).reindex(columns=COLUMNS)
    tested = cells["p"].notna()
    cells.loc[tested, "p_adjusted"] = verdict.adjusted(cells.loc[tested, "p"].astype(float))
    return cells


def csv(cells: pd.DataFrame) -> str:
    """The text of ``verdicts.csv``; missing numbers are empty."""
    return cells.to_csv(index=False, lineterminator="\n")


def counts(verdicts: Sequence[str]) -> dict[str, int]:
    return {name: list(verdicts).count(name) for name in verdict.VERDICTS}


def sentence(verdicts: Sequence[str]) -> str:
    """How many published cells were reproduced; empty if there are none."""
    if not len(verdicts):
        return ""
    number = counts(verdicts)
    parts = [
        f"{number[REPRODUCED]} of {len(verdicts)} published cells reproduced",
        f"{number[LOWER] + number[HIGHER]} not",
        f"{number[UNDECIDED]} undecided",
        *([f"{number[ONE_SEED]} without a verdict (one seed)"] if number[ONE_SEED] else []),
        f"{number[NOT_RUN]} not run",
    ]
    return ", ".join(parts) + "."


def multiplicity(cells: pd.DataFrame) -> str:
    """The false alarms to expect among all tests of a study, and what their adjustment leaves; empty without tests.

    ``cells`` are the lines of ``verdicts.csv``.
    """
    tested = cells[cells["verdict"].isin(TESTED)]
    if tested.empty:
        return ""
    alpha = float(tested["alpha"].iloc[0])
    refuted, expected = _refuted(tested), _expected(len(tested), alpha)
    if not refuted.any():
        return expected
    kept = int((tested.loc[refuted, "p_adjusted"] < alpha).sum())
    return (
        f"{expected} With the false-discovery rate of the whole study controlled at {alpha:g} (Benjamini–Hochberg), "
        f"{kept} of the {int(refuted.sum())} cells called “not reproduced” remain so."
    )
