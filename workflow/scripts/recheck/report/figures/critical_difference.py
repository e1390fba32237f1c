"""Average ranks of the methods over datasets; bars join ranks that are not separated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.names import metric_title, view_title
from recheck.report.figures import Facts, StudyFigure, quoted
from recheck.report.numbers import number
from recheck.report.style import GREY, INK, PUBLISHED_ONLY, SMALL, WIDTH, note, save, styled

if TYPE_CHECKING:
    import numpy as np

    from recheck.report.types import Axes, DataFrame, Drawing, StudyInputs
    from recheck.statistics.ranks import Ranking

# Inches: one line of text. In lines: the distance between bars, and the space above the axis.
LINE, BAR, ABOVE = 0.24, 0.55, 2.4
# Fewer methods or blocks (datasets or seeds) have no diagram: see statistics.ranks.
METHODS, BLOCKS = 3, 2


def values(tables: Sequence[DataFrame], metrics: Sequence[str], view: str, column: str) -> DataFrame:
    """Datasets × methods, from the frames of the tables; without datasets and methods that have no value at all."""
    import pandas as pd

    rows = []
    for frame, metric in zip(tables, metrics, strict=True):
        shown = frame[(frame["view"] == view) & (frame["metric"] == metric) & (frame["planned"] > 0)]
        rows.append(shown.set_index("method")[column].rename(len(rows)))
    return pd.DataFrame(rows).dropna(axis="columns", how="all").dropna(axis="index", how="all")


def draw(
    panels: Sequence[tuple[str, DataFrame]],
    *,
    blocks: str = "dataset",
    published: bool,
    png: str | Path,
    svg: str | Path,
) -> Drawing:
    """One diagram per title and frame (blocks × labels of methods); methods without a value in a block are left out."""
    from recheck.statistics.ranks import ranking

    complete = [(title, frame, frame.dropna(axis="columns")) for title, frame in panels]
    complete = [each for each in complete if each[2].shape[0] >= BLOCKS and each[2].shape[1] >= METHODS]
    if not complete:
        return note(f"No average ranks: {METHODS} or more methods need a value for every {blocks}.", png, svg)
    rankings = [(title, ranking(frame.to_numpy()), list(frame), list(all_rows)) for title, all_rows, frame in complete]
    heights = [_height(result) for _, result, _, _ in rankings]
    with styled() as plt:
        figure, axes = plt.subplots(
            len(rankings),
            1,
            figsize=(WIDTH, LINE * sum(heights) + 0.45 * len(rankings) + (0.3 if published else 0)),
            height_ratios=heights,
            squeeze=False,
            layout="constrained",
        )
        for axis, height, (title, result, labels, everything) in zip(axes[:, 0], heights, rankings, strict=True):
            _diagram(axis, result, labels, height)
            axis.set_title(f"{title}: {result.blocks} {blocks}s, {_test(result)}")
            if missing := [label for label in everything if label not in labels]:
                text = f"not ranked, because a value is missing for at least one {blocks}: {', '.join(missing)}"
                axis.text(0, -0.01, text, transform=axis.transAxes, va="top", fontsize=SMALL, color=GREY, wrap=True)
        if published:
            figure.suptitle(PUBLISHED_ONLY)
        return save(figure, png, svg)


def _test(result: Ranking) -> str:
    p = "p < 0.001" if result.p < 0.001 else f"p = {result.p:.3f}"
    return f"Friedman test {p}"


def levels(average: np.ndarray, groups: Sequence[Sequence[int]]) -> list[int]:
    """The line on which each group's bar is drawn, so that no two bars touch."""
    ends: list[float] = []
    lines = []
    for group in groups:
        start, end = average[group[0]], average[group[-1]]
        line = next((number for number, last in enumerate(ends) if last < start), len(ends))
        ends[line : line + 1] = [end]
        lines.append(line)
    return lines


def _height(result: Ranking) -> float:
    """The height of a diagram in lines of text."""
    return ABOVE + _first_label(result) + (len(result.average) + 1) // 2


def _first_label(result: Ranking) -> float:
    """The place of the highest label below the axis."""
    return 1 + BAR * (max(levels(result.average, result.groups), default=-1) + 1)


def _diagram(axis: Axes, result: Ranking, labels: Sequence[str], height: float) -> None:
    """Labels left and right of the axis of ranks, joined to it by lines; bars between them join groups."""
    count = len(labels)
    order = sorted(range(count), key=lambda method: (result.average[method], method))
    half = (count + 1) // 2
    first = _first_label(result)
    line = {"color": INK, "lw": 1, "solid_capstyle": "butt", "clip_on": False}
    axis.plot([1, count], [0, 0], **line)
    step = max(1, count // 10)
    for rank in {1, count, *range(step, count + 1, step)}:
        axis.plot([rank, rank], [0, -0.25], **line)
        axis.text(rank, -0.4, str(rank), ha="center", va="bottom", fontsize=SMALL)
    room = 0.05 * (count - 1)
    for place, method in enumerate(order):
        left = place < half
        y = first + (place if left else count - 1 - place)
        rank, end = result.average[method], 1 - room if left else count + room
        axis.plot([rank, rank, end], [0, y, y], **{**line, "color": GREY, "lw": 0.9})
        axis.plot(rank, 0, "o", color=INK, ms=4, clip_on=False)
        text = f"{labels[method]}  {number(rank)}" if left else f"{number(rank)}  {labels[method]}"
        axis.annotate(
            text,
            (end, y),
            (-4 if left else 4, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
        )
    for group, level in zip(result.groups, levels(result.average, result.groups), strict=True):
        ends = [result.average[group[0]] - room / 8, result.average[group[-1]] + room / 8]
        axis.plot(ends, [0.6 + BAR * level] * 2, **{**line, "lw": 4})
    _scale(axis, result.critical, count)
    axis.set(xlim=(1 - room, count + room), ylim=(height - ABOVE, -ABOVE))
    axis.axis("off")


def _scale(axis: Axes, critical: float, count: int) -> None:
    """The critical difference as a length above the axis."""
    text = f"critical difference {number(critical)}"
    if critical > count - 1:
        axis.text(1, -1.7, f"{text}: the ranks of {count} methods cannot differ by this much", va="center")
        return
    line = {"color": INK, "lw": 1.4, "clip_on": False}
    axis.plot([1, 1 + critical], [-1.7, -1.7], marker="|", **line)
    axis.annotate(text, (1 + critical, -1.7), (6, 0), textcoords="offset points", va="center")


class CriticalDifference(StudyFigure):
    name, title, place = "critical_difference", "Average ranks over datasets", 53
    caption = (
        "The rank of each method on each dataset (1 is the highest value), averaged over datasets. Methods joined by a "
        "thick bar are not separated: their average ranks are at most the critical difference of Nemenyi's test (5 %) "
        "apart. A method is ranked only if it has a value on every one of these datasets."
    )

    def sentences(self, facts: Sequence[Facts]) -> Iterable[str]:
        titles = [each["dataset_title"] for each, rows in zip(facts, _rows(facts), strict=True) if rows]
        yield f"The datasets are {', '.join(titles)}."

    def applies(self, facts: Sequence[Facts]) -> bool:
        datasets = [rows for rows in _rows(facts) if rows]
        enough = len(datasets) >= BLOCKS and len(set.intersection(*datasets)) >= METHODS
        return super().applies(facts) and enough

    def draw(self, inputs: StudyInputs, png: str | Path, svg: str | Path) -> Drawing:
        facts, measured = inputs.facts, _measured(inputs.facts)
        frames = [table.frame for table in inputs.tables]
        metrics = [each["lead_metric"] for each in facts]
        labels = {row["name"]: row["label"] for each in facts for row in each["rows"]}
        name = metric_title(metrics[0]) if len(set(metrics)) == 1 else "lead metric"
        panels = [
            (f"{name}, {view_title(view)}", values(frames, metrics, view, "mean" if measured else "published"))
            for view in facts[0]["views"]
        ]
        panels = [(title, frame.rename(columns=labels)) for title, frame in panels]
        return draw(panels, published=not measured, png=png, svg=svg)


def _rows(facts: Sequence[Facts]) -> list[set[str]]:
    """The rows with a value on each dataset."""
    return [{*each["measured"]} if _measured(facts) else quoted(each) for each in facts]


def _measured(facts: Sequence[Facts]) -> bool:
    return any(each["measured"] for each in facts)
