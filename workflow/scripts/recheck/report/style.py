"""The style of all figures, readable without colour, and how they are saved: the same data gives the same bytes.

Snakemake imports the figures while it parses the workflow, so matplotlib is imported only by functions that draw.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from xml.sax.saxutils import escape

from recheck.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

log = logging.getLogger("recheck")

# figure → axes with the places (in data coordinates) and texts of their marks
_MARKS: WeakKeyDictionary[Figure, list[tuple[Axes, list[tuple[float, float, str]]]]] = WeakKeyDictionary()

# Inches. Pages and papers scale figures to a common width. All figures have the same width, so that letters of one size
# look the same in all of them.
WIDTH = 10.9
# Points. Text has no other sizes.
SMALL, NORMAL, TITLE = 8, 9, 10

# Okabe and Ito's palette without yellow, which is too faint on white.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
BROWN = "#8C510A"
INK, GREY, FAINT, STRIPE, SHADE = "#222222", "#767676", "#d0d0d0", "#f5f6f8", "#e2e6ec"
# For the first and the second view of a study.
VIEW_STYLES = ({"color": BLUE, "marker": "o"}, {"color": VERMILLION, "marker": "s"})
# For figures in which the line style does not encode the method.
MANY_COLOURS = (*COLOURS, INK, BROWN)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h")
LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))

FONT = "DejaVu Sans"
PUBLISHED_ONLY = "Published values only: nothing was measured here"
SETTINGS = {
    "figure.figsize": (WIDTH, 4.2),
    "font.family": FONT,
    "font.size": NORMAL,
    "figure.titlesize": TITLE,
    "figure.titleweight": "bold",
    "axes.titlesize": TITLE,
    "axes.titleweight": "bold",
    "axes.labelsize": NORMAL,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelsize": NORMAL,
    "ytick.labelsize": NORMAL,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": NORMAL,
    "legend.title_fontsize": NORMAL,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "recheck",
    "svg.fonttype": "path",
    "text.parse_math": False,
}
DPI = 150


@contextmanager
def styled() -> Iterator[ModuleType]:
    """Yield pyplot with the common style, without a display."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(SETTINGS):
        yield plt


def series(position: int) -> dict[str, object]:
    """Colour, marker and line style of the n-th method.

    No two of the first 60 methods share all three, and no two neighbours share any.
    """
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": LINES[position % len(LINES)],
    }


def line_of(position: int) -> dict[str, object]:
    """Colour and marker of the n-th method, for figures in which line styles and stars have another meaning."""
    markers = [marker for marker in MARKERS if marker != "*"]
    return {"color": MANY_COLOURS[position % len(MANY_COLOURS)], "marker": markers[position % len(markers)]}


def arranged(count: int, per_row: int) -> tuple[int, int]:
    """Rows and columns of a grid of ``count`` panels, with rows of nearly equal length."""
    rows = math.ceil(count / per_row)
    return rows, math.ceil(count / rows)


def panels(
    plt: ModuleType, count: int, per_row: int, height: float, extra: float, shared: str = "y"
) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels in rows of this height, whose ``shared`` axes ("x", "y") are the same for all.

    ``extra`` is the height of the legend.
    """
    rows, columns = arranged(count, per_row)
    size = (WIDTH, height * rows + extra)
    figure, axes = plt.subplots(
        rows, columns, figsize=size, sharex="x" in shared, sharey="y" in shared, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


def label_lines(figure: Figure, axes: Sequence[Axes]) -> None:
    """Write the label of each line beside its right end, joined to it by a thin line, instead of a legend.

    Labels of lines that end close together are moved apart. The limits of the axes must not change afterwards.
    """
    from matplotlib.text import Text
    from matplotlib.transforms import blended_transform_factory

    for axis in axes:
        place = blended_transform_factory(axis.transAxes, axis.transData)
        axis.set_ylim(axis.get_ylim())
        for line in sorted(axis.get_lines(), key=lambda line: line.get_ydata()[-1]):
            x, y = line.get_xydata()[-1]
            arrow = {"arrowstyle": "-", "color": line.get_color(), "lw": 0.6, "shrinkA": 0, "shrinkB": 3, "alpha": 0.8}
            axis.annotate(
                line.get_label(), (x, y), (1.04, y), textcoords=place, arrowprops=arrow, va="center", fontsize=SMALL
            )
    # the layout needs the width of the labels, and the height of a label in data units depends on the layout
    figure.get_layout_engine().execute(figure)
    for axis in axes:
        gap = max((Text.get_window_extent(text).height for text in axis.texts), default=0)  # without its line
        wanted = [axis.transData.transform((0, text.xy[1]))[1] for text in axis.texts]
        for text, middle in zip(axis.texts, spread(wanted, gap), strict=True):
            text.set_y(axis.transData.inverted().transform((0, middle))[1])


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The places closest to the ``wanted`` ones (ascending) that are at least ``gap`` apart."""
    groups: list[tuple[float, int]] = []  # sum and number of the places that must touch, each without its gaps
    for number, place in enumerate(wanted):
        total, count = place - number * gap, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            total, count = total + groups[-1][0], count + groups[-1][1]
            groups.pop()
        groups.append((total, count))
    means = [total / count for total, count in groups for _ in range(count)]
    return [mean + number * gap for number, mean in enumerate(means)]


def striped(axis: Axes, rows: int) -> None:
    """Turn the axis into rows, one per tick, the first on top and every other row shaded."""
    for row in range(1, rows, 2):
        axis.axhspan(row - 0.5, row + 0.5, color=STRIPE, zorder=0, lw=0)
    axis.set_ylim(rows - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)


def legend_line(**look: object) -> Line2D:
    """A line or marker for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def legend_patch(**look: object) -> Patch:
    """A filled or outlined area for a legend."""
    from matplotlib.patches import Patch

    return Patch(**look)


def plain(value: float, _: int) -> str:
    """A tick label without trailing zeros or powers of ten."""
    return f"{value:g}"


def tell(axis: Axes, xs: Iterable[float], ys: Iterable[float], texts: Iterable[str]) -> None:
    """Remember what the marks at these places stand for: on the page their texts appear beside the pointer."""
    points = [(x, y, text) for x, y, text in zip(xs, ys, texts, strict=True) if math.isfinite(x) and math.isfinite(y)]
    _MARKS.setdefault(axis.figure, []).append((axis, points))


def _values(figure: Figure) -> list[tuple[float, float, str]]:
    """All values passed to ``tell``, with their places as fractions of width and height from the top left corner."""
    values = []
    for axis, points in _MARKS.get(figure, ()):
        to_figure = axis.transData + figure.transFigure.inverted()
        for (x, y), (*_, text) in zip(to_figure.transform([point[:2] for point in points]), points, strict=True):
            values.append((round(float(x), 4), round(1 - float(y), 4), text))
    return values


def _add_values(path: Path, values: Sequence[tuple[float, float, str]]) -> None:
    """Write values into an SVG file, as JSON in an element that is not drawn."""
    text = path.read_text(encoding="utf-8")
    content = escape(json.dumps(values, ensure_ascii=False, separators=(",", ":")))
    path.write_text(text.replace("</svg>", f'<metadata class="values">{content}</metadata>\n</svg>'), encoding="utf-8")


def save(figure: Figure, png: str | Path, svg: str | Path) -> Figure:
    """Write the figure to both files atomically, without dates or version strings, and return it."""
    import matplotlib.pyplot as plt

    figure.set_figwidth(WIDTH)
    find_glyphs(figure)
    _lay_out(figure)
    with atomic(png) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
    with atomic(svg) as temporary:
        figure.savefig(temporary, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
        if figure in _MARKS:
            _add_values(temporary, _values(figure))
    plt.close(figure)
    return figure


def _lay_out(figure: Figure) -> None:
    """Place the axes once for both files: with a layout engine, matplotlib draws every file twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(DPI)  # text is measured in pixels
        engine.execute(figure)
        figure.set_layout_engine(None)


def find_glyphs(figure: Figure) -> None:
    """Give texts with characters that the font lacks another installed font; warn if there is none."""
    from matplotlib.font_manager import findfont
    from matplotlib.text import Text

    lacking: list[tuple[Text, set[str]]] = []
    for text in figure.findobj(Text):
        if not text.get_text():
            continue
        known = _characters(findfont(text.get_fontproperties()))
        missing = {
            character for character in text.get_text() if not character.isspace() and ord(character) not in known
        }
        if missing:
            lacking.append((text, missing))
    if not lacking:
        return
    wanted = set.union(*(missing for _, missing in lacking))
    fonts = _fonts_with(wanted)
    for text, _ in lacking:
        text.set_fontfamily([FONT, *fonts])
    if absent := wanted - set().union(*fonts.values()):
        log.warning(
            "No installed font has “%s”, so the figure shows boxes instead. Install a font that has these characters, "
            "or change the labels.",
            "".join(sorted(absent)),
        )


@cache
def _characters(font: str) -> frozenset[int]:
    """The characters of a font file, cached because matplotlib lists thousands of them again for every text."""
    from matplotlib.font_manager import get_font

    return frozenset(get_font(font).get_charmap())


def _fonts_with(characters: Iterable[str]) -> dict[str, set[str]]:
    """Installed font → characters to take from it; together the fonts cover as many characters as possible."""
    from matplotlib.font_manager import fontManager

    wanted, fonts = set(characters), {}
    for entry in sorted(fontManager.ttflist, key=lambda entry: (entry.name, entry.weight != 400, entry.style)):
        if not wanted:
            break
        # matplotlib's font of last resort has a box for every character
        if entry.name not in fonts and not entry.name.startswith("Last Resort"):
            known = _characters(entry.fname)
            if has := {character for character in wanted if ord(character) in known}:
                fonts[entry.name] = has
                wanted -= has
    return fonts


def note(sentence: str, png: str | Path, svg: str | Path) -> Figure:
    """A figure with only a sentence that explains why there is nothing to draw, so that the study still completes."""
    with styled() as plt:
        figure = plt.figure(figsize=(WIDTH, 1.2))
        figure.text(0.5, 0.5, sentence, ha="center", va="center", color=GREY)
        return save(figure, png, svg)
