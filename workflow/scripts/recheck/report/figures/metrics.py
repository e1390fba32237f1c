"""Metrics by method: one panel per metric, one line per method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import FOLD_VIEWS, QUERY_VIEWS, metric_title, view_title
from recheck.report.figures import Facts, Figure, intervals, quoted
from recheck.report.style import GREY, PUBLISHED_ONLY, VIEW_STYLES, legend_line, panels, save, striped, styled, tell

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D, Published, Series

# Upper limit of a percentage axis, with room for a mark at 100 %.
MOST = 100.4
PANELS_PER_ROW = 4
SEPARATED = FOLD_VIEWS[1]
# The metrics shown for query views, whose tables have too many columns for one figure.
QUERY_METRICS = ("R@1", "F1", "precision", "recall")


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
    """One panel per metric with any value, one line per method: each view with interval, folds and published value."""
    from matplotlib.ticker import MaxNLocator

    methods = list(labels)
    rows = list(product(quoted, methods, views))
    known = {metric: [document.value(*row, metric) for document, *row in rows] for metric in metrics}
    with_values = [name for name in metrics if (summary["metric"] == name).any() or not np.isnan(known[name]).all()]
    metrics = with_values or metrics
    styles = dict(zip(views, range(len(views)), strict=True))
    views = [view for view in views if _has_values(view, summary, quoted, methods, metrics)]
    with styled() as plt:
        figure, axes = panels(plt, len(metrics), PANELS_PER_ROW, 0.7 + 0.46 * len(methods), 0.9)
        kinds: set[str] = set()
        for axis, metric in zip(axes, metrics, strict=True):
            for place, view in enumerate(views):
                number = styles[view]
                means = summary[(summary["view"] == view) & (summary["metric"] == metric)].set_index("method")
                singles = folds[(folds["view"] == view) & (folds["metric"] == metric)]
                if reference in means.index:
                    axis.axvline(100 * means.loc[reference, "mean"], alpha=0.75, zorder=1, **_reference_line(number))
                for row, method in enumerate(methods):
                    kinds |= _marks(
                        axis,
                        row + (place - (len(views) - 1) / 2) * 0.34,
                        means.loc[method] if method in means.index else None,
                        singles.loc[singles["method"] == method, "value"],
                        [document.value(method, view, metric) for document in quoted],
                        VIEW_STYLES[number],
                        f"{labels[method]}, {view_title(view)}\n{metric_title(metric)}",
                    )
            axis.set_title(metric_title(metric))
            axis.set_xlabel("percent")
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.set_xlim(right=min(axis.get_xlim()[1], MOST))
            striped(axis, len(methods))
        axes[0].set_yticks(range(len(methods)), list(labels.values()))
        named = labels.get(reference) if reference in set(summary["method"]) else None
        handles = _view_handles({view: styles[view] for view in views}, summary, named)
        if summary.empty and quoted:
            figure.suptitle(PUBLISHED_ONLY)
            for handle in handles:
                handle.set(markerfacecolor="white", markeredgewidth=1.2)
        else:
            handles += [handle for kind, handle in _mark_handles().items() if kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
        return save(figure, png, svg)


def _has_values(
    view: str, summary: DataFrame, quoted: Sequence[Published], methods: Sequence[str], metrics: Sequence[str]
) -> bool:
    """Whether any method has a measured or published value in this view."""
    published = [document.value(row, view, metric) for document, row, metric in product(quoted, methods, metrics)]
    return (summary["view"] == view).any() or not np.isnan(published).all()


def _marks(
    axis: Axes,
    y: float,
    row: Series | None,
    folds: Series,
    quotes: Sequence[float],
    style: Mapping[str, str],
    name: str,
) -> set[str]:
    """Draw a view of a method on one metric; return the kinds of marks used, for the legend.

    ``name`` names the method, view and metric. Single folds show how much a value varies if there is no interval.
    """
    kinds = set()
    for quote in dict.fromkeys(value for value in quotes if not math.isnan(value)):
        kinds.add("published")
        axis.plot(quote, y, style["marker"], mfc="white", mec=style["color"], mew=1.2, ms=8, zorder=2)
        tell(axis, [quote], [y], [f"{name} {quote:.2f} (published)"])
    if row is None:
        return kinds
    mean, half = 100 * row["mean"], 100 * row["interval"]
    if not math.isnan(half):
        kinds.add("interval")
        # clipped to 0–100 %, because the interval of few seeds may be wider
        inside = [[min(half, mean)], [min(half, 100 - mean)]]
        axis.errorbar(mean, y, xerr=inside, color=style["color"], capsize=3, lw=1.3, zorder=2)
    elif len(folds) > 1:
        kinds.add("fold")
        axis.plot(100 * folds, [y] * len(folds), ".", color=style["color"], ms=4.5, alpha=0.4, mew=0)
    axis.plot(mean, y, style["marker"], color=style["color"], ms=6, zorder=3)
    tell(axis, [mean], [y], [f"{name} {mean:.2f}" + ("" if math.isnan(half) else f" ± {half:.2f}")])
    return kinds


def _mark_handles() -> dict[str, Line2D]:
    return {
        "interval": legend_line(color=GREY, marker="|", ms=7, mew=1.3, lw=1.3, label="95 % interval over seeds"),
        "fold": legend_line(color=GREY, marker=".", ls="", ms=6, alpha=0.6, label="a single fold"),
        "published": legend_line(color=GREY, marker="o", mfc="white", ls="", ms=8, label="published (quoted)"),
    }


def _reference_line(number: int) -> dict[str, object]:
    return {"color": VIEW_STYLES[number]["color"], "lw": 1, "ls": (0, (4, 3)) if number == 0 else (0, (1, 2))}


def _view_handles(views: Mapping[str, int], summary: DataFrame, reference: str | None) -> list[Line2D]:
    """Legend entries of the views (view → number of its style), and of the reference in each of them."""
    handles = [
        legend_line(ls="", ms=7, label=view_label(view, summary), **VIEW_STYLES[number])
        for view, number in views.items()
    ]
    if reference:
        handles += [
            legend_line(label=f"{reference}, {view_title(view)}", **_reference_line(number))
            for view, number in views.items()
            if (summary["view"] == view).any()
        ]
    return handles


def view_label(view: str, summary: DataFrame) -> str:
    """The view's title, with the dimension if all methods have the same."""
    dims = summary.loc[summary["view"] == view, "dim"].dropna().unique()
    return f"{view_title(view)}, {int(dims[0])}-d" if len(dims) == 1 else view_title(view)


def _drawn(facts: Facts) -> Sequence[str]:
    """The metrics of the table; for query views only ``QUERY_METRICS``."""
    has_queries = facts["views"][0] in QUERY_VIEWS
    return [name for name in facts["metrics"] if name in QUERY_METRICS] if has_queries else facts["metrics"]


class Metrics(Figure):
    name, title, place = "metrics", "Metrics by method", 20
    caption = "Metrics by method on {dataset}."
    needs = ("evaluations",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        measured, whiskers = facts["measured"], intervals(facts)
        if measured and quoted(facts):
            yield "Filled marks were measured here, hollow marks are published values."
        elif quoted(facts):
            yield "All values are published."
        yield whiskers
        if measured and SEPARATED in facts["views"] and not whiskers:
            yield "Small dots are single folds; the view “separated” shows their mean."
        if facts["reference"] in measured:
            yield "The vertical lines mark the untrained model."

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
