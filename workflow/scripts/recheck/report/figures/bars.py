"""Bars per method: the best epoch on test and the last epoch, with outlines for the published values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import BEST_ON_TEST, LAST_EPOCH, view_title
from recheck.report.figures import Facts, Figure, intervals, quoted
from recheck.report.numbers import quote
from recheck.report.style import (
    BLUE,
    INK,
    PUBLISHED_ONLY,
    SKY,
    SMALL,
    WIDTH,
    legend_line,
    legend_patch,
    note,
    save,
    striped,
    styled,
)

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D, Patch, Series

PANELS = 2
# Position in a method's row, height and colour of the bars of the first and the second view.
PLACES = ({"y": -0.14, "height": 0.38, "color": BLUE}, {"y": 0.28, "height": 0.22, "color": SKY})
# An outline is this much higher than its bar, so that it is visible even if both have the same length.
OUTLINE = 0.07
# Inches: one character of a number, the free space next to the numbers, and the labels of the rows.
CHARACTER, FREE, LABELS = 0.062, 0.1, 1.9
DOUBT = "*"


def draw(
    table: DataFrame, *, views: Sequence[str], metrics: Sequence[str], png: str | Path, svg: str | Path
) -> Drawing:
    """One panel per metric and one row per method with any value, from the frame of a table.

    Bars must start at 0, so the numbers show small differences.
    """
    from matplotlib.ticker import MaxNLocator

    views = list(views)[: len(PLACES)]
    table = table[table["view"].isin(views) & table["metric"].isin(metrics)]
    has_value = table["mean"].notna() | table["published"].notna()
    labels = dict(table[has_value].drop_duplicates("method")[["method", "label"]].itertuples(index=False, name=None))
    if not labels:
        return note("No bars: no value was measured or published.", png, svg)
    metrics = [metric for metric in metrics if has_value[table["metric"] == metric].any()]
    measured = bool(table["mean"].notna().any())
    views = [view for view in views if has_value[table["view"] == view].any()]
    places = dict(zip(views, PLACES if len(views) > 1 else [{**PLACES[0], "y": 0}], strict=True))
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(metrics),
            figsize=(WIDTH, 1.5 + 0.4 * len(labels)),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        texts: dict[tuple[str, str], str] = {}
        width = (WIDTH - LABELS) / len(metrics)
        for axis, metric in zip(axes[0], metrics, strict=True):
            values = table[table["metric"] == metric].set_index(["method", "view"])
            for row, method in enumerate(labels):
                for view, place in places.items():
                    _bar(axis, values.loc[(method, view)], row + place["y"], place)
                first = values.loc[(method, views[0])]
                texts[method, metric] = _numbers(first)
                style = {
                    "xytext": (4, 0),
                    "textcoords": "offset points",
                    "va": "center",
                    "fontsize": SMALL,
                    "zorder": 5,
                }
                axis.annotate(texts[method, metric], (_end(first), row + places[views[0]]["y"]), **style)
            rooms = {method: 1 - (FREE + CHARACTER * len(texts[method, metric])) / width for method in labels}
            axis.set(title=metric, xlabel="percent")
            axis.set_xlim(
                0, max(1, *(_end(row) / rooms[method] for (method, _), row in values.iterrows() if method in rooms))
            )
            axis.set_xticks([tick for tick in MaxNLocator(5).tick_values(*axis.get_xlim()) if 0 <= tick <= 100])
            striped(axis, len(labels))
        axes[0, 0].set_yticks(range(len(labels)), list(labels.values()))
        handles = _handles(table, places)
        doubt = f"{DOUBT} published value that is doubtful or not comparable: see the notes of the table"
        doubtful = any(DOUBT in text for text in texts.values())
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=min(3, len(handles)),
            title=doubt if doubtful else None,
            labelspacing=0.7,
        )
        if not measured:
            figure.suptitle(PUBLISHED_ONLY)
        return save(figure, png, svg)


def _bar(axis: Axes, row: Series, y: float, place: Mapping) -> None:
    """Draw a view of a method: our bar with its interval, the first published value as outline, others as lines."""
    if not np.isnan(row["mean"]):
        axis.barh(y, row["mean"], place["height"], color=place["color"], zorder=2)
        if not np.isnan(row["interval"]):
            # clipped to 0–100 %, because the interval of few seeds may be wider
            inside = [[min(row["interval"], row["mean"])], [min(row["interval"], 100 - row["mean"])]]
            axis.errorbar(row["mean"], y, xerr=inside, color=INK, capsize=2, lw=1, zorder=4)
    high = place["height"] + OUTLINE
    first, *others = dict.fromkeys(value for value in row["quotes"] if not np.isnan(value)) or [np.nan]
    if not np.isnan(first):
        colour = INK if not np.isnan(row["mean"]) else place["color"]
        axis.barh(y, first, high, fill=False, edgecolor=colour, lw=1.1, zorder=3)
    for other in others:
        axis.plot([other, other], [y - high / 2, y + high / 2], color=INK, lw=1.6, zorder=3)


def _numbers(row: Series) -> str:
    """Our value with the published values in brackets, or only the published values."""
    texts = {
        quote(value, approximate) + DOUBT * bool(doubt): None
        for value, approximate, doubt in zip(row["quotes"], row["approximate"], row["notes"], strict=True)
        if not np.isnan(value)
    }
    published = ", ".join(texts)
    if np.isnan(row["mean"]):
        return published
    return f"{row['mean']:.2f}" + (f" ({published})" if published else "")


def _end(row: Series) -> float:
    """The right end of everything drawn for a view of a method; 0 if nothing is drawn."""
    ends = [0.0, row["mean"] + np.nan_to_num(row["interval"]), *row["quotes"]]
    return float(np.nanmax(ends))


def _handles(table: DataFrame, places: Mapping[str, Mapping]) -> list[Patch | Line2D]:
    """Legend entries for everything that is drawn."""
    handles: list[Patch | Line2D] = []
    if not table["mean"].notna().any():
        return [
            legend_patch(fill=False, edgecolor=place["color"], label=f"{view_title(view)}, published")
            for view, place in places.items()
            if table.loc[table["view"] == view, "published"].notna().any()
        ] + _second(table)
    for view, place in places.items():
        if table.loc[table["view"] == view, "mean"].notna().any():
            handles.append(legend_patch(color=place["color"], label=f"{view_title(view)}, measured here"))
    if table["interval"].notna().any():
        line = {"color": INK, "marker": "|", "ms": 6, "lw": 1}
        handles.append(legend_line(label="95 % interval over seeds", **line))
    if table["published"].notna().any():
        handles.append(legend_patch(fill=False, edgecolor=INK, label="published (quoted)"))
    return handles + _second(table)


def _second(table: DataFrame) -> list[Line2D]:
    if not any(len({value for value in quotes if not np.isnan(value)}) > 1 for quotes in table["quotes"]):
        return []
    return [legend_line(color=INK, marker="|", ls="", ms=9, mew=1.6, label="a second document that disagrees")]


class Bars(Figure):
    name, title, place = "bars", "Best epoch on test and last epoch", 30
    caption = "The metrics of each method on {dataset}."
    needs = ("evaluations",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        measured, documents = facts["measured"], facts["published"]
        quotes = [views for document in documents for views in document["values"].values()]
        shown = [view for view in facts["views"] if measured or any(view in views for views in quotes)]
        if BEST_ON_TEST in shown:
            yield "The best epoch on test is selected on the test set itself."
        if LAST_EPOCH in shown:
            yield "The last epoch involves no selection."
        if len(shown) > 1:
            yield f"The numbers belong to the {view_title(shown[0])}."
        if quoted(facts):
            yield "Outlines are published values."
        if measured:
            yield "Filled bars were measured here."
            yield intervals(facts)
        if measured and quoted(facts):
            yield "The numbers in brackets are published."
        if len(documents) > 1:
            yield "A short line across a bar is the value of a second document that disagrees with the first."
        if any(document["notes"] for document in documents):
            yield "An asterisk marks a published value that is doubtful or not comparable; see the notes of the table."

    def applies(self, facts: Facts) -> bool:
        return BEST_ON_TEST in facts["views"] and not facts["sweep"] and bool(facts["measured"] or quoted(facts))

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        return draw(inputs.frame, views=facts["views"], metrics=facts["metrics"][:PANELS], png=png, svg=svg)
