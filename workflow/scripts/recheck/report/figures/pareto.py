"""Cost against quality: every row as a point, and the rows that no other row beats in both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.names import metric_title
from recheck.report.figures import Facts, Figure, intervals
from recheck.report.figures.metrics import view_label
from recheck.report.numbers import number
from recheck.report.style import (
    FAINT,
    GREY,
    INK,
    MANY_COLOURS,
    MARKERS,
    SMALL,
    WIDTH,
    legend_line,
    note,
    plain,
    save,
    spread,
    styled,
    tell,
)

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

HEIGHT = 6.2


@dataclass(frozen=True)
class Point:
    """A row: its CPU seconds, its metric in percent with the half-width of its interval (NaN with one seed)."""

    label: str
    family: str
    seconds: float
    value: float
    interval: float = math.nan


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other point beats by being as cheap and better, or cheaper and as good. Cheapest first."""
    best, kept = -math.inf, []
    for point in sorted(points, key=lambda point: (point.seconds, -point.value)):
        if point.value > best:
            best = point.value
            kept.append(point)
        elif kept and point.seconds == kept[-1].seconds and point.value == best:
            kept.append(point)  # equal in both: neither beats the other
    return kept


def draw(
    points: Sequence[Point],
    untrained: Mapping[str, float],
    *,
    metric: str,
    title: str,
    png: str | Path,
    svg: str | Path,
) -> Drawing:
    """One panel: CPU seconds of training (logarithmic) and the metric. ``untrained`` (label → value) become lines."""
    from matplotlib.ticker import LogLocator

    points = [point for point in points if point.seconds > 0 and math.isfinite(point.value)]
    if len(points) < 2:
        sentence = "No cost against quality: two or more trained rows need a measured value and recorded CPU seconds."
        return note(sentence, png, svg)
    families = list(dict.fromkeys(point.family for point in points))
    best = front(points)
    with styled() as plt:
        figure, axis = plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        _front(axis, best)
        for place, family in enumerate(families):
            look = {"color": MANY_COLOURS[place % len(MANY_COLOURS)], "marker": MARKERS[place % len(MARKERS)], "ls": ""}
            shown = [point for point in points if point.family == family]
            for point in shown:
                if not math.isnan(point.interval):
                    axis.plot([point.seconds] * 2, _ends(point), color=FAINT, lw=1.4, zorder=1)
            axis.plot([p.seconds for p in shown], [p.value for p in shown], ms=6, label=family, zorder=3, **look)
            tell(axis, [p.seconds for p in shown], [p.value for p in shown], [_hover_text(p, metric) for p in shown])
        for label, value in untrained.items():
            axis.axhline(value, color=GREY, lw=1, ls=(0, (1, 1.5)), zorder=1)
            # lines that are close to each other have one label above and one below
            above = value == max(untrained.values())
            place = {"xytext": (4, 2 if above else -2), "va": "bottom" if above else "top"}
            axes = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            axis.annotate(label, (0, value), **place, **axes, fontsize=SMALL, color=GREY)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axis.xaxis.set_major_formatter(plain)
        axis.xaxis.set_minor_locator(LogLocator(10, ()))
        axis.set(xlabel="CPU seconds of training, one seed", ylabel=f"{metric_title(metric)} (percent)", title=title)
        handles, _ = axis.get_legend_handles_labels()
        handles.append(legend_line(color=INK, lw=1.2, label="not beaten at the same cost or less"))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)))
        _names(figure, axis, points, {id(point) for point in best})
        return save(figure, png, svg)


def _ends(point: Point) -> list[float]:
    return [max(0, point.value - point.interval), min(100, point.value + point.interval)]


def _hover_text(point: Point, metric: str) -> str:
    return f"{point.label}: {metric_title(metric)} {number(point.value)}, {point.seconds:,.0f} CPU s"


def _front(axis: Axes, best: Sequence[Point]) -> None:
    """Steps through the points of the front: what is possible for at most this cost."""
    axis.step([p.seconds for p in best], [p.value for p in best], where="post", color=INK, lw=1.2, zorder=2)
    axis.plot([p.seconds for p in best], [p.value for p in best], "o", mfc="none", mec=INK, ms=11, zorder=2)


def _names(figure, axis: Axes, points: Sequence[Point], bold: set[int]) -> None:
    """The names of all rows in a column at the right, moved apart and joined to their points by thin lines."""
    from matplotlib.text import Text
    from matplotlib.transforms import blended_transform_factory

    axis.set_ylim(axis.get_ylim())
    axis.set_xlim(axis.get_xlim())
    place = blended_transform_factory(axis.transAxes, axis.transData)
    texts = []
    for point in sorted(points, key=lambda point: point.value):
        weight = "bold" if id(point) in bold else "normal"
        arrow = {"arrowstyle": "-", "color": FAINT, "lw": 0.6, "shrinkA": 0, "shrinkB": 3, "relpos": (0, 0.5)}
        texts.append(
            axis.annotate(
                f"{point.label}  {number(point.value, 1)}",
                (point.seconds, point.value),
                (1.02, point.value),
                textcoords=place,
                arrowprops=arrow,
                va="center",
                fontsize=SMALL,
                fontweight=weight,
            )
        )
    # room for all names below one another; the layout needs their width, and their places need the layout
    figure.set_figheight(max(HEIGHT, 1.6 + 0.145 * len(points)))
    figure.get_layout_engine().execute(figure)
    gap = max(Text.get_window_extent(text).height for text in texts)
    wanted = [axis.transData.transform((1, text.xy[1]))[1] for text in texts]
    for text, middle in zip(texts, _inside(spread(wanted, gap), axis, gap), strict=True):
        text.set_y(axis.transData.inverted().transform((0, middle))[1])


def _inside(places: Sequence[float], axis: Axes, gap: float) -> list[float]:
    """The places, moved so that none is below or above the axis, as far as there is room."""
    low, high = axis.get_window_extent().y0, axis.get_window_extent().y1
    count, inside = len(places), list(places)
    for place in range(count):
        inside[place] = max(inside[place], low + place * gap)
    for place in range(count - 1, -1, -1):
        inside[place] = min(inside[place], high - (count - 1 - place) * gap)
    return inside


class Pareto(Figure):
    name, title, place = "pareto", "Cost against quality", 22
    caption = (
        "The cost of training against the quality that it reaches on {dataset}. The cost is the CPU time of one seed "
        "(all folds or members, without the search); its axis is logarithmic. Circled rows, joined by the line, are "
        "not beaten: no row is better for the same cost or less. Dotted lines are rows without training."
    )
    needs = ("evaluations", "runs")

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (intervals(facts, "Vertical lines"),)

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["show_cost"]

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        view, metric = facts["views"][0], facts["lead_metric"]
        summary = inputs.summary[(inputs.summary["view"] == view) & (inputs.summary["metric"] == metric)]
        at = {row.method: row for row in summary.itertuples()}
        rows = [row for row in facts["rows"] if row["name"] in at]
        points = [
            Point(
                row["label"],
                row["family"] or "other",
                inputs.prices[row["name"]].seconds,
                100 * at[row["name"]].mean,
                100 * at[row["name"]].interval,
            )
            for row in rows
            if row["trained"] and row["name"] in inputs.prices
        ]
        untrained = {row["label"]: 100 * at[row["name"]].mean for row in rows if not row["trained"]}
        title = f"{metric_title(metric)}, {view_label(view, inputs.summary)}"
        return draw(points, untrained, metric=metric, title=title, png=png, svg=svg)
