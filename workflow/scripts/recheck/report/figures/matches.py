"""At which distances nearest neighbours are right and at which they are wrong, and where the threshold lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.calibration import MatchHistogram, class_reliability, match_histogram
from recheck.report.query_sets import LOOKS, QueryFigure, QuerySet, Sets, limits, measured, names, title, wrapped
from recheck.report.style import GREY, INK, SKY, VERMILLION, legend_line, legend_patch, note, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

# Odd, so that equal distances lie in the middle of a bin.
BINS = 41
LABEL_WIDTH, LABEL_LINES = 22, 4
RIGHT = {"fc": SKY, "ec": SKY}
WRONG = {"fc": "white", "ec": VERMILLION, "hatch": "//////"}
# The part of a panel's bars that is left free for text above and below them.
ROOM = 0.26


def draw(sets: Sets, labels: Mapping[str, str], *, png: str | Path, svg: str | Path) -> Drawing:
    """A row a method, a column a set of queries: right ones upwards, wrong ones downwards, in the same bins."""
    from matplotlib.ticker import MaxNLocator

    sets = measured(sets, labels)
    if not sets:
        return note("No query was calibrated, so there is no match to draw.", png, svg)
    spans, shared = limits(sets)
    columns = names(sets)
    with styled() as plt:
        size = (2.0 + 3.8 * len(columns), 1.0 + 1.35 * len(sets))
        sharing = {"sharex": "all" if shared else "row", "sharey": "row"}
        figure, axes = plt.subplots(
            len(sets), len(columns), figsize=size, squeeze=False, layout="constrained", **sharing
        )
        for row, (method, own) in zip(axes, sets.items(), strict=True):
            found = histograms(own)
            high, low = (max(each[side].max() for each in found.values()) for side in (1, 2))
            for name, axis in zip(columns, row, strict=True):
                if name in own:
                    _mirrored(axis, found[name], own[name], name, (-low, high))
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
            axis.set_xlabel("distance of the nearest neighbour")
        handles = [
            legend_patch(label="queries with a right nearest neighbour", **RIGHT),
            legend_patch(label="with a wrong one", **WRONG),
            legend_line(color=INK, lw=1.3, label="threshold, to its left accepted"),
        ]
        figure.align_ylabels(axes[:, 0])
        scale = None if shared else "each row has its own scale of distances"
        figure.legend(handles=handles, loc="outside lower center", ncols=3, title=scale)
        return save(figure, png, svg)


def histograms(own: Mapping[str, QuerySet]) -> dict[str, MatchHistogram]:
    """Of one method's sets of queries, in common bins."""
    edges = np.histogram_bin_edges(np.concatenate([queries.distances for queries in own.values()]), BINS)
    return {name: match_histogram(queries.labels, queries.found, edges) for name, queries in own.items()}


def _mirrored(axis: Axes, found: MatchHistogram, queries: QuerySet, name: str, ends: tuple[int, int]) -> None:
    axis.stairs(found.right, found.edges, fill=True, lw=0.6, zorder=2, **RIGHT)
    axis.stairs(-found.wrong, found.edges, fill=True, lw=0.6, zorder=2, **WRONG)
    axis.axhline(0, color=INK, lw=0.6, zorder=3)
    axis.plot([queries.threshold] * 2, ends, color=INK, lw=1.3, ls=LOOKS[name]["ls"], label="threshold", zorder=4)
    classes = class_reliability(queries.labels, queries.found, queries.threshold)
    right, accepted, both = (int(part.sum()) for part in (classes.right, classes.accepted, classes.right_and_accepted))
    wrong = len(queries.labels) - right
    for height, side, text in (
        (0.97, "top", f"right {right:,}, {both:,} of them accepted"),
        (0.03, "bottom", f"wrong {wrong:,}, {accepted - both:,} of them accepted"),
    ):
        axis.text(0.985, height, text, transform=axis.transAxes, ha="right", va=side, fontsize=8, zorder=5)


class Matches(QueryFigure):
    name, title, place = "matches", "Distances of right and wrong neighbours", 80
    caption = (
        "How far the nearest neighbours of queries of {dataset} are, with the first seed: upwards those of the query's "
        "class (right), downwards, hatched, those of another (wrong), counted in the same bins along a row. The "
        "vertical line is the chosen threshold: what lies to its left is accepted. A threshold works well where right "
        "and wrong ones lie on different sides of it; the numbers say how many do."
    )

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        return draw(inputs.query_sets, inputs.labels, png=png, svg=svg)
