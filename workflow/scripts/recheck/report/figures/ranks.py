"""Our order of the methods against the published one, with the ranks that the intervals over seeds leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.report.figures import Facts, Figure, quoted
from recheck.report.figures.metrics import view_label
from recheck.report.numbers import MINUS
from recheck.report.style import FAINT, GREY, INK, VIEW_STYLES, legend_line, note, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

# Fewer say nothing about an order.
FEWEST = 3
# Of all moves, so many of the largest stand out; a move of one place never does.
EMPHASISED, SMALLEST_MOVE = 4, 2


def ranked(values: Sequence[float]) -> np.ndarray:
    """Rank 1 for the highest. Values that read the same share the best of their ranks: 1, 2, 2, 4."""
    import pandas as pd

    return pd.Series(np.asarray(values, float)).round(2).rank(method="min", ascending=False).to_numpy(int)


def open_ranks(means: Sequence[float], intervals: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst rank of each: only a method whose interval lies apart is surely above or below it."""
    means, half = np.asarray(means, float), np.nan_to_num(np.asarray(intervals, float))
    low, high = means - half, means + half
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    return 1 + above, len(means) - below


def ranking(table: DataFrame, view: str, metric: str) -> DataFrame:
    """The methods that were both measured and published, in the published order.

    ``table`` is the frame of a table; the columns are label, published, ours (ranks), best, worst (of ours), move
    (places gained) and emphasised.
    """
    import pandas as pd

    rows = table[(table["view"] == view) & (table["metric"] == metric)].dropna(subset=["mean", "published"])
    best, worst = open_ranks(rows["mean"], rows["interval"])
    unknown = rows["interval"].isna().to_numpy()
    found = pd.DataFrame(
        {
            "label": rows["label"].to_numpy(),
            "published": ranked(rows["published"]),
            "ours": ranked(rows["mean"]),
            "best": np.where(unknown, np.nan, best),
            "worst": np.where(unknown, np.nan, worst),
        }
    )
    found["move"] = found["published"] - found["ours"]
    moves = found["move"].abs()
    found["emphasised"] = moves >= max(SMALLEST_MOVE, moves.nlargest(EMPHASISED).min()) if len(found) else False
    return found.sort_values(["published", "ours"], kind="stable", ignore_index=True)


def agreement(table: DataFrame, view: str, metric: str) -> str:
    """How alike the two orders are, in words for a title: Spearman's correlation of the values as printed."""
    rows = table[(table["view"] == view) & (table["metric"] == metric)].dropna(subset=["mean", "published"])
    ours, published = rows["mean"].round(2), rows["published"].round(2)
    if ours.nunique() < 2 or published.nunique() < 2:
        return f"n = {len(rows)}"
    return f"Spearman’s ρ = {published.rank().corr(ours.rank()):.2f}, n = {len(rows)}".replace("-", MINUS)


def draw(
    table: DataFrame,
    *,
    views: Mapping[str, str],
    metric: str,
    png: str | Path,
    svg: str | Path,
) -> Drawing:
    """One panel a view (``views`` maps them to titles), one line a method: its published rank, and its rank here."""
    shown = {view: ranking(table, view, metric) for view in views}
    shown = {view: rows for view, rows in shown.items() if len(rows) >= FEWEST}
    if not shown:
        return note(f"Ranks need {FEWEST} or more methods with a measured and a published {metric}.", png, svg)
    most = max(map(len, shown.values()))
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(shown),
            figsize=(0.4 + 5.2 * len(shown), 1.7 + 0.29 * most),
            squeeze=False,
            layout="constrained",
        )
        for axis, (view, rows) in zip(axes[0], shown.items(), strict=True):
            style = VIEW_STYLES[list(views).index(view)]
            _panel(axis, rows, style)
            axis.set_title(f"{metric}, {views[view]}\n{agreement(table, view, metric)}")
        grey = {"color": GREY, "ls": "", "marker": "o"}
        handles = [
            legend_line(mfc="white", ms=7, label="published rank", **grey),
            legend_line(ms=6, label="our rank", **grey),
        ]
        if any(rows["best"].notna().any() for rows in shown.values()):
            handles.append(legend_line(color=FAINT, lw=6, label="ranks that its 95 % interval leaves open"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _panel(axis: Axes, rows: DataFrame, style: Mapping[str, str]) -> None:
    count = len(rows)
    for y, row in enumerate(rows.itertuples()):
        if not np.isnan(row.best):
            axis.plot([row.best - 0.3, row.worst + 0.3], [y, y], color=FAINT, lw=6, solid_capstyle="butt", zorder=1)
        line = {"color": INK, "lw": 1.8} if row.emphasised else {"color": GREY, "lw": 0.9}
        axis.plot([row.published, row.ours], [y, y], zorder=2, **line)
        axis.plot(row.published, y, style["marker"], mfc="white", mec=style["color"], mew=1.2, ms=7, zorder=3)
        axis.plot(row.ours, y, style["marker"], color=style["color"], ms=5, zorder=4)
        move = "=" if row.move == 0 else f"{'▲' if row.move > 0 else '▼'}\u2009{abs(row.move)}"
        look = {"color": INK, "fontweight": "bold"} if row.emphasised else {"color": GREY}
        axis.annotate(move, (1, y), (4, 0), ("axes fraction", "data"), "offset points", va="center", **look)
    axis.set_yticks(range(count), rows["label"])
    for label, emphasised in zip(axis.get_yticklabels(), rows["emphasised"], strict=True):
        label.set(fontweight="bold" if emphasised else "normal", color=INK)
    axis.set(xlim=(0.3, count + 0.7), xlabel="rank (1 is the highest value)")
    axis.set_xticks([1, *range(5, count + 1, 5)] if count >= 10 else range(1, count + 1))
    striped(axis, count)


class Ranks(Figure):
    name, title, place = "ranks", "Our order and the published one", 50
    caption = (
        "The methods on {dataset} in the published order, best first: the hollow mark is a method's published rank, the"
        " filled one its rank here, and on the right stands how many places it rose or fell; the largest moves are in "
        "bold. Equal values share a rank. The grey bar, with two or more seeds, covers the ranks that a method's 95 % "
        "interval leaves open: only a method whose interval lies apart is surely above or below it. A published mark "
        "inside the bar does not contradict ours."
    )
    needs = ("evaluations",)

    def applies(self, facts: Facts) -> bool:
        both = quoted(facts).intersection(facts["measured"])
        orders = {row["compare_to"] for row in facts["rows"] if row["name"] in both}
        return super().applies(facts) and len(orders) >= FEWEST

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        titles = {view: view_label(view, inputs.summary) for view in inputs.facts["views"]}
        return draw(inputs.frame, views=titles, metric=inputs.facts["lead_metric"], png=png, svg=svg)
