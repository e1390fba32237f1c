"""The cost of each change to a system: the baseline and one row per change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Facts, Figure, intervals
from recheck.report.numbers import MINUS
from recheck.report.query_sets import LOOKS, title, wrapped
from recheck.report.style import GREY, INK, SMALL, WIDTH, legend_line, note, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs, Line2D

LABEL_WIDTH = 30
METRICS = ("R@1", "F1", "accuracy")
BY_CHANCE = "R@1"
NAMES = {"f1": "F1"}
# Half the distance between the two query sets in a row.
APART = 0.2

Row = tuple[str, Mapping[str, Mapping[str, tuple[float, float]]]]
"""A row's label, and query set → metric → mean and interval (NaN with one seed), as fractions."""


def draw(rows: Sequence[Row], chance: float, *, png: str | Path, svg: str | Path) -> Drawing:
    """One panel per metric and one row per system, the baseline first; numbers are differences from it in points.

    ``chance`` is the R@1 of random neighbours, as a fraction.
    """
    from matplotlib.ticker import MaxNLocator

    names = [name for name in LOOKS if any(name in values for _, values in rows)]
    metrics = list(dict.fromkeys(metric for _, values in rows for name in names for metric in values.get(name, {})))
    if not metrics:
        return note("No costs: nothing was measured.", png, svg)
    with styled() as plt:
        size = (WIDTH, 1.4 + 0.5 * len(rows))
        figure, axes = plt.subplots(1, len(metrics), figsize=size, sharey=True, squeeze=False, layout="constrained")
        for axis, metric in zip(axes[0], metrics, strict=True):
            if metric == BY_CHANCE and not math.isnan(chance):
                axis.axvline(100 * chance, color=INK, lw=1.2, ls=(0, (1, 1.5)), label="chance", zorder=1)
            for number, name in enumerate(names):
                place = (number - (len(names) - 1) / 2) * 2 * APART
                _column(axis, [values.get(name, {}).get(metric) for _, values in rows], name, place)
            axis.set(title=NAMES.get(metric, metric.replace("_", " ")), xlabel="percent")
            axis.set_xlim(0, min(103, max(1, axis.get_xlim()[1])))
            axis.xaxis.set_major_locator(MaxNLocator(5))
            striped(axis, len(rows))
        axes[0, 0].set_yticks(range(len(rows)), [wrapped(label, LABEL_WIDTH) for label, _ in rows])
        axes[0, 0].get_yticklabels()[0].set_fontweight("bold")
        handles = _handles(rows, names, BY_CHANCE in metrics and not math.isnan(chance))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
        return save(figure, png, svg)


def _column(axis: Axes, values: Sequence[tuple[float, float] | None], name: str, place: float) -> None:
    """Draw a metric of one query set for all rows, each with a line to the baseline's value."""
    colour, marker = LOOKS[name]["color"], LOOKS[name]["marker"]
    corrected = 100 * values[0][0] if values[0] else math.nan
    if not math.isnan(corrected):
        axis.axvline(corrected, color=colour, lw=1, ls=LOOKS[name]["ls"], alpha=0.75, label=name, zorder=1)
    for row, value in enumerate(values):
        if value is None or math.isnan(value[0]):
            continue
        mean, half, y = 100 * value[0], 100 * value[1], row + place
        axis.plot([corrected, mean], [y, y], color=colour, lw=1.6, alpha=0.45, zorder=2)
        if not math.isnan(half):
            # clipped to 0–100 %, because the interval of few seeds may be wider
            inside = [[min(half, mean)], [min(half, 100 - mean)]]
            axis.errorbar(mean, y, xerr=inside, color=colour, capsize=2.5, lw=1.2, zorder=3)
        axis.plot(mean, y, marker, color=colour, ms=5.5, clip_on=False, zorder=4)
        text = f"{mean:.1f}" if row == 0 else difference(mean, corrected)
        look = {"color": colour, "fontsize": SMALL, "fontweight": "bold" if row == 0 else "normal"}
        axis.annotate(
            text, (1, y), (32, 0), ("axes fraction", "data"), "offset points", va="center", ha="right", **look
        )


def difference(mean: float, corrected: float) -> str:
    """The difference in points, with its sign; empty without a baseline value."""
    if math.isnan(corrected):
        return ""
    text = f"{mean - corrected:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def _handles(rows: Sequence[Row], names: Sequence[str], chance: bool) -> list[Line2D]:
    corrected = wrapped(rows[0][0], LABEL_WIDTH, 1)
    handles = [
        legend_line(color=LOOKS[name]["color"], marker=LOOKS[name]["marker"], ls="", ms=6, label=title(name))
        for name in names
    ]
    handles += [
        legend_line(color=LOOKS[name]["color"], ls=LOOKS[name]["ls"], lw=1, label=f"{corrected}, {title(name)}")
        for name in names
        if rows[0][1].get(name)
    ]
    if any(not math.isnan(half) for _, values in rows for metrics in values.values() for _, half in metrics.values()):
        handles.append(legend_line(color=GREY, marker="|", ms=7, mew=1.2, lw=1.2, label="95 % interval over seeds"))
    if chance:
        handles.append(legend_line(color=INK, lw=1.2, ls=(0, (1, 1.5)), label="R@1 by chance"))
    return handles


def _rows(inputs: Inputs) -> list[Row]:
    """The rows with their values, the baseline first."""
    facts, at = inputs.facts, inputs.summary.set_index(["method", "view", "metric"])
    return [
        (
            row["label"],
            {
                view: {
                    metric: tuple(at.loc[(row["name"], view, metric), ["mean", "interval"]])
                    for metric in METRICS
                    if (row["name"], view, metric) in at.index
                }
                for view in facts["views"]
            },
        )
        for row in sorted(facts["rows"], key=lambda row: row["name"] != facts["baseline"])
    ]


class Costs(Figure):
    name, title, place = "costs", "Cost of each change", 10
    caption = (
        "The cost of each change on {dataset}. The first row is the corrected system; every other row is the same "
        "system with one mistake of the original, or several if its name says so. Circles are queries of seen classes "
        "(used in training), squares are queries of unseen classes. The vertical lines are the values of the corrected "
        "system. The numbers on the right are values in the first row, and differences from them in percentage points "
        "in all other rows. The dotted line is the R@1 of random neighbours."
    )
    needs = ("evaluations", "index", "split")

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (intervals(facts),)

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["baseline"] in facts["measured"]

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        return draw(_rows(inputs), inputs.chance([BY_CHANCE])[inputs.facts["views"][0]][BY_CHANCE], png=png, svg=svg)
