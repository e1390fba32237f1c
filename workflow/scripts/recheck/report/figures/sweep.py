"""The effect of one setting: one line per method over its values, measured here and published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import metric_title, view_title
from recheck.report.figures import Facts, Figure, intervals, quoted
from recheck.report.style import GREY, PUBLISHED_ONLY, WIDTH, legend_line, line_of, note, plain, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Line2D, Series

# If the largest value is at least this many times the smallest, the axis is logarithmic.
LOGARITHMIC = 8
DASHED, DOTTED = (0, (5, 2)), (0, (1.2, 1.6))


def draw(
    table: DataFrame,
    *,
    values: Mapping[str, Sequence[tuple[float, str]]],
    setting: str,
    views: Sequence[str],
    metric: str,
    png: str | Path,
    svg: str | Path,
    names: Mapping[float, str] | None = None,
) -> Drawing:
    """One panel per view with any value; ``values`` maps each method's label to its (value, row) pairs.

    ``names`` has the texts of values that are not shown as plain numbers.

    ``table`` is the frame of a table; its published values are from the first document that has them.
    """
    table = table[
        (table["metric"] == metric) & table["method"].isin([row for points in values.values() for _, row in points])
    ]
    table = table[table["mean"].notna() | table["published"].notna()]
    shown = [view for view in views if (table["view"] == view).any()]
    if not shown:
        return note("No sweep: no value was measured or published.", png, svg)
    ticks = sorted({value for points in values.values() for value, _ in points})
    with styled() as plt:
        size = (WIDTH, 4.6)
        figure, axes = plt.subplots(1, len(shown), figsize=size, sharey=True, squeeze=False, layout="constrained")
        for axis, view in zip(axes[0], shown, strict=True):
            rows = table[table["view"] == view].set_index("method")
            for number, points in enumerate(values.values()):
                _measured(axis, rows, points, line_of(number))
                _published(axis, rows, points, line_of(number))
            scale(axis, ticks, names or {})
            axis.set(title=view_title(view).capitalize(), xlabel=setting)
        axes[0, 0].set_ylabel(f"{metric_title(metric)} (%)")
        present = set(table["method"])
        handles = [
            legend_line(ls="", ms=6, label=label, **line_of(number))
            for number, (label, points) in enumerate(values.items())
            if present & {row for _, row in points}
        ]
        figure.legend(handles=[*handles, *_kinds(table)], loc="outside right center")
        if table["mean"].isna().all():
            figure.suptitle(PUBLISHED_ONLY)
        return save(figure, png, svg)


def scale(axis: Axes, ticks: Sequence[float], names: Mapping[float, str]) -> None:
    """Put ticks at the values, on a logarithmic scale if they are far apart."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if min(ticks) > 0 and max(ticks) >= LOGARITHMIC * min(ticks):
        axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(lambda value, place: names.get(value) or plain(value, place))


def _measured(axis: Axes, table: DataFrame, points: Sequence[tuple[float, str]], look: Mapping) -> None:
    rows = [(value, table.loc[row]) for value, row in points if row in table.index]
    rows = [(value, row) for value, row in rows if not np.isnan(row["mean"])]
    if not rows:
        return
    x, means = [value for value, _ in rows], np.array([row["mean"] for _, row in rows])
    half = np.nan_to_num(np.array([row["interval"] for _, row in rows], float))
    axis.plot(x, means, ls="-", lw=1.7, ms=5.5, zorder=3, **look)
    if half.any():
        # clipped to 0–100 %, because the interval of few seeds may be wider
        inside = [np.minimum(half, means), np.minimum(half, 100 - means)]
        axis.errorbar(x, means, yerr=inside, ls="", color=look["color"], capsize=2.5, lw=1.1, zorder=3)


def _published(axis: Axes, table: DataFrame, points: Sequence[tuple[float, str]], look: Mapping) -> None:
    rows = [(value, table.loc[row]) for value, row in points if row in table.index]
    rows = [(value, row) for value, row in rows if not np.isnan(row["published"])]
    if rows:
        read_off = any(_read_off(row) for _, row in rows)
        x, y = [value for value, _ in rows], [row["published"] for _, row in rows]
        axis.plot(x, y, ls=DOTTED if read_off else DASHED, lw=1.3, ms=5.5, mfc="white", zorder=2, **look)


def _read_off(row: Series) -> bool:
    """Whether the published value in the figure was read off a plot."""
    first = next(number for number, value in enumerate(row["quotes"]) if not np.isnan(value))
    return row["approximate"][first]


def _kinds(table: DataFrame) -> list[Line2D]:
    """Legend entries for the kinds of lines that are drawn."""
    handles = []
    if table["mean"].notna().any():
        handles.append(legend_line(color=GREY, lw=1.7, label="measured here"))
    if table["interval"].notna().any():
        handles.append(legend_line(color=GREY, ls="", marker="|", ms=9, label="95 % interval over seeds"))
    quoted = table[table["published"].notna()]
    read_off = [_read_off(row) for _, row in quoted.iterrows()]
    if not all(read_off):
        handles.append(legend_line(color=GREY, ls=DASHED, lw=1.3, label="published"))
    if any(read_off):
        handles.append(legend_line(color=GREY, ls=DOTTED, lw=1.3, label="published, read off a plot"))
    return handles


class Sweep(Figure):
    name, title, place = "sweep", "Effect of the setting", 40
    caption = "The effect of one setting on {dataset}, with one colour and marker per method."
    needs = ("evaluations",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        if facts["measured"]:
            yield "Solid lines with filled marks were measured here."
            yield intervals(facts)
        if quoted(facts):
            dotted = any(document["approximate"] and document["values"] for document in facts["published"])
            approximate = "; dotted lines were read off a plot, so they are approximate" if dotted else ""
            yield f"Lines with hollow marks are published values{approximate}."

    def applies(self, facts: Facts) -> bool:
        return bool(facts["sweep"]) and bool(facts["measured"] or quoted(facts))

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        shown = {
            "setting": (facts["sweep"] or {}).get("label", ""),
            "views": facts["views"],
            "metric": facts["metrics"][0],
        }
        return draw(inputs.frame, values=inputs.swept, names=inputs.sweep_names, **shown, png=png, svg=svg)
