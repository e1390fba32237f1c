"""Our ranking of the methods against the published one, with the ranks that are possible within the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.names import metric_title
from recheck.report.figures import Facts, Figure, intervals, quoted
from recheck.report.figures.metrics import view_label
from recheck.report.numbers import MINUS
from recheck.report.style import FAINT, GREY, INK, VIEW_STYLES, WIDTH, legend_line, note, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs

# The smallest number of methods for which a ranking is informative.
FEWEST = 3
# How many of the largest moves are emphasised, and the smallest move that may be emphasised.
EMPHASISED, SMALLEST_MOVE = 4, 2


def ranked(values: Sequence[float]) -> np.ndarray:
    """The ranks, 1 for the highest value. Values that are printed the same share the best rank: 1, 2, 2, 4."""
    import pandas as pd

    return pd.Series(np.asarray(values, float)).round(2).rank(method="min", ascending=False).to_numpy(int)


def open_ranks(means: Sequence[float], intervals: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst possible rank of each method: methods can swap places unless their intervals are apart."""
    means, half = np.asarray(means, float), np.nan_to_num(np.asarray(intervals, float))
    low, high = means - half, means + half
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    return 1 + above, len(means) - below


def ranking(table: DataFrame, view: str, metric: str) -> DataFrame:
    """The methods with a measured and a published value, in the published order.

    ``table`` is the frame of a table. The columns are label, published and ours (ranks), best and worst (possible ranks
    of ours), move (places gained) and emphasised.
    """
    import pandas as pd

    rows = table[(table["view"] == view) & (table["metric"] == metric)].dropna(subset=["mean", "published"])
    best, worst = open_ranks(rows["mean"], rows["interval"])
    unknown = rows["interval"].isna().to_numpy()
    ranks = pd.DataFrame(
        {
            "label": rows["label"].to_numpy(),
            "published": ranked(rows["published"]),
            "ours": ranked(rows["mean"]),
            "best": np.where(unknown, np.nan, best),
            "worst": np.where(unknown, np.nan, worst),
        }
    )
    ranks["move"] = ranks["published"] - ranks["ours"]
    moves = ranks["move"].abs()
    ranks["emphasised"] = moves >= max(SMALLEST_MOVE, moves.nlargest(EMPHASISED).min()) if len(ranks) else False
    return ranks.sort_values(["published", "ours"], kind="stable", ignore_index=True)


def agreement(table: DataFrame, view: str, metric: str) -> str:
    """Spearman's correlation of the measured and published values, as printed, as text for a title."""
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
    """One panel per view (``views``: view → title), one line per method: its published rank and its rank here."""
    shown = {view: ranking(table, view, metric) for view in views}
    shown = {view: rows for view, rows in shown.items() if len(rows) >= FEWEST}
    if not shown:
        return note(f"No ranks: {FEWEST} or more methods need a measured and a published {metric}.", png, svg)
    most = max(map(len, shown.values()))
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(shown),
            figsize=(WIDTH, 1.7 + 0.29 * most),
            squeeze=False,
            layout="constrained",
        )
        for axis, (view, rows) in zip(axes[0], shown.items(), strict=True):
            style = VIEW_STYLES[list(views).index(view)]
            _panel(axis, rows, style)
            axis.set_title(f"{metric_title(metric)}, {views[view]}\n{agreement(table, view, metric)}")
        grey = {"color": GREY, "ls": "", "marker": "o"}
        handles = [
            legend_line(mfc="white", ms=7, label="published rank", **grey),
            legend_line(ms=6, label="our rank", **grey),
        ]
        if any(rows["best"].notna().any() for rows in shown.values()):
            handles.append(legend_line(color=FAINT, lw=6, label="possible ranks within the 95 % interval"))
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
    name, title, place = "ranks", "Our ranking and the published ranking", 50
    caption = (
        "The methods on {dataset} in the published order, best first. The hollow mark is a method's published rank, "
        "the filled mark its rank here; the number on the right is how many places it rose or fell, with the largest "
        "moves in bold. Equal values share a rank."
    )
    needs = ("evaluations",)

    def sentences(self, facts: Facts) -> Iterable[str]:
        if intervals(facts):
            yield (
                "The grey bar covers the ranks that are possible within the 95 % intervals over seeds: two methods can "
                "swap places unless their intervals are separate. A published rank inside the bar does not contradict "
                "ours."
            )

    def applies(self, facts: Facts) -> bool:
        both = quoted(facts).intersection(facts["measured"])
        orders = {row["compare_to"] for row in facts["rows"] if row["name"] in both}
        return super().applies(facts) and len(orders) >= FEWEST

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        titles = {view: view_label(view, inputs.summary) for view in inputs.facts["views"]}
        return draw(inputs.frame, views=titles, metric=inputs.facts["lead_metric"], png=png, svg=svg)
