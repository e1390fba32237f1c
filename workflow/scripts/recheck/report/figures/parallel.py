"""Parallel coordinates: all free settings of a trial and its objective as one line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.report.figures import Facts, Figure
from recheck.report.figures.search import has_searches, metric_of, searches
from recheck.report.style import GREY, INK, SMALL, VERMILLION, legend_line, note, panels, save, styled
from recheck.space import Parameter, parameters

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

PANELS_PER_ROW = 2


def _lines(axis: Axes, table: DataFrame, free: Sequence[Parameter], best: int | None) -> None:
    table = table.dropna(subset=["objective"]).sort_values("objective")
    low, high = table["objective"].min(), table["objective"].max()
    ranks = table["objective"].rank(pct=True)
    for (_, trial), rank in zip(table.iterrows(), ranks, strict=True):
        places = [parameter.place(_value(parameter, trial[parameter.name])) for parameter in free]
        places.append((trial["objective"] - low) / (high - low) if high > low else 0.5)
        if trial["trial"] == best:
            axis.plot(range(len(places)), places, color=VERMILLION, lw=2.4, ls=(0, (4, 1.2)), zorder=5)
        else:
            shade = f"{0.78 * (1 - rank) + 0.1:.3f}"
            axis.plot(range(len(places)), places, color=shade, lw=0.5 + 1.3 * rank, zorder=2 + rank)


def _value(parameter: Parameter, stored: Any) -> Any:
    """The value of a list that a table has as text or as another type of number."""
    return next((value for value in parameter.values if str(value) == str(stored) or value == stored), stored)


def _axes(axis: Axes, free: Sequence[Parameter], metric: str, objective: Any) -> None:
    """One vertical line per setting, with its ends above and below."""
    ends = [(f"{each.ends[0]:g}", f"{each.ends[1]:g}") if not each.values else each.ends for each in free]
    ends.append((f"{100 * objective.min():.2f}", f"{100 * objective.max():.2f}"))
    names = [f"{each.name}{' (log)' if each.log else ''}" for each in free]
    for number, (low, high) in enumerate(ends):
        axis.axvline(number, color=GREY, lw=1, zorder=1)
        axis.text(number, 1.03, str(high), ha="center", va="bottom", fontsize=SMALL)
        axis.text(number, -0.03, str(low), ha="center", va="top", fontsize=SMALL)
    labels = [name.replace(".", ".\n", 1) for name in [*names, metric]]
    axis.set_xticks(range(len(ends)), labels, fontsize=SMALL)
    axis.tick_params(axis="x", length=0, pad=12)
    axis.set(ylim=(-0.02, 1.02), yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)


class Parallel(Figure):
    name, title, place = "parallel", "Settings of all trials", 57
    caption = (
        "Every trial on {dataset} as one line through its settings; the last axis is the objective. The better a "
        "trial, the darker and thicker its line. Numbers are the ends of each axis. Failed trials are left out."
    )
    needs = ("searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return has_searches(facts) and any(len(search["space"]) > 1 for search in searches(facts).values())

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per row with several free settings. The better a trial, the darker and thicker its line."""
        trials, about = inputs.trials, searches(inputs.facts)
        shown = [row for row in inputs.labels if row in trials and len(about[row]["space"]) > 1]
        if not shown:
            return note("No search with several free settings has ended yet.", png, svg)
        with styled() as plt:
            figure, axes = panels(plt, len(shown), PANELS_PER_ROW, 2.9, 0.5, shared="")
            for axis, row in zip(axes, shown, strict=True):
                free = parameters(about[row]["space"])
                _lines(axis, trials[row], free, inputs.chosen.get(row, {}).get("trial"))
                _axes(axis, free, metric_of(about[row]), trials[row]["objective"])
                axis.set_title(inputs.labels[row], pad=22)
            handles = [
                legend_line(color=INK, lw=2, label="good trial"),
                legend_line(color="#bbbbbb", lw=0.6, label="bad trial"),
                legend_line(color=VERMILLION, lw=2.4, ls=(0, (4, 1.2)), label="selected trial"),
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
