"""The retrieval gallery: some queries and their nearest neighbours under each method, with correct and wrong marked."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.search import Search
from recheck.report.figures import Facts, Figure
from recheck.report.style import GREY, INK, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

RIGHT, WRONG = "#009E73", "#D55E00"
CHECK, CROSS = "\N{CHECK MARK}", "\N{BALLOT X}"
# Sizes in inches, which are also the drawing's coordinates, so that text and frames keep their proportions.
TILE, GAP, NAME, MARGIN, INSET, PIXELS = 0.86, 0.14, 0.3, 0.15, 0.05, 128
LABEL, QUERY, QUERY_NAME = 1.3, 1.2, 0.36
NAME_SIZE, CHARACTERS = 6.5, 14
QUERIES, NEIGHBOURS, EVERY_NTH_FAILS = 6, 8, 3


def choose_queries(labels: np.ndarray, right: np.ndarray, count: int) -> np.ndarray:
    """Positions of queries, evenly spread over the classes; every third has a wrong nearest neighbour.

    ``right`` tells for each image whether its nearest neighbour has the same class. The classes are divided into
    ``count`` blocks. Each block gives the image closest to its middle that has a correct neighbour (in every third
    block, a wrong one) or, if no image fits, the image in the middle. Classes with one image are left out, because they
    have no correct neighbour.
    """
    classes, counts = np.unique(labels, return_counts=True)
    blocks = np.array_split(classes[counts > 1], count)
    chosen = []
    for number, block in enumerate(block for block in blocks if len(block)):
        wanted = number % EVERY_NTH_FAILS != EVERY_NTH_FAILS - 1
        middle = (len(block) - 1) / 2
        order = sorted(range(len(block)), key=lambda place: (abs(place - middle), place))
        candidates = np.concatenate([np.flatnonzero(labels == block[place]) for place in order])
        fitting = candidates[right[candidates] == wanted]
        chosen.append(int(fitting[0] if len(fitting) else candidates[0]))
    return np.asarray(chosen, dtype=np.int64)


def draw(
    image: Callable[[int], np.ndarray],
    labels: np.ndarray,
    queries: Sequence[int],
    neighbours: Mapping[str, np.ndarray],
    *,
    names: Mapping[int, str],
    png: str | Path,
    svg: str | Path,
) -> Drawing:
    """Each query with one row of nearest neighbours per method, to show what training changed.

    ``image(position)`` returns an RGB array and ``labels`` has the class of each position. ``neighbours`` maps each
    method's label to an array (query, rank) of positions, with -1 for a missing neighbour.
    """
    ranks = max(nearest.shape[1] for nearest in neighbours.values())
    row = TILE + NAME
    block = max(len(neighbours) * row, QUERY + QUERY_NAME)
    left = MARGIN + QUERY + GAP + LABEL
    width = left + ranks * (TILE + GAP) + MARGIN
    top = 0.45
    height = top + len(queries) * (block + GAP) + 0.1
    with styled() as plt:
        figure = plt.figure(figsize=(width, height))
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set(xlim=(0, width), ylim=(height, 0))
        axis.axis("off")
        _heading(axis, left, top - 0.2, ranks)
        for number, query in enumerate(queries):
            y = top + number * (block + GAP)
            if number:
                axis.plot([MARGIN, width - MARGIN], [y - GAP / 2 - 0.04] * 2, color="#dddddd", lw=0.8)
            _query(axis, image(int(query)), names.get(int(labels[query]), ""), y, len(neighbours) * row - NAME)
            for line, (method, nearest) in enumerate(neighbours.items()):
                row_top = y + line * row
                _method(axis, method, MARGIN + QUERY + GAP, row_top, nearest[number], labels, labels[query])
                for rank, position in enumerate(nearest[number]):
                    if position >= 0:
                        corner = (left + rank * (TILE + GAP), row_top)
                        right = bool(labels[position] == labels[query])
                        _neighbour(axis, image(int(position)), corner, right, names.get(int(labels[position]), ""))
        return save(figure, png, svg)


def _heading(axis: Axes, left: float, y: float, ranks: int) -> None:
    from matplotlib.patches import Rectangle

    axis.text(MARGIN, y, "query", fontsize=8, color=GREY, va="center")
    axis.text(left, y, f"its {ranks} nearest neighbours, nearest first:", fontsize=8, color=GREY, va="center")
    x = left + 2.75
    for sign, colour, dash, meaning in (
        (CHECK, RIGHT, "-", "same class"),
        (CROSS, WRONG, (0, (3, 2)), "another class"),
    ):
        axis.add_patch(Rectangle((x, y - 0.09), 0.18, 0.18, fill=False, ec=colour, lw=1.8, ls=dash))
        axis.text(x + 0.26, y, f"{sign} {meaning}", fontsize=8, color=INK, va="center")
        x += 1.25


def _query(axis: Axes, picture: np.ndarray, name: str, y: float, span: float) -> None:
    from matplotlib.patches import Rectangle

    corner = (MARGIN, y + max(0.0, (span - QUERY) / 2))
    _picture(axis, picture, corner, QUERY)
    axis.add_patch(Rectangle(corner, QUERY, QUERY, fill=False, ec="#444444", lw=1))
    text = "\n".join(textwrap.wrap(name, 20, max_lines=2, placeholder="…"))
    axis.text(
        corner[0] + QUERY / 2, corner[1] + QUERY + 0.06, text, fontsize=7.5, fontweight="bold", ha="center", va="top"
    )


def _method(axis: Axes, method: str, x: float, y: float, nearest: np.ndarray, labels: np.ndarray, query: int) -> None:
    """Write the method's label and how many of its neighbours are correct; ``query`` is the query's class."""
    shown = nearest[nearest >= 0]
    hits = int((labels[shown] == query).sum())
    lines = textwrap.wrap(method, 16, max_lines=3, placeholder="…", break_on_hyphens=False)
    axis.text(x, y + TILE / 2 - 0.03, "\n".join(lines), fontsize=9, fontweight="bold", va="bottom", linespacing=1.1)
    axis.text(x, y + TILE / 2 + 0.06, f"{hits} of {len(shown)} correct", fontsize=8, color=GREY, va="top")


def _neighbour(axis: Axes, picture: np.ndarray, corner: tuple[float, float], right: bool, name: str) -> None:
    from matplotlib.patches import Circle, Rectangle

    colour, dash, sign = (RIGHT, "-", CHECK) if right else (WRONG, (0, (3, 2)), CROSS)
    _picture(axis, picture, corner, TILE)
    axis.add_patch(Rectangle(corner, TILE, TILE, fill=False, ec=colour, lw=2.2, ls=dash))
    badge = (corner[0] + TILE - 0.03, corner[1] + 0.03)
    axis.add_patch(Circle(badge, 0.095, fc=colour, ec="white", lw=1, zorder=3))
    axis.text(*badge, sign, fontsize=7, color="white", ha="center", va="center_baseline", zorder=4)
    text = "\n".join(textwrap.wrap(name, CHARACTERS, max_lines=2, placeholder="…"))
    colour = GREY if right else INK
    axis.text(
        corner[0] + TILE / 2,
        corner[1] + TILE + 0.04,
        text,
        fontsize=NAME_SIZE,
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


def _nearest(vectors: np.ndarray, rows: np.ndarray, queries: int, count: int) -> np.ndarray:
    """The nearest ``count`` rows: from the gallery (after the first ``queries`` rows), else from all other rows."""
    if queries < len(vectors):
        return queries + Search(vectors[queries:]).nearest(vectors[rows], count)
    search = Search(vectors)
    if len(rows) == queries:
        search.pair_up(count)
    return search.nearest(None, count, rows)


class Gallery(Figure):
    name, title, place = "gallery", "Retrieved images", 100
    caption = (
        "The nearest neighbours of six test images of {dataset} under the best trained method in the table and, if the "
        "study has an untrained row, before training. A solid frame with a check mark is an image of the query's "
        "class, a dashed frame with a cross an image of another class. The queries are spread evenly over the classes. "
        "Every third query is one whose nearest neighbour is still wrong after training, so the gallery shows mistakes "
        "more often than they occur."
    )
    needs = ("evaluations", "runs", "embeddings", "index", "split", "pack")

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["scope"] == "all"

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        shown = inputs.shown(with_gallery=True)
        candidates = np.arange(inputs.queries)
        last = list(shown.embeddings.values())[-1]
        right = shown.labels[_nearest(last, candidates, len(candidates), 1)[:, 0]] == shown.labels[candidates]
        queries = choose_queries(shown.labels[candidates], right, QUERIES)
        return draw(
            lambda position: np.asarray(inputs.pack.image(int(shown.images[position]))),
            shown.labels,
            queries,
            {
                label: _nearest(vectors, queries, len(candidates), NEIGHBOURS)
                for label, vectors in shown.embeddings.items()
            },
            names=shown.names,
            png=png,
            svg=svg,
        )
