"""Precision, recall and F1 against the distance threshold, with the chosen threshold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.calibration import Thresholds, threshold_table
from recheck.report.query_sets import (
    LOOKS,
    QueryFigure,
    QuerySet,
    Sets,
    limits,
    measured,
    set_handles,
    wrapped,
)
from recheck.report.style import BLUE, GREY, INK, ORANGE, SMALL, WIDTH, arranged, legend_line, note, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

# The colours also differ in lightness, for readers who cannot distinguish them.
RATES = {
    "precision": {"color": BLUE, "lw": 1.2},
    "recall": {"color": ORANGE, "lw": 1.2},
    "F1": {"color": INK, "lw": 1.7},
}
PANELS_PER_ROW, TITLE_WIDTH, POINTS = 3, 32, 240
# Above 100 % there is one line of text per query set.
BOTTOM, TOP, FIRST_TEXT, NEXT_TEXT = -3, 142, 131, -16


def draw(sets: Sets, labels: Mapping[str, str], *, png: str | Path, svg: str | Path) -> Drawing:
    """One panel per method, with one scale for all if their distances are comparable.

    The curves are steps over all possible thresholds, not only those that the calibration tried.
    """
    from matplotlib.ticker import MaxNLocator

    sets = measured(sets, labels)
    if not sets:
        return note("No thresholds: no queries were calibrated.", png, svg)
    spans, shared = limits(sets)
    rows, columns = arranged(len(sets), PANELS_PER_ROW)
    with styled() as plt:
        size = (WIDTH, 0.9 + 2.5 * rows)
        figure, axes = plt.subplots(
            rows, columns, figsize=size, sharex=shared, sharey=True, squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(sets) :]:
            axis.remove()
        for number, (axis, (method, by_name)) in enumerate(zip(axes.flat, sets.items(), strict=False)):
            for row, (name, queries) in enumerate(by_name.items()):
                _curves(axis, queries, name)
                _chosen(axis, queries, name, FIRST_TEXT + NEXT_TEXT * row, spans[method])
            axis.set(title=wrapped(labels[method], TITLE_WIDTH), xlim=spans[method], ylim=(BOTTOM, TOP))
            axis.set_yticks(range(0, 101, 25))
            axis.xaxis.set_major_locator(MaxNLocator(5))
            if number % columns == 0:
                axis.set_ylabel("percent")
            if number + columns >= len(sets):
                axis.tick_params(labelbottom=True)
                axis.set_xlabel("distance threshold")
        handles = [legend_line(label=rate, **look) for rate, look in RATES.items()]
        others = set_handles(sets, GREY)
        others.append(legend_line(color=INK, lw=0.9, marker="o", ms=4, label="chosen threshold"))
        if columns < PANELS_PER_ROW:
            # a legend is filled column by column; alternating gives two rows, with the rates in the first
            handles = [handle for pair in zip_longest(handles, others) for handle in pair if handle]
        else:
            handles += others
        scale = None if shared else "each panel has its own distance scale"
        figure.legend(
            handles=handles, loc="outside lower center", ncols=3 if columns < PANELS_PER_ROW else 6, title=scale
        )
        return save(figure, png, svg)


def _curves(axis: Axes, queries: QuerySet, name: str) -> None:
    table = thinned(threshold_table(queries.labels, queries.closest), queries.threshold)
    for rate, look in RATES.items():
        style = {"drawstyle": "steps-post", "ls": LOOKS[name]["ls"], "zorder": 3, **look}
        axis.plot(table.distance, 100 * getattr(table, rate.lower()), label=f"{name} {rate}", **style)


def thinned(table: Thresholds, threshold: float) -> Thresholds:
    """The table, reduced to the rows that are distinguishable in a panel; the chosen threshold is always kept."""
    if len(table) <= POINTS:
        return table
    places = np.append(np.linspace(table.distance[0], table.distance[-1], POINTS), threshold)
    rows = np.searchsorted(table.distance, places, side="right") - 1
    return table.rows(np.unique(rows.clip(min=0)))


def _chosen(axis: Axes, queries: QuerySet, name: str, height: float, span: tuple[float, float]) -> None:
    """Draw the threshold as a line, with its F1 written on the side with more room."""
    at, f1 = queries.threshold, 100 * queries.calibration.optimal.f1
    line = {"color": INK, "lw": 0.9, "ls": LOOKS[name]["ls"], "zorder": 2}
    axis.plot([at, at], [BOTTOM, height + 5], label=f"{name} threshold", **line)
    axis.plot(at, f1, "o", color=INK, ms=4, zorder=4)
    left = at > sum(span) / 2
    place = {"xytext": (-4 if left else 4, 0), "textcoords": "offset points", "ha": "right" if left else "left"}
    behind = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
    text = f"{name.split('_')[0]}: F1 {f1:.1f}"
    axis.annotate(text, (at, height), va="center", fontsize=SMALL, bbox=behind, zorder=5, **place)


class ThresholdCurves(QueryFigure):
    name, title, place = "thresholds", "Choosing the distance threshold", 70
    caption = (
        "Precision, recall and F1 on {dataset} against the distance threshold, with the first seed: nearest neighbours "
        "up to this distance are accepted, farther ones rejected. Solid lines are queries of seen classes (used in "
        "training), dashed lines are queries of unseen classes; both search the same index of all classes. The "
        "vertical lines are the thresholds chosen on each query set itself, with their F1. Recall counts only queries "
        "with a correct nearest neighbour, so accepting everything gives a recall of 100 %."
    )

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        return draw(inputs.query_sets, inputs.labels, png=png, svg=svg)
