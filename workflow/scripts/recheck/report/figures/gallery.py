"""The retrieval gallery: some queries and their nearest neighbours under each method, with correct and wrong marked."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.hyperbolic_search import searching
from recheck.report.figures import Facts, Figure, compared
from recheck.report.style import GREY, INK, NORMAL, SMALL, WIDTH, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

RIGHT, WRONG = "#009E73", "#D55E00"
CHECK, CROSS = "\N{CHECK MARK}", "\N{BALLOT X}"
# Sizes in inches, which are also the drawing's coordinates, so that text and frames keep their proportions.
TILE, GAP, NAME, MARGIN, INSET, PIXELS = 0.86, 0.14, 0.32, 0.15, 0.05, 128
QUERY, QUERY_NAME = 1.2, 0.36
QUERIES, NEIGHBOURS, CHARACTERS = 6, 8, 13
LINE = 0.17
LEFT = WIDTH - MARGIN - NEIGHBOURS * (TILE + GAP)


@dataclass(frozen=True)
class Counts:
    """Numbers over all queries: those with a correct nearest neighbour, and their correct neighbours."""

    queries: int
    right: int
    neighbours: int
    right_neighbours: int


def count(labels: np.ndarray, query_labels: np.ndarray, nearest: np.ndarray) -> Counts:
    """Counts over all queries; ``nearest`` is an array (query, rank) of positions, with -1 for a missing neighbour."""
    right = (labels[nearest] == query_labels[:, None]) & (nearest >= 0)
    return Counts(len(right), int(right[:, 0].sum()), int((nearest >= 0).sum()), int(right.sum()))


def choose_queries(labels: np.ndarray, answerable: np.ndarray, count: int) -> np.ndarray:
    """Positions of ``count`` queries, evenly spaced in the list of all queries sorted by class.

    ``answerable`` tells which queries have another image of their class to find; the others are left out. Whether the
    neighbours that a method finds are right has no influence.
    """
    ordered = np.argsort(labels, kind="stable")
    ordered = ordered[answerable[ordered]]
    count = min(count, len(ordered))
    return ordered[((np.arange(count) + 0.5) * len(ordered) / max(1, count)).astype(np.int64)]


def draw(
    image: Callable[[int], np.ndarray],
    labels: np.ndarray,
    queries: Sequence[int],
    neighbours: Mapping[str, np.ndarray],
    *,
    names: Mapping[int, str],
    png: str | Path,
    svg: str | Path,
    counts: Mapping[str, Counts] | None = None,
) -> Drawing:
    """Each query with one row of nearest neighbours per method, to show what training changed.

    ``image(position)`` returns an RGB array and ``labels`` has the class of each position. ``neighbours`` maps each
    method's label to an array (query, rank) of positions, with -1 for a missing neighbour; ``counts`` maps it to the
    counts over all queries.
    """
    counts = counts or {}
    ranks = max(nearest.shape[1] for nearest in neighbours.values())
    row = TILE + NAME
    block = max(len(neighbours) * row, QUERY + QUERY_NAME)
    top = 0.5 + LINE * len(counts)
    height = top + len(queries) * (block + GAP) + 0.1
    with styled() as plt:
        figure = plt.figure(figsize=(WIDTH, height))
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set(xlim=(0, WIDTH), ylim=(height, 0))
        axis.axis("off")
        for line, (method, counted) in enumerate(counts.items()):
            axis.text(MARGIN, 0.2 + LINE * line, _in_words(method, counted), fontsize=SMALL, va="center")
        _heading(axis, top - 0.2, ranks)
        for number, query in enumerate(queries):
            y = top + number * (block + GAP)
            if number:
                axis.plot([MARGIN, WIDTH - MARGIN], [y - GAP / 2 - 0.04] * 2, color="#dddddd", lw=0.8)
            _query(axis, image(int(query)), names.get(int(labels[query]), ""), y, len(neighbours) * row - NAME)
            for line, (method, nearest) in enumerate(neighbours.items()):
                row_top = y + line * row
                _method(axis, method, MARGIN + QUERY + GAP, row_top, nearest[number], labels, labels[query])
                for rank, position in enumerate(nearest[number]):
                    if position >= 0:
                        corner = (LEFT + rank * (TILE + GAP), row_top)
                        right = bool(labels[position] == labels[query])
                        _neighbour(axis, image(int(position)), corner, right, names.get(int(labels[position]), ""))
        return save(figure, png, svg)


def _in_words(method: str, counted: Counts) -> str:
    share = 100 * counted.right_neighbours / max(1, counted.neighbours)
    return (
        f"{method}: the nearest neighbour is correct for {counted.right:,} of all {counted.queries:,} queries "
        f"({100 * counted.right / counted.queries:.1f} %), and {share:.1f} % of all their neighbours are correct."
    )


def _heading(axis: Axes, y: float, ranks: int) -> None:
    from matplotlib.patches import Rectangle

    axis.text(MARGIN, y, "query", fontsize=SMALL, color=GREY, va="center")
    axis.text(LEFT, y, f"its {ranks} nearest neighbours, nearest first:", fontsize=SMALL, color=GREY, va="center")
    x = LEFT + 2.75
    for sign, colour, dash, meaning in (
        (CHECK, RIGHT, "-", "same class"),
        (CROSS, WRONG, (0, (3, 2)), "another class"),
    ):
        axis.add_patch(Rectangle((x, y - 0.09), 0.18, 0.18, fill=False, ec=colour, lw=1.8, ls=dash))
        axis.text(x + 0.26, y, f"{sign} {meaning}", fontsize=SMALL, color=INK, va="center")
        x += 1.25


def _query(axis: Axes, picture: np.ndarray, name: str, y: float, span: float) -> None:
    from matplotlib.patches import Rectangle

    corner = (MARGIN, y + max(0.0, (span - QUERY) / 2))
    _picture(axis, picture, corner, QUERY)
    axis.add_patch(Rectangle(corner, QUERY, QUERY, fill=False, ec="#444444", lw=1))
    text = "\n".join(textwrap.wrap(name, 20, max_lines=2, placeholder="…"))
    axis.text(
        corner[0] + QUERY / 2, corner[1] + QUERY + 0.06, text, fontsize=SMALL, fontweight="bold", ha="center", va="top"
    )


def _method(axis: Axes, method: str, x: float, y: float, nearest: np.ndarray, labels: np.ndarray, query: int) -> None:
    """Write the method's label and how many of its neighbours are correct; ``query`` is the query's class."""
    shown = nearest[nearest >= 0]
    hits = int((labels[shown] == query).sum())
    lines = textwrap.wrap(method, 16, max_lines=3, placeholder="…", break_on_hyphens=False)
    axis.text(
        x, y + TILE / 2 - 0.03, "\n".join(lines), fontsize=NORMAL, fontweight="bold", va="bottom", linespacing=1.1
    )
    axis.text(x, y + TILE / 2 + 0.06, f"{hits} of {len(shown)} correct", fontsize=SMALL, color=GREY, va="top")


def _neighbour(axis: Axes, picture: np.ndarray, corner: tuple[float, float], right: bool, name: str) -> None:
    from matplotlib.patches import Circle, Rectangle

    colour, dash, sign = (RIGHT, "-", CHECK) if right else (WRONG, (0, (3, 2)), CROSS)
    _picture(axis, picture, corner, TILE)
    axis.add_patch(Rectangle(corner, TILE, TILE, fill=False, ec=colour, lw=2.2, ls=dash))
    badge = (corner[0] + TILE - 0.03, corner[1] + 0.03)
    axis.add_patch(Circle(badge, 0.095, fc=colour, ec="white", lw=1, zorder=3))
    axis.text(*badge, sign, fontsize=SMALL, color="white", ha="center", va="center_baseline", zorder=4)
    text = "\n".join(textwrap.wrap(name, CHARACTERS, max_lines=2, placeholder="…"))
    colour = GREY if right else INK
    axis.text(
        corner[0] + TILE / 2,
        corner[1] + TILE + 0.04,
        text,
        fontsize=SMALL,
        color=colour,
        ha="center",
        va="top",
        linespacing=1.0,
    )


def _picture(axis: Axes, picture: np.ndarray, corner: tuple[float, float], size: float) -> None:
    """Draw an image inside a square without stretching it; large images are reduced to keep the files small."""
    from PIL import Image

    shrunk = Image.fromarray(picture)
    shrunk.thumbnail((PIXELS, PIXELS), Image.Resampling.LANCZOS)
    height, width = picture.shape[:2]
    scale = (size - 2 * INSET) / max(height, width)
    x = corner[0] + (size - width * scale) / 2
    y = corner[1] + (size - height * scale) / 2
    axis.imshow(
        np.asarray(shrunk),
        extent=(x, x + width * scale, y + height * scale, y),
        aspect="auto",
        interpolation="lanczos",
        zorder=1,
    )


def nearest(
    vectors: np.ndarray,
    queries: int,
    count: int,
    chosen: np.ndarray | None = None,
    curvature: float | None = None,
) -> np.ndarray:
    """The nearest rows of each query: from the gallery (after the first ``queries`` rows), else from all other rows.

    ``chosen`` are positions of queries (default: all). With a ``curvature``, distances are hyperbolic.
    """
    if queries < len(vectors):
        query_vectors = vectors[:queries] if chosen is None else vectors[chosen]
        return queries + searching(vectors[queries:], curvature=curvature).nearest(query_vectors, count)
    search = searching(vectors, curvature=curvature)
    if chosen is None:
        search.pair_up(count)
    return search.nearest(None, count, np.arange(queries) if chosen is None else chosen)


class Gallery(Figure):
    name, title, place = "gallery", "Retrieved images", 100
    caption = (
        "The eight nearest neighbours of six test images of {dataset}. The queries are evenly spaced in the list of "
        "all queries, sorted by class; whether their neighbours are right has no influence on the choice. The lines at "
        "the top count all queries. A solid frame with a check mark is an image of the query's class, a dashed frame "
        "with a cross an image of another class."
    )
    needs = ("evaluations", "runs", "embeddings", "index", "split", "pack")

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (compared(facts),)

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["scope"] == "all"

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        shown = inputs.shown(with_gallery=True)
        labels, queries = shown.labels, inputs.queries
        classes, counts = np.unique(labels[queries:] if queries < len(labels) else labels, return_counts=True)
        answerable = np.isin(labels[:queries], classes if queries < len(labels) else classes[counts > 1])
        chosen = choose_queries(labels[:queries], answerable, QUERIES)
        curvatures = {row["label"]: row.get("curvature") for row in inputs.rows.values()}
        ranked = {
            label: nearest(vectors, queries, NEIGHBOURS, curvature=curvatures[label])
            for label, vectors in shown.embeddings.items()
        }
        return draw(
            lambda position: np.asarray(inputs.pack.image(int(shown.images[position]))),
            labels,
            chosen,
            {label: neighbours[chosen] for label, neighbours in ranked.items()},
            names=shown.names,
            counts={label: count(labels, labels[:queries], neighbours) for label, neighbours in ranked.items()},
            png=png,
            svg=svg,
        )
