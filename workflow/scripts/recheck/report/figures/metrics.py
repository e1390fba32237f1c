"""Metrics by method: one panel per metric, one line per method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import QUERY_VIEWS, view_title
from recheck.report.figures import Facts, Figure, quoted
from recheck.report.style import GREY, VIEW_STYLES, legend_line, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D, Published, Series

# Of percent, with room for a mark.
MOST = 100.4
# What a figure of queries has panels for, of the many columns of their table.
ASKED = ("R@1", "F1", "precision", "recall")


def draw(
    summary: DataFrame,
    folds: DataFrame,
    *,
    labels: Mapping[str, str],
    views: Sequence[str],
    metrics: Sequence[str],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
    quoted: Sequence[Published] = (),
) -> Drawing:
    """One panel a metric that has any value, one line a method: every view with its interval, its folds, and the
    published value."""
    from matplotlib.ticker import MaxNLocator

    methods = list(labels)
    rows = list(product(quoted, methods, views))
    known = {metric: [document.value(*row, metric) for document, *row in rows] for metric in metrics}
    there = [own for own in metrics if (summary["metric"] == own).any() or not np.isnan(known[own]).all()]
    metrics = there or metrics
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(metrics),
            figsize=(1.9 + 2.9 * len(metrics), 1.6 + 0.46 * len(methods)),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        kinds: set[str] = set()
        for axis, metric in zip(axes[0], metrics, strict=True):
            for number, view in enumerate(views):
                part = summary[(summary["view"] == view) & (summary["metric"] == metric)].set_index("method")
                own = folds[(folds["view"] == view) & (folds["metric"] == metric)]
                if reference in part.index:
                    axis.axvline(100 * part.loc[reference, "mean"], alpha=0.75, zorder=1, **_reference_line(number))
                for row, method in enumerate(methods):
                    kinds |= _marks(
                        axis,
                        row + (number - (len(views) - 1) / 2) * 0.34,
                        part.loc[method] if method in part.index else None,
                        own.loc[own["method"] == method, "value"],
                        [document.value(method, view, metric) for document in quoted],
                        VIEW_STYLES[number],
                    )
            axis.set_title(metric)
            axis.set_xlabel("percent")
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.set_xlim(right=min(axis.get_xlim()[1], MOST))
            striped(axis, len(methods))
        axes[0, 0].set_yticks(range(len(methods)), list(labels.values()))
        named = labels.get(reference) if reference in set(summary["method"]) else None
        handles = _view_handles(views, summary, named)
        if summary.empty and quoted:
            figure.suptitle("Published values, quoted: nothing was measured here", fontsize=11, fontweight="bold")
            for handle in handles:
                handle.set(markerfacecolor="white", markeredgewidth=1.2)
        else:
            handles += [handle for kind, handle in _mark_handles().items() if kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
        return save(figure, png, svg)


def _marks(
    axis: Axes, y: float, row: Series | None, folds: Series, quotes: Sequence[float], style: Mapping[str, str]
) -> set[str]:
    """A view of a method on one metric; returns which kinds of marks it took, for the legend.

    Single folds are shown where there is no interval to tell how much a value varies.
    """
    kinds = set()
    for quote in dict.fromkeys(value for value in quotes if not math.isnan(value)):
        kinds.add("published")
        axis.plot(quote, y, style["marker"], mfc="white", mec=style["color"], mew=1.2, ms=8, zorder=2)
    if row is None:
        return kinds
    mean, half = 100 * row["mean"], 100 * row["interval"]
    if not math.isnan(half):
        kinds.add("interval")
        # a share can't be outside 0–100 %, however wide the interval of few seeds is
        inside = [[min(half, mean)], [min(half, 100 - mean)]]
        axis.errorbar(mean, y, xerr=inside, color=style["color"], capsize=3, lw=1.3, zorder=2)
    elif len(folds) > 1:
        kinds.add("fold")
        axis.plot(100 * folds, [y] * len(folds), ".", color=style["color"], ms=4.5, alpha=0.4, mew=0)
    axis.plot(mean, y, style["marker"], color=style["color"], ms=6, zorder=3)
    return kinds


def _mark_handles() -> dict[str, Line2D]:
    return {
        "interval": legend_line(color=GREY, marker="|", ms=7, mew=1.3, lw=1.3, label="95 % interval over seeds"),
        "fold": legend_line(color=GREY, marker=".", ls="", ms=6, alpha=0.6, label="a single fold"),
        "published": legend_line(color=GREY, marker="o", mfc="white", ls="", ms=8, label="published (quoted)"),
    }


def _reference_line(number: int) -> dict[str, object]:
    return {"color": VIEW_STYLES[number]["color"], "lw": 1, "ls": (0, (4, 3)) if number == 0 else (0, (1, 2))}


def _view_handles(views: Sequence[str], summary: DataFrame, reference: str | None) -> list[Line2D]:
    handles = [
        legend_line(ls="", ms=7, label=view_label(view, summary), **VIEW_STYLES[number])
        for number, view in enumerate(views)
    ]
    if reference:
        handles += [
            legend_line(label=f"{reference}, {view_title(view)}", **_reference_line(number))
            for number, view in enumerate(views)
        ]
    return handles


def view_label(view: str, summary: DataFrame) -> str:
    """The view with its dimension, where all methods have the same."""
    dims = summary.loc[summary["view"] == view, "dim"].dropna().unique()
    return f"{view_title(view)}, {int(dims[0])}-d" if len(dims) == 1 else view_title(view)


def _drawn(facts: Facts) -> Sequence[str]:
    """The columns of the table; of queries, which have many, those that say most."""
    asked = facts["views"][0] in QUERY_VIEWS
    return [name for name in facts["metrics"] if name in ASKED] if asked else facts["metrics"]


class Metrics(Figure):
    name, title, place = "metrics", "Metrics by method", 20
    caption = (
        "Metrics by method on {dataset}. Circles are the first view that the legend names, squares the second; small "
        "dots are single folds, where a view is their mean. Filled marks were measured here, hollow ones are published "
        "values, quoted. Whiskers, with two or more seeds, are 95 % t-intervals; the vertical lines mark the untrained "
        "model."
    )
    needs = ("evaluations",)

    def applies(self, facts: Facts) -> bool:
        return not facts["sweep"] and bool(facts["measured"] or quoted(facts))

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        return draw(
            inputs.summary,
            inputs.folds,
            labels=inputs.labels,
            views=facts["views"],
            metrics=_drawn(facts),
            reference=facts["reference"],
            quoted=inputs.quoted,
            png=png,
            svg=svg,
        )
