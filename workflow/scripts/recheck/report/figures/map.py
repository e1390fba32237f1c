"""A map of the test embeddings in two dimensions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.data.splits import spread_classes
from recheck.report.figures import Facts, Figure, compared
from recheck.report.style import COLOURS, FAINT, MARKERS, WIDTH, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

IMAGES, CLASSES, TILE, LEGEND_COLUMNS = 2500, 11, 0.17, 4
# Images up to this size are drawn as icons in the map; photographs would be unrecognisable at icon size.
ICON = 72


def project(embeddings: np.ndarray, seed: int = 0) -> np.ndarray:
    """Two coordinates per embedding, deterministic: PCA to 50 dimensions, then t-SNE initialised with PCA."""
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


def draw(
    embeddings: Mapping[str, np.ndarray],
    class_labels: np.ndarray,
    *,
    shown: Sequence[int],
    names: Mapping[int, str],
    png: str | Path,
    svg: str | Path,
    thumbnails: Mapping[int, np.ndarray] | None = None,
) -> Drawing:
    """Test images in two dimensions, with one panel per entry of ``embeddings`` (label → array in the same order).

    The classes in ``shown`` stand out by colour and marker; with ``thumbnails`` (position → small image) their images
    are drawn instead of markers.
    """
    with styled() as plt:
        rest = ~np.isin(class_labels, shown)
        legend = 0.34 * math.ceil((len(shown) + rest.any()) / LEGEND_COLUMNS) + 0.1
        figure = plt.figure(figsize=(WIDTH, 5.7 + legend), layout="constrained")
        grid = figure.add_gridspec(2, len(embeddings), height_ratios=[5.7, legend])
        for column, (label, vectors) in enumerate(embeddings.items()):
            axis = figure.add_subplot(grid[0, column])
            points = project(vectors)
            axis.plot(*points[rest].T, ".", color=FAINT, ms=3.5, mew=0, zorder=1, rasterized=len(points) > 3000)
            for number, cls in enumerate(shown):
                for member in np.flatnonzero(class_labels == cls):
                    _stamp(axis, points[member], number, thumbnails and thumbnails[int(member)])
            axis.set_title(label)
            _frame_only(axis)
            # matplotlib ignores images when it computes the limits
            axis.update_datalim(points)
            axis.margins(0.05)
            axis.autoscale_view()
        strip = figure.add_subplot(grid[1, :])
        _class_legend(strip, shown, class_labels, names, thumbnails)
        return save(figure, png, svg)


def highlighted_classes(
    class_labels: np.ndarray, groups: Mapping[int, str] | None = None, count: int = CLASSES
) -> list[int]:
    """The classes to highlight in a map: evenly spread over those with at least the median number of images.

    With ``groups`` (label → super-label), each group contributes about equally many classes, so that similar classes
    of one group do not crowd the map.
    """
    classes, counts = np.unique(class_labels, return_counts=True)
    by_group: dict[str, list[int]] = {}
    for cls in classes[counts >= np.median(counts)]:
        by_group.setdefault((groups or {}).get(int(cls), ""), []).append(int(cls))
    members = [by_group[group] for group in sorted(by_group)]
    wanted = [len(range(number, count, len(members))) for number in range(len(members))]
    return sorted(cls for group, number in zip(members, wanted, strict=True) for cls in _spread(group, number))


def _spread(values: list[int], count: int) -> list[int]:
    """``count`` of the values, from the middles of equal parts."""
    count = min(count, len(values))
    return [values[int((number + 0.5) * len(values) / count)] for number in range(count)]


def _stamp(axis: Axes, at: np.ndarray, number: int, thumbnail: np.ndarray | None, size: float = TILE) -> None:
    """Draw a class's image in its frame, or its marker."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

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
    """Draw the legend of frames or markers, with an image of each class if the map has images."""
    entries = len(shown) + int(bool((~np.isin(class_labels, shown)).any()))
    rows = math.ceil(entries / LEGEND_COLUMNS)
    axis.set(xlim=(0, LEGEND_COLUMNS), ylim=(rows - 0.5, -0.5))
    axis.axis("off")
    for number in range(entries):
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


class Map(Figure):
    name, title, place = "map", "Map of the test embeddings", 140
    caption = (
        "Test images of {dataset} in two dimensions: t-SNE of their concatenated embeddings. Images with the same "
        "frame or marker are of the same class; where they lie together, the embedding recognises the class. Distances "
        "between distant groups mean little in such a map."
    )
    needs = ("evaluations", "runs", "embeddings", "index", "split", "pack")

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (compared(facts),)

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["scope"] == "all"

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        shown = inputs.shown()
        subset = spread_classes(shown.labels, IMAGES)
        images, labels = shown.images[subset], shown.labels[subset]
        chosen = highlighted_classes(labels, shown.groups)
        pictures = {int(at): inputs.pack.image(int(images[at])) for at in np.flatnonzero(np.isin(labels, chosen))}
        icons = all(max(picture.shape[:2]) <= ICON for picture in pictures.values())
        return draw(
            {label: vectors[subset] for label, vectors in shown.embeddings.items()},
            labels,
            shown=chosen,
            names=shown.names,
            thumbnails=pictures if icons else None,
            png=png,
            svg=svg,
        )
