"""How well unseen images are retrieved against training images: what a method learns, and what it learns by heart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recheck.report.style import GREY, line_of, note, plt, save, styled

# More curves than this in one panel, and only the ends are named by their values.
NAMED_POINTS = 2
# About so many marks along a curve tell methods apart without colour.
MARKS = 6


def path_of(histories: pd.DataFrame, method: str, columns: Sequence[str]) -> pd.DataFrame:
    """The means over a method's runs at every epoch that all of them were evaluated at, as percent."""
    runs = histories[histories["method"] == method].dropna(subset=list(columns))
    epochs = runs.groupby("epoch")[list(columns)].agg("mean")
    count = runs.groupby("epoch").size()
    return 100 * epochs[count == count.max()].sort_index()


def end_of(histories: pd.DataFrame, method: str, columns: Sequence[str]) -> pd.Series | None:
    """The mean over a method's runs of the last epoch that each was evaluated at, as percent."""
    runs = histories[histories["method"] == method].dropna(subset=list(columns)).sort_values("epoch")
    return None if runs.empty else 100 * runs.groupby(["seed", "fold"])[list(columns)].last().mean()


def draw(
    histories: pd.DataFrame,
    *,
    dataset: str,
    labels: Mapping[str, str],
    columns: tuple[str, str] | None,
    png: str | Path,
    svg: str | Path,
    values: Mapping[str, Sequence[tuple[float, str]]] | None = None,
    setting: str = "",
    published: Mapping[str, tuple[float, float]] | None = None,
    read_off: bool = False,
) -> Figure:
    """A curve a method over its epochs, or, with ``values`` (label -> [(value, row)]), over the values of a setting.

    ``columns`` are the history's, of the training images and of others. ``published`` has the same two of a row's last
    epoch, in percent; ``read_off`` says that they were read off a plot.
    """
    histories, published = histories[histories["dataset"] == dataset], published or {}
    measured = columns and set(columns) <= set(histories) and not histories[list(columns)].dropna().empty
    if not columns or not (measured or published):
        return note("No run was evaluated on its training images, so there is nothing to compare with.", png, svg)
    if not measured:
        histories = histories.reindex(columns=["method", "seed", "fold", "epoch", *columns])
    with styled():
        figure, axis = plt.subplots(figsize=(7.6, 4.8), layout="constrained")
        if values:
            handles = _over_values(axis, histories, columns, values, published)
            handles.append(Line2D([], [], ls="", label=f"numbers: {setting[:1].lower()}{setting[1:]}"))
        else:
            handles = _over_epochs(axis, histories, columns, labels, published)
            star = {"color": GREY, "marker": "*", "ls": "", "ms": 11, "mec": "white"}
            handles += [Line2D([], [], label="last evaluated epoch", **star)] if measured else []
        if published:
            label = "published, read off a plot" if read_off else "published"
            handles.append(Line2D([], [], color=GREY, marker="o", mfc="white", ls="", ms=7, label=label))
        if not measured:
            figure.suptitle("Published values, quoted: nothing was measured here", fontsize=11, fontweight="bold")
        role, metric = columns[1].split("_", 1)
        axis.set(xlabel=f"{metric} on training images (%)", ylabel=f"{metric} on {_NAMES.get(role, role)} images (%)")
        axis.margins(0.06)
        figure.legend(handles=handles, loc="outside right center")
        return save(figure, png, svg)


_NAMES = {"val": "validation"}


def _over_epochs(
    axis: Axes,
    histories: pd.DataFrame,
    columns: Sequence[str],
    labels: Mapping[str, str],
    published: Mapping[str, tuple[float, float]],
) -> list[Line2D]:
    """Curves with a star at the end, hollow marks for what was published, and what the legend says of each method."""
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
        handles.append(Line2D([], [], lw=1.4 if len(path) else 0, ms=4.5, label=labels[method], **look))
    return handles


def _over_values(
    axis: Axes,
    histories: pd.DataFrame,
    columns: Sequence[str],
    values: Mapping[str, Sequence[tuple[float, str]]],
    published: Mapping[str, tuple[float, float]],
) -> list[Line2D]:
    """Lines from value to value, filled marks for what was measured and hollow ones for what was published."""
    measured = {label: _ends(histories, points, columns) for label, points in values.items()}
    quoted = {
        label: [(value, published[row]) for value, row in sorted(points) if row in published]
        for label, points in values.items()
    }
    drawn = [label for label in values if measured[label] or quoted[label]]
    handles = []
    for number, label in enumerate(drawn):
        look = {"ms": 6, **line_of(number)}
        handles.append(Line2D([], [], lw=1.3, label=label, **look))
        for points, kind in ((measured[label], {"ls": "-"}), (quoted[label], {"ls": ":", "mfc": "white"})):
            if points:
                axis.plot(*zip(*(end for _, end in points), strict=True), lw=1.3, zorder=3, **look, **kind)
                named = points if len(drawn) <= NAMED_POINTS else [points[0], *points[1:][-1:]]
                for value, end in named:
                    place = {"xytext": (4, 5), "textcoords": "offset points"}
                    axis.annotate(f"{value:g}", end, fontsize=8, color=look["color"], zorder=4, **place)
    return handles


def _ends(
    histories: pd.DataFrame, points: Sequence[tuple[float, str]], columns: Sequence[str]
) -> list[tuple[float, tuple[float, float]]]:
    ends = [(value, end_of(histories, row, columns)) for value, row in sorted(points)]
    return [(value, tuple(end)) for value, end in ends if end is not None]
