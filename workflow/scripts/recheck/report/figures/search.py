"""The course of a search: every trial, and the best so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.report.figures import Facts, Figure
from recheck.report.style import (
    BLUE,
    GREY,
    INK,
    SHADE,
    VERMILLION,
    legend_line,
    legend_patch,
    note,
    panels,
    save,
    styled,
)

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

PANELS_PER_ROW = 4
CHOSEN = {"color": VERMILLION, "marker": "D", "ls": "", "ms": 7, "mec": "white", "mew": 0.9}
FAILED = {"color": INK, "marker": "x", "ls": "", "ms": 6, "mew": 1.4}
TRIAL = {"color": BLUE, "marker": "o", "ls": "", "ms": 4}
ADAPTIVE = ("gp", "tpe")


def searches(facts: Facts) -> dict[str, Mapping[str, Any]]:
    """Row → its search, for the rows that have one."""
    return {row["name"]: row["search"] for row in facts["rows"] if row.get("search")}


def has_searches(facts: Facts) -> bool:
    return bool(searches(facts)) and facts["scope"] != "published"


def metric_of(search: Mapping[str, Any]) -> str:
    """The objective as text for an axis."""
    role, _, metric = search["objective"].partition("_")
    return f"{'validation' if role == 'val' else role} {metric} (%)"


def _trials(axis: Axes, table: DataFrame) -> None:
    error = 100 * table["standard_error"].fillna(0)
    axis.errorbar(table["trial"], 100 * table["objective"], yerr=error, elinewidth=0.8, ecolor=GREY, zorder=2, **TRIAL)


class Search(Figure):
    name, title, place = "search", "Course of the search", 55
    caption = (
        "The searches for the settings of each method on {dataset}. Points are trials, in the order of their numbers, "
        "with the standard error over folds. The line is the best so far, and the diamond is the selected trial."
    )
    needs = ("searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return has_searches(facts)

    def sentences(self, facts: Facts) -> Iterable[str]:
        if any(search["sampler"] in ADAPTIVE for search in searches(facts).values()):
            yield "Shaded trials are Sobol points, which do not depend on earlier results."
        yield "Crosses at the bottom are trials that failed."

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per row: the objective of each trial, and the best so far."""
        trials, chosen, about = inputs.trials, inputs.chosen, searches(inputs.facts)
        from matplotlib.ticker import MaxNLocator

        shown = [row for row in inputs.labels if row in trials]
        if not shown:
            return note("No search has ended yet.", png, svg)
        with styled() as plt:
            figure, axes = panels(plt, len(shown), PANELS_PER_ROW, 2.3, 0.6)
            for axis, row in zip(axes, shown, strict=True):
                table = trials[row].sort_values("trial")
                if about[row]["sampler"] in ADAPTIVE:
                    axis.axvspan(-0.5, about[row]["startup"] - 0.5, color=SHADE, lw=0, zorder=0)
                _trials(axis, table)
                axis.plot(
                    table["trial"], 100 * table["objective"].cummax().ffill(), color=INK, lw=1.6, drawstyle="steps-post"
                )
                best = table[table["trial"] == chosen.get(row, {}).get("trial")]
                axis.plot(best["trial"], 100 * best["objective"], **CHOSEN, zorder=4)
                axis.set(title=inputs.labels[row], xlabel="trial")
                axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
                if axis.get_subplotspec().is_first_col():
                    axis.set_ylabel(metric_of(about[row]))
            for axis, row in zip(axes, shown, strict=True):
                failed = trials[row].loc[trials[row]["objective"].isna(), "trial"]
                axis.plot(failed, [0.03] * len(failed), transform=axis.get_xaxis_transform(), **FAILED)
            handles = [
                legend_line(label="trial, ± standard error over folds", **TRIAL),
                legend_line(color=INK, lw=1.6, label="best so far"),
                legend_line(label="selected trial", **CHOSEN),
            ]
            if any(trials[row]["objective"].isna().any() for row in shown):
                handles.append(legend_line(label="failed trial", **FAILED))
            if any(about[row]["sampler"] in ADAPTIVE for row in shown):
                handles.append(legend_patch(color=SHADE, label="Sobol points"))
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
