"""The figures of one dataset: metrics by method, training curves, recall@k, and a map of the test embeddings."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from recheck.report.style import (
    BLUE,
    COLOURS,
    FAINT,
    GREY,
    INK,
    MARKERS,
    VERMILLION,
    VIEW_STYLES,
    note,
    plt,
    save,
    series,
    striped,
    styled,
)
from recheck.report.tables import Published, view_name

PANELS_A_ROW = 4
RECALL_LINES, LOG_LOSS = 10, 30
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
# Of percent, with room for a mark.
MOST = 100.4
MAP_IMAGES, MAP_CLASSES, MAP_TILE, LEGEND_COLUMNS = 2500, 11, 0.17, 4


def metrics(
    summary: pd.DataFrame,
    folds: pd.DataFrame,
    *,
    dataset: str,
    labels: Mapping[str, str],
    views: Sequence[str],
    metrics: Sequence[str],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
    quoted: Sequence[Published] = (),
    title: str = "",
) -> Figure:
    """One panel a metric that has any value, one line a method: every view with its interval, its folds, and the
    published value."""
    summary, folds = summary[summary["dataset"] == dataset], folds[folds["dataset"] == dataset]
    methods = list(labels)
    rows = list(product(quoted, methods, views))
    known = {metric: [document.value(dataset, *row, metric) for document, *row in rows] for metric in metrics}
    there = [own for own in metrics if (summary["metric"] == own).any() or not np.isnan(known[own]).all()]
    metrics = there or metrics
    with styled():
        figure, axes = plt.subplots(
            1,
            len(metrics),
            figsize=(1.9 + 2.9 * len(metrics), 1.6 + 0.46 * len(methods)),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        kinds: set[str] = set()
        for axis, metric in zip(axes[0], metrics, strict=True):
            for number, view in enumerate(views):
                part = summary[(summary["view"] == view) & (summary["metric"] == metric)].set_index("method")
                own = folds[(folds["view"] == view) & (folds["metric"] == metric)]
                if reference in part.index:
                    axis.axvline(100 * part.loc[reference, "mean"], alpha=0.75, zorder=1, **_reference_line(number))
                for row, method in enumerate(methods):
                    kinds |= _marks(
                        axis,
                        row + (number - (len(views) - 1) / 2) * 0.34,
                        part.loc[method] if method in part.index else None,
                        own.loc[own["method"] == method, "value"],
                        [document.value(dataset, method, view, metric) for document in quoted],
                        VIEW_STYLES[number],
                    )
            axis.set_title(metric)
            axis.set_xlabel("percent")
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.set_xlim(right=min(axis.get_xlim()[1], MOST))
            striped(axis, len(methods))
        axes[0, 0].set_yticks(range(len(methods)), list(labels.values()))
        named = labels.get(reference) if reference in set(summary["method"]) else None
        handles = _view_handles(views, summary, named)
        if summary.empty and quoted:
            title = title or "Published values, quoted: nothing was measured here"
            for handle in handles:
                handle.set(markerfacecolor="white", markeredgewidth=1.2)
        else:
            handles += [handle for kind, handle in _mark_handles().items() if kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
        figure.suptitle(title or None, fontsize=11, fontweight="bold")
        return save(figure, png, svg)


def _marks(
    axis: Axes, y: float, row: pd.Series | None, folds: pd.Series, quotes: Sequence[float], style: Mapping[str, str]
) -> set[str]:
    """A view of a method on one metric; returns which kinds of marks it took, for the legend.

    Single folds are shown where there is no interval to tell how much a value varies.
    """
    kinds = set()
    for quote in dict.fromkeys(value for value in quotes if not math.isnan(value)):
        kinds.add("published")
        axis.plot(quote, y, style["marker"], mfc="white", mec=style["color"], mew=1.2, ms=8, zorder=2)
    if row is None:
        return kinds
    mean, half = 100 * row["mean"], 100 * row["interval"]
    if not math.isnan(half):
        kinds.add("interval")
        # a share can't be outside 0–100 %, however wide the interval of few seeds is
        inside = [[min(half, mean)], [min(half, 100 - mean)]]
        axis.errorbar(mean, y, xerr=inside, color=style["color"], capsize=3, lw=1.3, zorder=2)
    elif len(folds) > 1:
        kinds.add("fold")
        axis.plot(100 * folds, [y] * len(folds), ".", color=style["color"], ms=4.5, alpha=0.4, mew=0)
    axis.plot(mean, y, style["marker"], color=style["color"], ms=6, zorder=3)
    return kinds


def _mark_handles() -> dict[str, Line2D]:
    return {
        "interval": Line2D([], [], color=GREY, marker="|", ms=7, mew=1.3, lw=1.3, label="95 % interval over seeds"),
        "fold": Line2D([], [], color=GREY, marker=".", ls="", ms=6, alpha=0.6, label="a single fold"),
        "published": Line2D([], [], color=GREY, marker="o", mfc="white", ls="", ms=8, label="published (quoted)"),
    }


def _reference_line(number: int) -> dict[str, object]:
    return {"color": VIEW_STYLES[number]["color"], "lw": 1, "ls": (0, (4, 3)) if number == 0 else (0, (1, 2))}


def _view_handles(views: Sequence[str], summary: pd.DataFrame, reference: str | None) -> list[Line2D]:
    handles = [
        Line2D([], [], ls="", ms=7, label=view_label(view, summary), **VIEW_STYLES[number])
        for number, view in enumerate(views)
    ]
    if reference:
        handles += [
            Line2D([], [], label=f"{reference}, {view_name(view)}", **_reference_line(number))
            for number, view in enumerate(views)
        ]
    return handles


def view_label(view: str, summary: pd.DataFrame) -> str:
    """The view with its dimension, where all methods have the same."""
    dims = summary.loc[summary["view"] == view, "dim"].dropna().unique()
    return f"{view_name(view)}, {int(dims[0])}-d" if len(dims) == 1 else view_name(view)


def curves(
    histories: pd.DataFrame,
    *,
    dataset: str,
    labels: Mapping[str, str],
    selection: str | None,
    chosen: Mapping[tuple[str, int, int], int],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
    title: str = "",
) -> Figure:
    """A pair of panels a method: the metric that selects the checkpoint, and the loss, against the step.

    ``selection`` is the history's column of that metric (None where the last epoch is taken: then only losses are
    drawn), ``chosen`` the epoch kept by each (method, seed, fold).
    """
    histories = histories[histories["dataset"] == dataset]
    trained = [m for m in labels if m != reference and (histories.loc[histories["method"] == m, "step"] > 0).any()]
    if not trained:
        return note("Nothing was trained here, so there is no training curve.", png, svg)
    bands = math.ceil(len(trained) / PANELS_A_ROW)
    columns = math.ceil(len(trained) / bands)
    if selection not in histories:
        selection = None
    heights = [1.7, 1] if selection else [1.2]
    with styled():
        size = (max(6.5, 0.9 + 2.7 * columns), 0.9 + 1.3 * sum(heights) * bands)
        figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(len(heights) * bands, columns, height_ratios=heights * bands)
        first: Axes | None = None
        for number, method in enumerate(trained):
            band, column = divmod(number, columns)
            runs = histories[histories["method"] == method]
            loss = figure.add_subplot(grid[len(heights) * (band + 1) - 1, column])
            _lines(loss, runs, "loss", 1, INK)
            loss.set_xlabel("step")
            loss.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            _scale_loss(loss, runs["loss"].dropna())
            titled = loss
            if selection:
                titled = figure.add_subplot(grid[len(heights) * band, column], sharex=loss, sharey=first)
                first = first or titled
                _lines(titled, runs, selection, 100, BLUE)
                _mark_chosen(titled, runs, selection, chosen)
                titled.tick_params(labelbottom=False, labelleft=column == 0)
            titled.set_title(labels[method])
            if column == 0:
                titled.set_ylabel(f"{selection.replace('_', ' ')} (%)" if selection else "loss")
                loss.set_ylabel("loss")
        colour = BLUE if selection else INK
        one = "a fold of a seed" if histories["seed"].nunique() > 1 else "a fold"
        handles = [
            Line2D([], [], color=colour, lw=2, label="mean of the runs"),
            Line2D([], [], color=colour, lw=0.8, alpha=0.5, label=f"one run ({one})"),
        ]
        if selection:
            kept = {"color": VERMILLION, "marker": "D", "ls": "", "ms": 5, "mec": "white"}
            handles.append(Line2D([], [], label="checkpoint kept", **kept))
        figure.align_ylabels()
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        figure.suptitle(title or None, fontsize=11, fontweight="bold")
        return save(figure, png, svg)


def _scale_loss(axis: Axes, losses: pd.Series) -> None:
    """Logarithmic where a linear scale would show one fall and then a flat line."""
    if len(losses) and losses.min() > 0 and losses.max() > LOG_LOSS * losses.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(PLAIN)
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.yaxis.set_major_locator(MaxNLocator(3))


def _lines(axis: Axes, runs: pd.DataFrame, column: str, scale: float, colour: str) -> None:
    """Each run as a thin line, and their mean as far as all of them go."""
    runs = runs.dropna(subset=[column])
    for _, run in runs.groupby(["seed", "fold"]):
        axis.plot(run["step"], scale * run[column], color=colour, lw=0.8, alpha=0.45)
    folds = runs.groupby("step")[column].agg(["mean", "size"])
    shared = folds[folds["size"] == folds["size"].max()]
    axis.plot(shared.index, scale * shared["mean"], color=colour, lw=2)


def _mark_chosen(axis: Axes, runs: pd.DataFrame, column: str, chosen: Mapping[tuple[str, int, int], int]) -> None:
    for (method, seed, fold), run in runs.groupby(["method", "seed", "fold"]):
        kept = run[run["epoch"] == chosen.get((method, seed, fold))]
        axis.plot(kept["step"], 100 * kept[column], "D", color=VERMILLION, ms=5, mec="white", mew=0.7, zorder=4)


def recall(
    summary: pd.DataFrame,
    *,
    dataset: str,
    labels: Mapping[str, str],
    views: Sequence[str],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
    title: str = "",
) -> Figure:
    """How often a right image is among the first k, for each view, with its interval where there are several seeds."""
    part = summary[(summary["dataset"] == dataset) & summary["metric"].str.fullmatch(r"R@\d+").fillna(False)]
    part = part.assign(k=part["metric"].str.removeprefix("R@").astype(int)).sort_values("k")
    ranks = sorted(part["k"].unique())
    if len(ranks) < 2:
        return note("A recall curve needs two or more R@k among the study's metrics.", png, svg)
    with styled():
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
            axis.xaxis.set_major_formatter(PLAIN)
            axis.set_xlabel("k (nearest neighbours looked at)")
            axis.set_title(view_label(view, part))
        axes[0, 0].set_ylabel("recall@k (%)")
        named = [handle for method, handle in handles.items() if method == reference or method in coloured]
        if len(named) < len(labels):
            rest = f"{len(labels) - len(named)} more methods"
            named.append(Line2D([], [], color=FAINT, lw=1.2, label=rest))
        figure.legend(handles=named, loc="outside right center")
        figure.suptitle(title or None, fontsize=11, fontweight="bold")
        return save(figure, png, svg)


def _most_telling(part: pd.DataFrame, methods: list[str], view: str) -> list[str]:
    """The methods to draw in colour, in their order: all, or, where lines would hide each other, the highest ones."""
    if len(methods) <= RECALL_LINES:
        return methods
    first = part[(part["view"] == view) & (part["k"] == part["k"].min()) & part["method"].isin(methods)]
    best = set(first.sort_values("mean", ascending=False, kind="stable")["method"].head(RECALL_LINES))
    return [method for method in methods if method in best]


def _recall_line(axis: Axes, part: pd.DataFrame, view: str, method: str, label: str, style: dict) -> Line2D:
    rows = part[(part["view"] == view) & (part["method"] == method)]
    (line,) = axis.plot(rows["k"], 100 * rows["mean"], label=label, **style)
    half = 100 * rows["interval"].fillna(0)
    if half.any() and style["marker"]:
        low, high = ((100 * rows["mean"] + sign * half).clip(0, 100) for sign in (-1, 1))
        axis.fill_between(rows["k"], low, high, color=style["color"], alpha=0.15, lw=0)
    return line


def project(embeddings: np.ndarray, seed: int = 0) -> np.ndarray:
    """The same two coordinates for the same embeddings: PCA to 50, then t-SNE started from PCA."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    count, dim = embeddings.shape
    if count < 5:
        padded = np.zeros((count, 2))
        padded[:, : min(2, dim)] = embeddings[:, :2]
        return padded
    small = PCA(min(50, dim, count), random_state=seed).fit_transform(embeddings.astype(np.float64))
    perplexity = min(30.0, (count - 1) / 3)
    return TSNE(init="pca", perplexity=perplexity, random_state=seed, learning_rate="auto").fit_transform(small)


def embedding_map(
    embeddings: Mapping[str, np.ndarray],
    class_labels: np.ndarray,
    *,
    shown: Sequence[int],
    names: Mapping[int, str],
    png: str | Path,
    svg: str | Path,
    thumbnails: Mapping[int, np.ndarray] | None = None,
    title: str = "",
) -> Figure:
    """Test images in two dimensions, one panel an entry of ``embeddings`` (label -> array in the same order).

    The classes ``shown`` stand out by colour and marker; with ``thumbnails`` (position -> small image) their images
    are drawn in place of markers, because a picture says more than a dot where it is small enough to be one.
    """
    with styled():
        legend = 0.34 * math.ceil((len(shown) + 1) / LEGEND_COLUMNS) + 0.1
        figure = plt.figure(figsize=(0.3 + 5.4 * len(embeddings), 5.7 + legend), layout="constrained")
        grid = figure.add_gridspec(2, len(embeddings), height_ratios=[5.7, legend])
        for column, (label, vectors) in enumerate(embeddings.items()):
            axis = figure.add_subplot(grid[0, column])
            points = project(vectors)
            rest = ~np.isin(class_labels, shown)
            axis.plot(*points[rest].T, ".", color=FAINT, ms=3.5, mew=0, zorder=1, rasterized=len(points) > 3000)
            for number, cls in enumerate(shown):
                for member in np.flatnonzero(class_labels == cls):
                    _stamp(axis, points[member], number, thumbnails and thumbnails[int(member)])
            axis.set_title(label)
            _frame_only(axis)
            # Images do not count when matplotlib looks for limits.
            axis.update_datalim(points)
            axis.margins(0.05)
            axis.autoscale_view()
        strip = figure.add_subplot(grid[1, :])
        _class_legend(strip, shown, class_labels, names, thumbnails)
        figure.suptitle(title or None, fontsize=11, fontweight="bold")
        return save(figure, png, svg)


def highlighted_classes(
    class_labels: np.ndarray, groups: Mapping[int, str] | None = None, count: int = MAP_CLASSES
) -> list[int]:
    """The classes that stand out in a map: of those with the usual number of images or more, evenly spread.

    With ``groups`` (label -> super-label) they are taken from one group after the other, so that no group crowds
    the map with classes that look alike.
    """
    classes, counts = np.unique(class_labels, return_counts=True)
    by_group: dict[str, list[int]] = {}
    for cls in classes[counts >= np.median(counts)]:
        by_group.setdefault((groups or {}).get(int(cls), ""), []).append(int(cls))
    members = [by_group[group] for group in sorted(by_group)]
    wanted = [len(range(number, count, len(members))) for number in range(len(members))]
    return sorted(cls for own, many in zip(members, wanted, strict=True) for cls in _spread(own, many))


def _spread(values: list[int], count: int) -> list[int]:
    """So many of the values, from the middles of equal parts."""
    count = min(count, len(values))
    return [values[int((number + 0.5) * len(values) / count)] for number in range(count)]


def _stamp(axis: Axes, at: np.ndarray, number: int, thumbnail: np.ndarray | None, size: float = MAP_TILE) -> None:
    """A class's image in its frame, or its marker."""
    colour = COLOURS[number % len(COLOURS)]
    if thumbnail is None:
        marker = MARKERS[number % len(MARKERS)]
        axis.plot(*at, ls="", marker=marker, color=colour, ms=7, mec="white", mew=0.6, zorder=3)
        return
    picture = OffsetImage(thumbnail, zoom=72 * size / max(thumbnail.shape[:2]), interpolation="lanczos")
    frame = {
        "edgecolor": colour,
        "linewidth": 1.3,
        "linestyle": "-" if number < len(COLOURS) else (0, (2, 1)),
        "boxstyle": "square,pad=0.12",
    }
    axis.add_artist(AnnotationBbox(picture, tuple(at), pad=0, bboxprops=frame, zorder=3))


def _class_legend(
    axis: Axes,
    shown: Sequence[int],
    class_labels: np.ndarray,
    names: Mapping[int, str],
    thumbnails: Mapping[int, np.ndarray] | None,
) -> None:
    """What each frame or marker stands for, with an image of the class where the map has images."""
    rows = math.ceil((len(shown) + 1) / LEGEND_COLUMNS)
    axis.set(xlim=(0, LEGEND_COLUMNS), ylim=(rows - 0.5, -0.5))
    axis.axis("off")
    for number in range(len(shown) + 1):
        row, column = divmod(number, LEGEND_COLUMNS)
        at = np.array([column + 0.08, row])
        if number == len(shown):
            axis.plot(*at, ".", color=FAINT, ms=8)
            text = "all other classes"
        else:
            first = int(np.flatnonzero(class_labels == shown[number])[0])
            _stamp(axis, at, number, thumbnails and thumbnails[first])
            text = textwrap.shorten(names.get(int(shown[number]), str(shown[number])), 28, placeholder="…")
        axis.text(column + 0.16, row, text, va="center")


def _frame_only(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(True)
