"""The style of all figures, readable without colour, and how they are saved: the same data gives the same bytes.

Snakemake imports the figures while it parses the workflow, so matplotlib is imported only by functions that draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from recheck.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

# Okabe and Ito's palette without yellow, which is too faint on white.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
BROWN = "#8C510A"
INK, GREY, FAINT, STRIPE = "#222222", "#767676", "#d0d0d0", "#f5f6f8"
# For the first and the second view of a study.
VIEW_STYLES = ({"color": BLUE, "marker": "o"}, {"color": VERMILLION, "marker": "s"})
# For figures in which the line style does not encode the method.
MANY_COLOURS = (*COLOURS, INK, BROWN)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h")
LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))

SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
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
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
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


def save(figure: Figure, png: str | Path, svg: str | Path) -> Figure:
    """The figure, after writing both files atomically, without dates or version strings."""
    import matplotlib.pyplot as plt

    with atomic(png) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
    with atomic(svg) as temporary:
        figure.savefig(temporary, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return figure


def note(sentence: str, png: str | Path, svg: str | Path) -> Figure:
    """A figure with only a sentence that explains why there is nothing to draw, so that the study still completes."""
    with styled() as plt:
        figure = plt.figure(figsize=(7, 1.2))
        figure.text(0.5, 0.5, sentence, ha="center", va="center", color=GREY)
        return save(figure, png, svg)
