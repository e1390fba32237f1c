"""Reliability per class: whether a threshold works for every class or only on average."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.calibration import ClassReliability, class_reliability
from recheck.report.query_sets import LOOKS, QueryFigure, Sets, measured, names, set_handles, wrapped
from recheck.report.style import GREY, SMALL, STRIPE, WIDTH, arranged, legend_line, note, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs, Line2D

PANELS_PER_ROW, TITLE_WIDTH = 4, 26
HEIGHTS = (1.35, 1.9)
# Positions on the precision axis for classes without a precision, because none of their queries is accepted.
NONE, LEFT, BORDER = -16.0, -23.0, -8.0
# Areas of marks in square points: per class (less if the largest mark would exceed its limit), largest and smallest.
PER_CLASS, FULLEST, SMALLEST = 12.0, 380.0, 5.0


def draw(sets: Sets, labels: Mapping[str, str], *, png: str | Path, svg: str | Path) -> Drawing:
    """One pair of panels per method, against the precision of its classes at the chosen threshold.

    The upper panel shows the share of classes with at least this precision. The lower panel shows the accepted share
    of a class's queries, with one mark for all classes with the same two values. Classes without accepted queries have
    no precision: they are drawn at "none", where the upper curve falls by their share.
    """
    sets = measured(sets, labels)
    if not sets:
        return note("No classes: no queries were calibrated.", png, svg)
    classes = {
        method: {
            name: class_reliability(queries.labels, queries.closest, queries.threshold)
            for name, queries in by_name.items()
        }
        for method, by_name in sets.items()
    }
    most = max(int(points(each)[2].max()) for by_name in classes.values() for each in by_name.values())
    area = min(PER_CLASS, FULLEST / most)
    bands, columns = arranged(len(sets), PANELS_PER_ROW)
    with styled() as plt:
        size = (WIDTH, 1.0 + (sum(HEIGHTS) + 0.7) * bands)
        figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(2 * bands, columns, height_ratios=HEIGHTS * bands)
        for number, (method, by_name) in enumerate(classes.items()):
            band, column = divmod(number, columns)
            lower = figure.add_subplot(grid[2 * band + 1, column])
            upper = figure.add_subplot(grid[2 * band, column], sharex=lower)
            for name, each in by_name.items():
                upper.plot(*curve(each), lw=1.6, label=name, drawstyle="steps-pre", **_line(name))
                _marks(lower, each, name, area)
            _axes(upper, lower, column == 0)
            upper.set_title(wrapped(labels[method], TITLE_WIDTH), pad=27)
            place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "center", "va": "bottom"}
            upper.annotate(without(by_name), (0.5, 1), (0, 3), fontsize=SMALL, color=GREY, **place)
        figure.align_ylabels()
        figure.legend(handles=_handles(sets, area, most), loc="outside lower center", ncols=4)
        return save(figure, png, svg)


def curve(classes: ClassReliability) -> tuple[np.ndarray, np.ndarray]:
    """Precisions p (percent) and the share of classes with a precision of at least p (percent).

    The curve starts with all classes, so its first step down is the share of classes without a precision.
    """
    has_precision = classes.accepted > 0
    precision = 100 * classes.precision[has_precision]
    steps = np.unique([0, *precision, 100])
    shares = 100 * (precision[None, :] >= steps[:, None]).sum(axis=1) / len(has_precision)
    return np.array([LEFT, BORDER, *steps]), np.array([100, 100, *shares])


def points(classes: ClassReliability) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs of precision (or ``NONE``) and coverage, in percent, and the number of classes of each."""
    precision = np.where(classes.accepted > 0, 100 * classes.precision, NONE)
    places, counts = np.unique(np.column_stack([precision, 100 * classes.coverage]), axis=0, return_counts=True)
    return places[:, 0], places[:, 1], counts


def _line(name: str) -> dict[str, object]:
    return {"color": LOOKS[name]["color"], "ls": LOOKS[name]["ls"]}


def _marks(axis: Axes, classes: ClassReliability, name: str, area: float) -> None:
    precision, coverage, counts = points(classes)
    style = {"marker": LOOKS[name]["marker"], "clip_on": False, "zorder": 3, "label": name, **_face(name)}
    axis.scatter(precision, coverage, np.maximum(SMALLEST, area * counts), **style)


def _face(name: str) -> dict[str, object]:
    """Seen classes are filled and unseen ones hollow, so that both are visible where they overlap."""
    colour = LOOKS[name]["color"]
    if LOOKS[name]["ls"] == "-":
        return {"facecolor": colour, "edgecolor": "white", "alpha": 0.65, "linewidth": 0.4}
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.1}


def _axes(upper: Axes, lower: Axes, first: bool) -> None:
    from matplotlib.ticker import FixedLocator

    lower.set(xlim=(LEFT, 104), ylim=(-5, 106), xlabel="precision of a class (%)")
    upper.set(ylim=(-4, 106))
    lower.xaxis.set_major_locator(FixedLocator([NONE, 0, 25, 50, 75, 100]))
    lower.set_xticklabels(["none", "0", "25", "50", "75", "100"])
    for axis in (upper, lower):
        axis.set_yticks([0, 50, 100] if axis is upper else [0, 25, 50, 75, 100])
        axis.axvspan(LEFT, BORDER, color=STRIPE, lw=0, zorder=0)
        axis.tick_params(labelleft=first)
    upper.tick_params(labelbottom=False)
    if first:
        upper.set_ylabel("classes with at least\nthis precision (%)")
        lower.set_ylabel("accepted queries\nof a class (%)")


def without(sets: Mapping[str, ClassReliability]) -> str:
    """The number of classes without accepted queries, as text."""
    counts = {name: f"{(each.accepted == 0).sum():,} of {len(each.label):,}" for name, each in sets.items()}
    return "classes without accepted queries:\n" + ", ".join(
        f"{name.split('_')[0]} {text}" for name, text in counts.items()
    )


def _handles(sets: Sets, area: float, most: int) -> list[Line2D]:
    handles = set_handles(sets)
    for handle, name in zip(handles, names(sets), strict=True):
        handle.set(marker=LOOKS[name]["marker"], markersize=6, markerfacecolor=_face(name)["facecolor"])
    for many in sorted({1, most}):
        mark = {"marker": "o", "ls": "", "color": GREY, "mew": 0, "ms": np.sqrt(max(SMALLEST, area * many))}
        handles.append(legend_line(label="one class" if many == 1 else f"{many:,} classes", **mark))
    return handles


class Reliability(QueryFigure):
    name, title, place = "reliability", "Reliability per class", 90
    caption = (
        "Whether the chosen threshold is reliable for every class of {dataset} or only on average, with the first "
        "seed. The precision of a class is the share of its accepted matches that are correct. Upper panel: the share "
        "of classes with at least this precision; a line that stays high to the right is better. Lower panel: the "
        "precision of each class against the share of its queries that are accepted; a larger mark stands for more "
        "classes with the same two values. Filled circles and solid lines are seen classes (used in training), hollow "
        "squares and dashed lines are unseen classes. A class without accepted queries has no precision: it is drawn "
        "at “none”, where the curve falls by the share of such classes. Marks at the upper left are the dangerous "
        "ones: accepted but wrong."
    )

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        return draw(inputs.query_sets, inputs.labels, png=png, svg=svg)
