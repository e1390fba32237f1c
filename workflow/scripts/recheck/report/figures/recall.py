"""Recall@k against k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Figure
from recheck.report.figures.metrics import view_label
from recheck.report.style import FAINT, INK, legend_line, note, plain, save, series, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D

LINES = 10


def draw(
    summary: DataFrame,
    *,
    labels: Mapping[str, str],
    views: Sequence[str],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
) -> Drawing:
    """One panel per view and one line per method: recall@k against k, with intervals for several seeds."""
    from matplotlib.ticker import FixedLocator, NullLocator

    recalls = summary[summary["metric"].str.fullmatch(r"R@\d+").fillna(False)]
    recalls = recalls.assign(k=recalls["metric"].str.removeprefix("R@").astype(int)).sort_values("k")
    ranks = sorted(recalls["k"].unique())
    if len(ranks) < 2:
        return note("No recall curves: the study needs two or more R@k metrics.", png, svg)
    with styled() as plt:
        figure, axes = plt.subplots(
            1, len(views), figsize=(2.2 + 3.9 * len(views), 4.1), sharey=True, squeeze=False, layout="constrained"
        )
        handles = {}
        coloured = _highest(recalls, [method for method in labels if method != reference], views[0])
        for axis, view in zip(axes[0], views, strict=True):
            for method, label in labels.items():
                if method == reference:
                    look = {"color": INK, "marker": "x", "linestyle": (0, (4, 3)), "lw": 1.4, "ms": 5}
                elif method in coloured:
                    look = {**series(coloured.index(method)), "lw": 1.6, "ms": 5}
                else:
                    look = {"color": FAINT, "marker": "", "linestyle": "-", "lw": 1.2, "zorder": 1}
                handles[method] = _recall_line(axis, recalls, view, method, label, look)
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_locator(FixedLocator(ranks))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(plain)
            axis.set_xlabel("k (number of nearest neighbours)")
            axis.set_title(view_label(view, recalls))
        axes[0, 0].set_ylabel("recall@k (%)")
        named = [handle for method, handle in handles.items() if method == reference or method in coloured]
        if len(named) < len(labels):
            rest = f"{len(labels) - len(named)} more methods"
            named.append(legend_line(color=FAINT, lw=1.2, label=rest))
        figure.legend(handles=named, loc="outside right center")
        return save(figure, png, svg)


def _highest(recalls: DataFrame, methods: list[str], view: str) -> list[str]:
    """The methods to draw in colour, in their order: all, or the highest if there are too many lines."""
    if len(methods) <= LINES:
        return methods
    first = recalls[(recalls["view"] == view) & (recalls["k"] == recalls["k"].min()) & recalls["method"].isin(methods)]
    best = set(first.sort_values("mean", ascending=False, kind="stable")["method"].head(LINES))
    return [method for method in methods if method in best]


def _recall_line(axis: Axes, recalls: DataFrame, view: str, method: str, label: str, style: dict) -> Line2D:
    rows = recalls[(recalls["view"] == view) & (recalls["method"] == method)]
    (line,) = axis.plot(rows["k"], 100 * rows["mean"], label=label, **style)
    half = 100 * rows["interval"].fillna(0)
    if half.any() and style["marker"]:
        low, high = ((100 * rows["mean"] + sign * half).clip(0, 100) for sign in (-1, 1))
        axis.fill_between(rows["k"], low, high, color=style["color"], alpha=0.15, lw=0)
    return line


class Recall(Figure):
    name, title, place = "recall", "Recall at k", 110
    caption = (
        "Recall@k on {dataset}: the share of test images with an image of their own class among their k nearest "
        "neighbours. In a study of many methods, the highest are coloured and the rest are grey. Bands are 95 % "
        "t-intervals, for two or more seeds."
    )
    needs = ("evaluations",)

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        shown = {"labels": inputs.labels, "views": facts["views"], "reference": facts["reference"]}
        return draw(inputs.summary, **shown, png=png, svg=svg)
