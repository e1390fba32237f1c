"""The hours of each row as bars, stacked by dataset, or by kind of work for a single dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.report.cost import between, number
from recheck.report.query_sets import wrapped
from recheck.report.style import COLOURS, INK, SMALL, WIDTH, legend_patch, note, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing

HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---", "ooo")
KINDS = ("training", "evaluating", "embedding")
LABEL_WIDTH = 34
Bar = tuple[str, list[float]]
"""A row's label and the hours of its segments."""


def draw(document: Mapping[str, Any], png: str | Path, svg: str | Path) -> Drawing:
    """One bar per row; with early stopping, one panel for the shortest runs and one for the longest."""
    rows = [row for row in document["rows"] if "hours" in row]
    if not rows:
        return note("No hours: the cost of every row is unknown.", png, svg)
    ranges = any(row["hours"][0] != row["hours"][1] for row in rows)
    names, ends = _segments(document, rows)
    titles = ("If no run improves (early stopping)", "If runs take all steps") if ranges else ("",)
    bars = ends if ranges else ends[1:]
    with styled() as plt:
        size = (WIDTH, 1.5 + 0.27 * len(bars[0]))
        figure, axes = plt.subplots(1, len(bars), figsize=size, sharey=True, squeeze=False, layout="constrained")
        for axis, title, lines in zip(axes[0], titles, bars, strict=True):
            _bars(axis, lines)
            axis.set(title=title, xlabel=f"hours on {document['gpu']['title']}")
        axes[0, 0].set_yticks(range(len(bars[0])), [wrapped(label, LABEL_WIDTH, 1) for label, _ in bars[0]])
        handles = [legend_patch(label=name, **_look(place)) for place, name in enumerate(names)]
        hours = between(*(sum(sum(values) for _, values in lines) for lines in ends))
        figure.suptitle(f"Cost of {document['study']}: {hours} hours")
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
        return save(figure, png, svg)


def _segments(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Bar]]]:
    """Names of the segments, and the bars of the shortest and of the longest runs."""
    datasets = {dataset["name"]: dataset["title"] for dataset in document["datasets"]}
    labels = dict.fromkeys((row["row"], row["label"]) for row in rows)
    if len(datasets) == 1:
        return list(KINDS), [
            [(row["label"], [row["parts"][kind][end] for kind in KINDS]) for row in rows] for end in (0, 1)
        ]
    hours = {(row["row"], row["dataset"]): row["hours"] for row in rows}
    return list(datasets.values()), [
        [(label, [hours.get((name, dataset), [0, 0])[end] for dataset in datasets]) for name, label in labels]
        for end in (0, 1)
    ]


def _bars(axis: Axes, bars: Sequence[Bar]) -> None:
    for place, (_, values) in enumerate(bars):
        start = 0.0
        for segment, value in enumerate(values):
            axis.barh(place, value, left=start, height=0.66, zorder=2, **_look(segment))
            start += value
        axis.annotate(
            number(start), (start, place), (4, 0), textcoords="offset points", va="center", fontsize=SMALL, color=INK
        )
    striped(axis, len(bars))
    axis.set_xlim(0, 1.12 * max(max(sum(values) for _, values in bars), 1e-9))


def _look(segment: int) -> dict[str, object]:
    """Colour and hatch of a segment, so that it is recognised without colour."""
    return {
        "facecolor": COLOURS[segment % len(COLOURS)],
        "hatch": HATCHES[segment % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0.6,
    }
