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
) -> Figure:
    """A curve a method over its epochs, or, with ``values`` (label -> [(value, row)]), over the values of a setting.

    ``columns`` are the history's, of the training images and of others.
    """
    histories = histories[histories["dataset"] == dataset]
    if columns is None or not set(columns) <= set(histories) or histories[list(columns)].dropna().empty:
        return note("No run was evaluated on its training images, so there is nothing to compare with.", png, svg)
    with styled():
        figure, axis = plt.subplots(figsize=(7.6, 4.8), layout="constrained")
        handles = []
        if values:
            drawn = {label: _ends(histories, points, columns) for label, points in values.items()}
            drawn = {label: points for label, points in drawn.items() if points}
            for number, (label, points) in enumerate(drawn.items()):
                handles.append(_over_values(axis, points, label, number, len(drawn) <= NAMED_POINTS))
            handles.append(Line2D([], [], ls="", label=f"numbers: {setting[:1].lower()}{setting[1:]}"))
        else:
            paths = {label: path_of(histories, method, columns) for method, label in labels.items()}
            drawn = {label: path for label, path in paths.items() if len(path)}
            handles += [_over_epochs(axis, path, label, number) for number, (label, path) in enumerate(drawn.items())]
            star = {"color": GREY, "marker": "*", "ls": "", "ms": 11, "mec": "white"}
            handles.append(Line2D([], [], label="last evaluated epoch", **star))
        role, metric = columns[1].split("_", 1)
        axis.set(xlabel=f"{metric} on training images (%)", ylabel=f"{metric} on {_NAMES.get(role, role)} images (%)")
        axis.margins(0.06)
        figure.legend(handles=handles, loc="outside right center")
        return save(figure, png, svg)


_NAMES = {"val": "validation"}


def _over_epochs(axis: Axes, path: pd.DataFrame, label: str, number: int) -> Line2D:
    colour = line_of(number)["color"]
    train, other = path.iloc[:, 0], path.iloc[:, 1]
    style = {"lw": 1.4, "ms": 4.5, "markevery": max(1, len(path) // MARKS), "label": label, **line_of(number)}
    (line,) = axis.plot(train, other, zorder=2, **style)
    axis.plot(train.iloc[-1], other.iloc[-1], "*", color=colour, ms=13, mec="white", mew=0.8, zorder=4)
    return line


def _ends(
    histories: pd.DataFrame, points: Sequence[tuple[float, str]], columns: Sequence[str]
) -> list[tuple[float, pd.Series]]:
    ends = [(value, end_of(histories, row, columns)) for value, row in sorted(points)]
    return [(value, end) for value, end in ends if end is not None]


def _over_values(
    axis: Axes, points: Sequence[tuple[float, pd.Series]], label: str, number: int, name_all: bool
) -> Line2D:
    x, y = [end.iloc[0] for _, end in points], [end.iloc[1] for _, end in points]
    (line,) = axis.plot(x, y, ls="-", lw=1.3, ms=6, label=label, zorder=3, **line_of(number))
    named = points if name_all else [points[0], *points[1:][-1:]]
    for value, end in named:
        place = {"xytext": (4, 5), "textcoords": "offset points"}
        axis.annotate(f"{value:g}", tuple(end), fontsize=8, color=line.get_color(), zorder=4, **place)
    return line
