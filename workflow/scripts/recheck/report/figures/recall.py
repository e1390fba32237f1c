"""Recall@k over k."""

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
    """How often a right image is among the first k, for each view, with its interval where there are several seeds."""
    from matplotlib.ticker import FixedLocator, NullLocator

    part = summary[summary["metric"].str.fullmatch(r"R@\d+").fillna(False)]
    part = part.assign(k=part["metric"].str.removeprefix("R@").astype(int)).sort_values("k")
    ranks = sorted(part["k"].unique())
    if len(ranks) < 2:
        return note("A recall curve needs two or more R@k among the study's metrics.", png, svg)
    with styled() as plt:
        figure, axes = plt.subplots(
            1, len(views), figsize=(2.2 + 3.9 * len(views), 4.1), sharey=True, squeeze=False, layout="constrained"
        )
        handles = {}
        coloured = _most_telling(part, [method for method in labels if method != reference], views[0])
        for axis, view in zip(axes[0], views, strict=True):
            for method, label in labels.items():
                if method == reference:
                    look = {"color": INK, "marker": "x", "linestyle": (0, (4, 3)), "lw": 1.4, "ms": 5}
                elif method in coloured:
                    look = {**series(coloured.index(method)), "lw": 1.6, "ms": 5}
                else:
                    look = {"color": FAINT, "marker": "", "linestyle": "-", "lw": 1.2, "zorder": 1}
                handles[method] = _recall_line(axis, part, view, method, label, look)
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_locator(FixedLocator(ranks))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(plain)
            axis.set_xlabel("k (nearest neighbours looked at)")
            axis.set_title(view_label(view, part))
        axes[0, 0].set_ylabel("recall@k (%)")
        named = [handle for method, handle in handles.items() if method == reference or method in coloured]
        if len(named) < len(labels):
            rest = f"{len(labels) - len(named)} more methods"
            named.append(legend_line(color=FAINT, lw=1.2, label=rest))
        figure.legend(handles=named, loc="outside right center")
        return save(figure, png, svg)


def _most_telling(part: DataFrame, methods: list[str], view: str) -> list[str]:
    """The methods to draw in colour, in their order: all, or, where lines would hide each other, the highest ones."""
    if len(methods) <= LINES:
        return methods
    first = part[(part["view"] == view) & (part["k"] == part["k"].min()) & part["method"].isin(methods)]
    best = set(first.sort_values("mean", ascending=False, kind="stable")["method"].head(LINES))
    return [method for method in methods if method in best]


def _recall_line(axis: Axes, part: DataFrame, view: str, method: str, label: str, style: dict) -> Line2D:
    rows = part[(part["view"] == view) & (part["method"] == method)]
    (line,) = axis.plot(rows["k"], 100 * rows["mean"], label=label, **style)
    half = 100 * rows["interval"].fillna(0)
    if half.any() and style["marker"]:
        low, high = ((100 * rows["mean"] + sign * half).clip(0, 100) for sign in (-1, 1))
        axis.fill_between(rows["k"], low, high, color=style["color"], alpha=0.15, lw=0)
    return line


class Recall(Figure):
    name, title, place = "recall", "Recall at k", 110
    caption = (
        "Recall@k on {dataset}: the share of test images that have an image of their own class among their k nearest "
        "neighbours. Where a study has many methods, the highest are coloured and the rest are grey. Bands, with two or"
        " more seeds, are 95 % t-intervals."
    )
    needs = ("evaluations",)

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        shown = {"labels": inputs.labels, "views": facts["views"], "reference": facts["reference"]}
        return draw(inputs.summary, **shown, png=png, svg=svg)
