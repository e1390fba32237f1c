"""Differences between all pairs of methods: one matrix per view, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.names import metric_title
from recheck.report.figures import Facts, Figure
from recheck.report.figures.metrics import view_label
from recheck.report.numbers import signed
from recheck.report.style import FAINT, GREY, INK, SMALL, WIDTH, legend_line, legend_patch, note, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

FEWEST_SEEDS = 3
# With more than MOST_NUMBERS methods, matrices have marks instead of numbers; with more than MOST_SIDE_BY_SIDE, they
# are below one another.
MOST_NUMBERS, MOST_SIDE_BY_SIDE = 14, 7
CELL, SMALL_CELL = 0.32, 0.23
# With more than WIDE methods, numbers have one decimal; with more than MANY, the column numbers are rotated.
WIDE, MANY = 9, 20


def draw(
    compared: DataFrame,
    summary: DataFrame,
    *,
    labels: Mapping[str, str],
    views: Mapping[str, str],
    metric: str,
    png: str | Path,
    svg: str | Path,
) -> Drawing:
    """One matrix per view (``views``: view → title): the method of the row minus the method of the column.

    ``compared`` is the frame of ``comparison.build``. The methods are in the order of their means in the first view.
    """
    compared = compared[compared["difference"].notna()]
    views = {view: title for view, title in views.items() if (compared["view"] == view).any()}
    if not views or not compared["p"].notna().any():
        return note("No differences: two or more methods need two or more seeds in common.", png, svg)
    means = summary[(summary["view"] == next(iter(views))) & (summary["metric"] == metric)]
    means = means.sort_values("mean", ascending=False, kind="stable")
    used = {*compared["first"], *compared["second"]}
    order = {name: place for place, name in enumerate(name for name in means["method"] if name in used)}
    count = len(order)
    cell = CELL if count <= MOST_NUMBERS else SMALL_CELL
    rows, columns = (1, len(views)) if count <= MOST_SIDE_BY_SIDE else (len(views), 1)
    with styled() as plt:
        size = (WIDTH, rows * (0.8 + cell * count) + 0.9)
        figure, axes = plt.subplots(rows, columns, figsize=size, sharey=rows == 1, squeeze=False, layout="constrained")
        for axis, (view, title) in zip(axes.flat, views.items(), strict=True):
            _matrix(axis, compared[compared["view"] == view], order, count <= MOST_NUMBERS)
            axis.set_title(f"{metric_title(metric)}, {title}")
        for axis in axes[:, 0]:
            axis.set_yticks(range(count), [f"{labels[name]}  {place + 1}" for name, place in order.items()])
        figure.legend(handles=_handles(count <= MOST_NUMBERS), loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _matrix(axis: Axes, compared: DataFrame, order: Mapping[str, int], numbers: bool) -> None:
    from recheck.report.comparison import decided, excludes_zero

    count = len(order)
    marks: dict[tuple[str, str], list[tuple[int, int]]] = {}
    grey: dict[int, list[tuple[float, float]]] = {}
    for pair in compared.itertuples():
        first, second = order[pair.first], order[pair.second]
        clear, sure = excludes_zero(pair), decided(pair)
        for row, column, difference in ((first, second, pair.difference), (second, first, -pair.difference)):
            if sure:
                grey.setdefault(row, []).append((column - 0.5, 1))
            if numbers:
                text = signed(difference, 1 if count > WIDE else 2)
                text = f"({text})" if isnan(pair.p) else text
                look = {"color": INK if clear else GREY, "fontweight": "bold" if clear else "normal"}
                axis.text(column, row, text, ha="center", va="center", fontsize=SMALL, **look)
            elif not isnan(pair.p):
                mark = ("^" if difference > 0 else "v") if clear or sure else "."
                marks.setdefault((mark, INK if sure else GREY), []).append((column, row))
    # few objects with many places each: one per cell would take seconds to draw
    for row, places in grey.items():
        axis.broken_barh(places, (row - 0.5, 1), color=FAINT, lw=0, zorder=0)
    for (mark, colour), places in marks.items():
        axis.plot(*zip(*places, strict=True), mark, color=colour, ms=2 if mark == "." else 4.5, zorder=3)
    # upright, more than 20 numbers would touch
    turned = {"rotation": 90, "fontsize": SMALL} if count > MANY else {}
    axis.set_xticks(range(count), [str(place + 1) for place in range(count)], **turned)
    axis.xaxis.tick_top()
    axis.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5))
    axis.grid(visible=False)
    axis.set_xticks([place + 0.5 for place in range(count - 1)], minor=True)
    axis.set_yticks([place + 0.5 for place in range(count - 1)], minor=True)
    axis.grid(which="minor")
    axis.tick_params(which="both", length=0)


def _handles(numbers: bool) -> list:
    mark = {"color": INK, "ls": ""}
    clear = (
        [legend_line(label="bold: the interval excludes 0", **mark)]
        if numbers
        else [
            legend_line(marker="^", ms=5, label="higher, the interval excludes 0", **mark),
            legend_line(marker="v", ms=5, label="lower, the interval excludes 0", **mark),
        ]
    )
    return [*clear, legend_patch(color=FAINT, label="grey: p ≤ 0.05, adjusted for all pairs")]


class Differences(Figure):
    name, title, place = "differences", "Differences between methods", 52
    caption = (
        "Differences between methods on {dataset} in percentage points: the method of the row minus the method of the "
        "column. Columns are numbered like the rows. Methods are paired by seed and fold, because they share both."
    )
    needs = ("evaluations",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        yield (
            "A difference is bold or a triangle if its bootstrap interval over seeds excludes 0, and grey if the "
            "sign-flip test finds p ≤ 0.05 after adjustment for all pairs."
        )
        seeds = max(row["seeds"] for row in facts["rows"] if row["name"] in facts["measured"])
        if seeds < 6:
            yield (
                f"{seeds} seeds are too few for p ≤ 0.05: the smallest possible p is {2.0 ** (1 - seeds):g}, and the "
                f"confidence of the interval is only {100 * (1 - 2.0 ** (1 - seeds)):g} %."
            )
        counts = [row["seeds"] for row in facts["rows"] if row["name"] in facts["measured"]]
        if len(counts) <= MOST_NUMBERS and (min(counts) < 2 or facts["scope"] == "so_far"):
            yield "A number in brackets has neither an interval nor a test: the methods have only one seed in common."
        yield "comparison.csv, beside the table, has all numbers."

    def applies(self, facts: Facts) -> bool:
        rows = [row for row in facts["rows"] if row["name"] in facts["measured"] and row["seeds"] >= FEWEST_SEEDS]
        return super().applies(facts) and len(rows) > 1

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        titles = {view: view_label(view, inputs.summary) for view in inputs.facts["views"]}
        shown = {"labels": inputs.labels, "views": titles, "metric": inputs.facts["lead_metric"]}
        return draw(inputs.comparison, inputs.summary, **shown, png=png, svg=svg)
