"""Distances of correct and of wrong nearest neighbours, with the chosen threshold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.calibration import MatchHistogram, class_reliability, match_histogram
from recheck.report.query_sets import LOOKS, QueryFigure, QuerySet, Sets, limits, measured, names, title, wrapped
from recheck.report.style import (
    GREY,
    INK,
    SKY,
    SMALL,
    VERMILLION,
    WIDTH,
    legend_line,
    legend_patch,
    note,
    save,
    styled,
)

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

# Odd, so that a single distance lies in the middle of a bin.
BINS = 41
LABEL_WIDTH, LABEL_LINES = 22, 4
RIGHT = {"fc": SKY, "ec": SKY}
WRONG = {"fc": "white", "ec": VERMILLION, "hatch": "//////"}
# Free space for text above and below the bars, as a fraction of their height.
ROOM = 0.26


def draw(sets: Sets, labels: Mapping[str, str], *, png: str | Path, svg: str | Path) -> Drawing:
    """One row per method and one column per query set: correct matches upwards, wrong ones downwards, in equal bins."""
    from matplotlib.ticker import MaxNLocator

    sets = measured(sets, labels)
    if not sets:
        return note("No matches: no queries were calibrated.", png, svg)
    spans, shared = limits(sets)
    columns = names(sets)
    with styled() as plt:
        size = (WIDTH, 1.0 + 1.35 * len(sets))
        sharing = {"sharex": "all" if shared else "row", "sharey": "row"}
        figure, axes = plt.subplots(
            len(sets), len(columns), figsize=size, squeeze=False, layout="constrained", **sharing
        )
        for row, (method, by_name) in zip(axes, sets.items(), strict=True):
            counts = histograms(by_name)
            high, low = (max(histogram[side].max() for histogram in counts.values()) for side in (1, 2))
            for name, axis in zip(columns, row, strict=True):
                if name in by_name:
                    _mirrored(axis, counts[name], by_name[name], name, (-low, high))
                else:
                    axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", va="center", color=GREY)
            room = ROOM * (high + low)
            row[0].set(xlim=spans[method], ylim=(-low - room, high + room))
            row[0].set_ylabel(wrapped(labels[method], LABEL_WIDTH, LABEL_LINES), rotation=0, ha="right", va="center")
            row[0].yaxis.set_major_locator(MaxNLocator(4, integer=True))
            row[0].yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
        for name, axis in zip(columns, axes[0], strict=True):
            axis.set_title(title(name))
        for axis in axes[-1]:
            axis.set_xlabel("distance to the nearest neighbour")
        every = [histogram for by_name in sets.values() for histogram in histograms(by_name).values()]
        kinds = (("correct", RIGHT, "right"), ("wrong", WRONG, "wrong"))
        handles = [
            legend_patch(label=f"{word} nearest neighbours", **look)
            for word, look, side in kinds
            if any(getattr(histogram, side).any() for histogram in every)
        ]
        handles.append(legend_line(color=INK, lw=1.3, label="threshold (accepted to its left)"))
        figure.align_ylabels(axes[:, 0])
        scale = None if shared else "each row has its own distance scale"
        figure.legend(handles=handles, loc="outside lower center", ncols=3, title=scale)
        return save(figure, png, svg)


def histograms(sets: Mapping[str, QuerySet]) -> dict[str, MatchHistogram]:
    """The histograms of one method's query sets, with common bins."""
    edges = np.histogram_bin_edges(np.concatenate([queries.distances for queries in sets.values()]), BINS)
    return {name: match_histogram(queries.labels, queries.closest, edges) for name, queries in sets.items()}


def _mirrored(axis: Axes, histogram: MatchHistogram, queries: QuerySet, name: str, ends: tuple[int, int]) -> None:
    axis.stairs(histogram.right, histogram.edges, fill=True, lw=0.6, zorder=2, **RIGHT)
    axis.stairs(-histogram.wrong, histogram.edges, fill=True, lw=0.6, zorder=2, **WRONG)
    axis.axhline(0, color=INK, lw=0.6, zorder=3)
    axis.plot([queries.threshold] * 2, ends, color=INK, lw=1.3, ls=LOOKS[name]["ls"], label="threshold", zorder=4)
    classes = class_reliability(queries.labels, queries.closest, queries.threshold)
    counts = (classes.right, classes.accepted, classes.right_and_accepted)
    right, accepted, both = (int(count.sum()) for count in counts)
    wrong = len(queries.labels) - right
    for height, side, text in (
        (0.97, "top", f"{right:,} correct, {both:,} of them accepted"),
        (0.03, "bottom", f"{wrong:,} wrong, {accepted - both:,} of them accepted"),
    ):
        axis.text(0.985, height, text, transform=axis.transAxes, ha="right", va=side, fontsize=SMALL, zorder=5)


class Matches(QueryFigure):
    name, title, place = "matches", "Distances of correct and wrong neighbours", 80
    caption = (
        "Distances between queries of {dataset} and their nearest neighbours, with the first seed. Neighbours of the "
        "query's class (correct) are counted upwards, neighbours of another class (wrong) downwards and hatched; a row "
        "uses the same bins throughout. Neighbours to the left of the vertical line, the chosen threshold, are "
        "accepted. A threshold works well if correct and wrong neighbours lie on different sides of it; the numbers "
        "show how many do."
    )

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        return draw(inputs.query_sets, inputs.labels, png=png, svg=svg)
