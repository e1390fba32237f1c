"""Published searches with one free setting: every trial, with its error bar, against the setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Facts, Figure
from recheck.report.quoted import of_dataset, other_batches, study_batch
from recheck.report.style import BLUE, GREY, INK, VERMILLION, legend_line, note, panels, plain, save, styled

if TYPE_CHECKING:
    from recheck.quoted_searches import QuotedSearch
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

PANELS_PER_ROW = 3
# The published bars are twice the standard error over the folds, so ours are too.
STANDARD_ERRORS = 2
PUBLISHED = {"color": INK, "marker": "o", "mfc": "white", "ls": "", "ms": 4.5}
OURS = {"color": BLUE, "marker": "s", "ls": "", "ms": 4.5}
SELECTED = {"color": VERMILLION, "marker": "D", "ls": "", "ms": 7, "mec": "white", "mew": 0.9}


def shown(facts: Facts) -> list[Mapping[str, object]]:
    """The published searches with one setting: only they have the objective of every trial."""
    return [about for about in facts["quoted_searches"] if about["settings"] == 1]


def _scale(axis: Axes, log: bool) -> None:
    from matplotlib.ticker import NullFormatter

    if log:
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter(plain)


def _published(axis: Axes, search: QuotedSearch, setting: str) -> None:
    values = [trial.values[setting] for trial in search.trials]
    heights = [100 * trial.objective for trial in search.trials]
    bars = [100 * trial.error_bar for trial in search.trials]
    axis.errorbar(values, heights, yerr=bars, elinewidth=0.7, ecolor=GREY, zorder=3, **PUBLISHED)
    axis.plot(search.selected.values[setting], 100 * search.best, zorder=5, **SELECTED)


def _ours(axis: Axes, table: DataFrame, setting: str) -> bool:
    """Draw our finished trials; return whether there are any."""
    table = table.dropna(subset=["objective"])
    bars = 100 * STANDARD_ERRORS * table["standard_error"].fillna(0)
    axis.errorbar(table[setting], 100 * table["objective"], yerr=bars, elinewidth=0.7, ecolor=BLUE, zorder=2, **OURS)
    return len(table) > 0


class OneSetting(Figure):
    name, title, place = "one_setting", "Published searches with one setting", 62
    caption = (
        "Every published trial on {dataset} of the searches with a single free setting: validation MAP@R, the mean "
        "over four folds. The bars are as published, twice the standard error over the folds. The folds have different "
        "classes, which widens the bars of all trials alike. The diamond is the selected trial, and dotted lines are "
        "the published bounds. Every panel has its own scales."
    )
    needs = ("quoted_searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return bool(shown(facts))

    def sentences(self, facts: Facts) -> Iterable[str]:
        if facts["measured"]:
            yield "Squares are our trials, where our search has ended."

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per published search with one setting."""
        quoted, trials, facts = of_dataset(inputs), inputs.trials, inputs.facts
        drawn = [(row, search) for row, searches in quoted.items() for search in searches if search.has_objectives]
        if not drawn:
            return note("No searches with one setting were published.", png, svg)
        batch_size, any_of_ours = study_batch(facts), False
        with styled() as plt:
            figure, axes = panels(plt, len(drawn), PANELS_PER_ROW, 2.9, 0.5, shared="")
            for axis, (row, search) in zip(axes, drawn, strict=True):
                (parameter,) = search.space
                _scale(axis, parameter.log)
                if row in trials and search.batch == batch_size and parameter.name in trials[row]:
                    any_of_ours |= _ours(axis, trials[row], parameter.name)
                _published(axis, search, parameter.name)
                for bound in parameter.ends:
                    axis.axvline(bound, color=GREY, ls=":", lw=1.2, zorder=1)
                title = (
                    f"{inputs.labels[row]}, batches of {search.batch}" if other_batches(facts) else inputs.labels[row]
                )
                axis.set(title=title, xlabel=parameter.name)
                if axis.get_subplotspec().is_first_col():
                    axis.set_ylabel("validation MAP@R (%)")
            handles = [
                legend_line(label="published trial, ± 2 standard errors over folds", **PUBLISHED),
                legend_line(label="published, selected", **SELECTED),
                *([legend_line(label="our trial, ± 2 standard errors over folds", **OURS)] if any_of_ours else []),
                legend_line(color=GREY, ls=":", lw=1.2, label="published bound"),
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
