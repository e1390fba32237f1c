"""Retrieval of unseen images against retrieval of training images, which shows how much a method memorises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import LAST_EPOCH
from recheck.report.figures import Facts, Figure
from recheck.report.style import GREY, PUBLISHED_ONLY, SMALL, WIDTH, legend_line, line_of, note, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D, Published, Series

# With more curves than this, only the end points of each curve are labelled.
NAMED_POINTS = 2
# Approximate number of marks per curve; they distinguish methods without colour.
MARKS = 6


def path_of(histories: DataFrame, method: str, columns: Sequence[str]) -> DataFrame:
    """The means over a method's runs, in percent, at every epoch for which all runs were evaluated."""
    runs = histories[histories["method"] == method].dropna(subset=list(columns))
    epochs = runs.groupby("epoch")[list(columns)].agg("mean")
    count = runs.groupby("epoch").size()
    return 100 * epochs[count == count.max()].sort_index()


def end_of(histories: DataFrame, method: str, columns: Sequence[str]) -> Series | None:
    """The mean over a method's runs, in percent, at the last evaluated epoch of each run."""
    runs = histories[histories["method"] == method].dropna(subset=list(columns)).sort_values("epoch")
    return None if runs.empty else 100 * runs.groupby(["seed", "fold"])[list(columns)].last().mean()


def draw(
    histories: DataFrame,
    *,
    labels: Mapping[str, str],
    columns: tuple[str, str] | None,
    png: str | Path,
    svg: str | Path,
    values: Mapping[str, Sequence[tuple[float, str]]] | None = None,
    names: Mapping[float, str] | None = None,
    setting: str = "",
    published: Mapping[str, tuple[float, float]] | None = None,
    read_off: bool = False,
) -> Drawing:
    """One curve per method over its epochs or, with ``values`` (label → [(value, row)]), over the values of a setting.

    ``columns`` are the history columns for training images and for other images. ``published`` has both values of a
    row's last epoch, in percent; ``read_off`` means that they were read off a plot.
    """
    published = published or {}
    measured = columns and set(columns) <= set(histories) and not histories[list(columns)].dropna().empty
    if not columns or not (measured or published):
        return note("No comparison: no run was evaluated on its training images.", png, svg)
    if not measured:
        histories = histories.reindex(columns=["method", "seed", "fold", "epoch", *columns])
    with styled() as plt:
        figure, axis = plt.subplots(figsize=(WIDTH, 5.4), layout="constrained")
        if values:
            handles = _over_values(axis, histories, columns, values, published, names or {})
            axis.set_title(f"The numbers beside the marks: {setting[:1].lower()}{setting[1:]}", loc="left")
        else:
            handles = _over_epochs(axis, histories, columns, labels, published)
            star = {"color": GREY, "marker": "*", "ls": "", "ms": 11, "mec": "white"}
            handles += [legend_line(label="last evaluated epoch", **star)] if measured else []
        if published:
            label = "published, read off a plot" if read_off else "published"
            handles.append(legend_line(color=GREY, marker="o", mfc="white", ls="", ms=7, label=label))
        if not measured:
            figure.suptitle(PUBLISHED_ONLY)
        role, metric = columns[1].split("_", 1)
        axis.set(xlabel=f"{metric} on training images (%)", ylabel=f"{metric} on {_NAMES.get(role, role)} images (%)")
        axis.margins(0.06)
        figure.legend(handles=handles, loc="outside right center")
        return save(figure, png, svg)


_NAMES = {"val": "validation"}


def _over_epochs(
    axis: Axes,
    histories: DataFrame,
    columns: Sequence[str],
    labels: Mapping[str, str],
    published: Mapping[str, tuple[float, float]],
) -> list[Line2D]:
    """Draw curves that end in a star, and hollow marks for published values; return the legend entries."""
    paths = {method: path_of(histories, method, columns) for method in labels}
    drawn = [method for method in labels if len(paths[method]) or method in published]
    handles = []
    for number, method in enumerate(drawn):
        path, look = paths[method], line_of(number)
        star = {"color": look["color"], "marker": "*", "ls": "", "ms": 13, "mec": "white", "mew": 0.8, "zorder": 4}
        if len(path):
            style = {"lw": 1.4, "ms": 4.5, "markevery": max(1, len(path) // MARKS)}
            axis.plot(path.iloc[:, 0], path.iloc[:, 1], zorder=2, **style, **look)
            axis.plot(path.iloc[-1:, 0], path.iloc[-1:, 1], **star)
        if method in published:
            axis.plot(*published[method], ls="", ms=8, mfc="white", mew=1.4, zorder=3, **look)
        kind = {"lw": 1.4, "ms": 4.5} if len(path) else {"lw": 0, "ms": 7, "mfc": "white", "mew": 1.4}
        handles.append(legend_line(label=labels[method], **kind, **look))
    return handles


def _over_values(
    axis: Axes,
    histories: DataFrame,
    columns: Sequence[str],
    values: Mapping[str, Sequence[tuple[float, str]]],
    published: Mapping[str, tuple[float, float]],
    names: Mapping[float, str],
) -> list[Line2D]:
    """Draw lines from value to value, with filled marks (measured) or hollow marks (published); return the legend."""
    measured = {label: _ends(histories, points, columns) for label, points in values.items()}
    quoted = {
        label: [(value, published[row]) for value, row in sorted(points) if row in published]
        for label, points in values.items()
    }
    drawn = [label for label in values if measured[label] or quoted[label]]
    handles = []
    for number, label in enumerate(drawn):
        look = {"ms": 6, **line_of(number)}
        kind = {} if measured[label] else {"ls": ":", "mfc": "white"}
        handles.append(legend_line(lw=1.3, label=label, **look, **kind))
        for points, kind in ((measured[label], {"ls": "-"}), (quoted[label], {"ls": ":", "mfc": "white"})):
            if points:
                axis.plot(*zip(*(end for _, end in points), strict=True), lw=1.3, zorder=3, **look, **kind)
                named = points if len(drawn) <= NAMED_POINTS else [points[0], *points[1:][-1:]]
                for value, end in named:
                    place = {"xytext": (4, 5), "textcoords": "offset points"}
                    axis.annotate(
                        names.get(value, f"{value:g}"), end, fontsize=SMALL, color=look["color"], zorder=4, **place
                    )
    return handles


def _ends(
    histories: DataFrame, points: Sequence[tuple[float, str]], columns: Sequence[str]
) -> list[tuple[float, tuple[float, float]]]:
    ends = [(value, end_of(histories, row, columns)) for value, row in sorted(points)]
    return [(value, tuple(end)) for value, end in ends if end is not None]


def _published_ends(
    documents: Iterable[Published], rows: Iterable[str], columns: Sequence[str]
) -> dict[str, tuple[float, ...]]:
    """The published values of the last epoch on training images and on other images, for rows that have both."""
    metrics = columns[0], columns[1].split("_", 1)[1]
    ends_of: dict[str, tuple[float, ...]] = {}
    for document, row in product(documents, rows):
        ends = tuple(document.value(row, LAST_EPOCH, metric) for metric in metrics)
        if not np.isnan(ends).any():
            ends_of.setdefault(row, ends)
    return ends_of


def _is_quoted(facts: Facts, metric: str) -> bool:
    """Whether any document has a value of this metric."""
    rows = [views for document in facts["published"] for views in document["values"].values()]
    return any(metric in metrics for views in rows for metrics in views.values())


class Generalisation(Figure):
    name, title, place = "generalisation", "Retrieval of training and unseen images", 60
    caption = (
        "Retrieval of training images (horizontal) and of unseen images (vertical) of {dataset}. Of two points at the "
        "same height, the left one has memorised less."
    )
    needs = ("histories",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        if facts["sweep"]:
            yield "A curve has one point per value of the setting, at the last evaluated epoch."
        elif facts["measured"]:
            yield "A curve follows a method from its start to its last evaluated epoch, marked by a star."
        if facts["measured"]:
            yield "Measured values are means over seeds and folds."
        columns = facts["generalisation_columns"]
        if columns and _is_quoted(facts, columns[0]):
            yield "Hollow marks are published values from the end of training."

    def applies(self, facts: Facts) -> bool:
        columns = facts["generalisation_columns"]
        return bool(columns) and bool(facts["measured"] or _is_quoted(facts, columns[0]))

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts, columns = inputs.facts, inputs.facts["generalisation_columns"]
        return draw(
            inputs.histories,
            labels=inputs.labels,
            columns=columns,
            published=_published_ends(inputs.quoted, inputs.labels, columns) if columns else None,
            read_off=any(document.approximate for document in inputs.quoted),
            values=inputs.swept,
            names=inputs.sweep_names,
            setting=(facts["sweep"] or {}).get("label", ""),
            png=png,
            svg=svg,
        )
