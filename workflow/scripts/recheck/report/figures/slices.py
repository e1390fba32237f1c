"""Slices of a search: the objective against one free setting at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Facts, Figure
from recheck.report.figures.search import CHOSEN, FAILED, TRIAL, has_searches, metric_of, searches
from recheck.report.style import GREY, legend_line, note, panels, plain, save, styled
from recheck.space import Parameter, is_number, parameters

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

PANELS_PER_ROW = 4


def _slice(axis: Axes, table: DataFrame, parameter: Parameter, best: int | None) -> None:
    from matplotlib.ticker import NullFormatter

    numeric = not parameter.values or all(map(is_number, parameter.values))
    values = table[parameter.name] if numeric else table[parameter.name].map(list(map(str, parameter.values)).index)
    if numeric:
        if parameter.log:
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.set_major_formatter(plain)
    else:
        axis.set_xticks(range(len(parameter.values)), [str(value) for value in parameter.values])
    if numeric:
        ends = (min(parameter.values), max(parameter.values)) if parameter.values else parameter.ends
        for bound in ends:
            axis.axvline(bound, color=GREY, ls=":", lw=1.2, zorder=1)
    error = 100 * table["standard_error"].fillna(0)
    axis.errorbar(values, 100 * table["objective"], yerr=error, elinewidth=0.8, ecolor=GREY, zorder=2, **TRIAL)
    chosen, failed = table["trial"] == best, table["objective"].isna()
    axis.plot(values[chosen], 100 * table["objective"][chosen], **CHOSEN, zorder=4)
    axis.plot(values[failed], [0.03] * int(failed.sum()), transform=axis.get_xaxis_transform(), **FAILED)


class Slices(Figure):
    name, title, place = "slices", "Trials by setting", 56
    caption = (
        "The trials on {dataset} against each free setting; the other settings differ from point to point. Every panel "
        "has its own scales. A diamond near a dotted line is an optimum on a bound. Crosses at the bottom are failed "
        "trials."
    )
    needs = ("searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return has_searches(facts)

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per row and free setting."""
        trials, about = inputs.trials, searches(inputs.facts)
        shown = [
            (row, parameter) for row in inputs.labels if row in trials for parameter in parameters(about[row]["space"])
        ]
        if not shown:
            return note("No search has ended yet.", png, svg)
        failed = any(trials[row]["objective"].isna().any() for row, _ in shown)
        with styled() as plt:
            figure, axes = panels(plt, len(shown), PANELS_PER_ROW, 2.4, 0.5, shared="")
            for axis, (row, parameter) in zip(axes, shown, strict=True):
                _slice(axis, trials[row], parameter, inputs.chosen.get(row, {}).get("trial"))
                axis.set(title=inputs.labels[row], xlabel=parameter.name)
                if axis.get_subplotspec().is_first_col():
                    axis.set_ylabel(metric_of(about[row]))
            handles = [
                legend_line(label="trial, ± standard error over folds", **TRIAL),
                legend_line(label="selected trial", **CHOSEN),
                legend_line(color=GREY, ls=":", lw=1.2, label="bound"),
                *([legend_line(label="failed trial", **FAILED)] if failed else []),
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
