"""Recall@k against k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.names import view_title
from recheck.report.figures import Facts, Figure, intervals
from recheck.report.figures.metrics import view_label
from recheck.report.style import INK, WIDTH, label_lines, note, plain, save, series, styled, tell

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs


def draw(
    summary: DataFrame,
    *,
    labels: Mapping[str, str],
    views: Sequence[str],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
) -> Drawing:
    """One panel per view and one line per method: recall@k against k, with intervals for several seeds."""
    from matplotlib.ticker import FixedLocator, NullLocator

    recalls = summary[summary["metric"].str.fullmatch(r"R@\d+").fillna(False)]
    recalls = recalls.assign(k=recalls["metric"].str.removeprefix("R@").astype(int)).sort_values("k")
    ranks = sorted(recalls["k"].unique())
    if len(ranks) < 2:
        return note("No recall curves: the study needs two or more R@k metrics.", png, svg)
    drawn = [method for method in labels if (recalls["method"] == method).any()]
    trained = [method for method in drawn if method != reference]
    looks = {method: {**series(number), "lw": 1.4, "ms": 4.5} for number, method in enumerate(trained)}
    looks[reference] = {"color": INK, "marker": "x", "linestyle": (0, (4, 3)), "lw": 1.4, "ms": 5}
    views = [view for view in views if (recalls["view"] == view).any()]
    with styled() as plt:
        # high enough for one label per line
        size = (WIDTH, max(4.1, 1.0 + 0.165 * len(drawn)))
        figure, axes = plt.subplots(1, len(views), figsize=size, sharey=True, squeeze=False, layout="constrained")
        for axis, view in zip(axes[0], views, strict=True):
            for method in drawn:
                _recall_line(axis, recalls, view, method, labels[method], looks[method])
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_locator(FixedLocator(ranks))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(plain)
            axis.set_xlabel("k (number of nearest neighbours)")
            axis.set_title(view_label(view, recalls))
        axes[0, 0].set_ylabel("recall@k (%)")
        label_lines(figure, axes[0])
        return save(figure, png, svg)


def _recall_line(axis: Axes, recalls: DataFrame, view: str, method: str, label: str, style: dict) -> None:
    rows = recalls[(recalls["view"] == view) & (recalls["method"] == method)]
    axis.plot(rows["k"], 100 * rows["mean"], label=label, **style)
    texts = [
        f"{label}, {view_title(view)}\nR@{row.k} {100 * row.mean:.2f}"
        + ("" if math.isnan(row.interval) else f" ± {100 * row.interval:.2f}")
        for row in rows[["k", "mean", "interval"]].itertuples(index=False, name="Point")
    ]
    tell(axis, rows["k"], 100 * rows["mean"], texts)
    half = 100 * rows["interval"].fillna(0)
    if half.any():
        low, high = ((100 * rows["mean"] + sign * half).clip(0, 100) for sign in (-1, 1))
        axis.fill_between(rows["k"], low, high, color=style["color"], alpha=0.15, lw=0)


class Recall(Figure):
    name, title, place = "recall", "Recall at k", 110
    caption = (
        "Recall@k on {dataset}: the share of test images with an image of their own class among their k nearest "
        "neighbours. The labels on the right are in the order of the lines’ ends."
    )
    needs = ("evaluations",)

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["recalls"] > 1

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (intervals(facts, "Bands"),)

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        shown = {"labels": inputs.labels, "views": facts["views"], "reference": facts["reference"]}
        return draw(inputs.summary, **shown, png=png, svg=svg)
