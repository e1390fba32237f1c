"""Training curves: the metric that selects checkpoints, and the loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Facts, Figure
from recheck.report.style import BLUE, INK, VERMILLION, WIDTH, arranged, legend_line, note, plain, save, styled, tell

if TYPE_CHECKING:
    from recheck.report.types import Axes, DataFrame, Drawing, Inputs, Series

PANELS_PER_ROW = 4
LOG_LOSS = 30


def draw(
    histories: DataFrame,
    *,
    labels: Mapping[str, str],
    selection: str | None,
    chosen: Mapping[tuple[str, int, int], int],
    png: str | Path,
    svg: str | Path,
    reference: str | None = None,
) -> Drawing:
    """One pair of panels per method: the metric that selects the checkpoint, and the loss, against the step.

    ``selection`` is the history column of that metric, or None to draw only losses; ``chosen`` maps (method, seed,
    fold) to the epoch of the checkpoint.
    """
    from matplotlib.ticker import MaxNLocator

    trained = [m for m in labels if m != reference and (histories.loc[histories["method"] == m, "step"] > 0).any()]
    if not trained:
        return note("No training curves: nothing was trained here.", png, svg)
    bands, columns = arranged(len(trained), PANELS_PER_ROW)
    if selection not in histories:
        selection = None
    heights = [1.7, 1] if selection else [1.2]
    several = bool(
        (histories[histories["method"].isin(trained)].groupby("method")[["seed", "fold"]].nunique() > 1).any(axis=None)
    )
    with styled() as plt:
        size = (WIDTH, 0.9 + 1.3 * sum(heights) * bands)
        figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(len(heights) * bands, columns, height_ratios=heights * bands)
        first: Axes | None = None
        marked = False
        for number, method in enumerate(trained):
            band, column = divmod(number, columns)
            runs = histories[histories["method"] == method]
            loss = figure.add_subplot(grid[len(heights) * (band + 1) - 1, column])
            _lines(loss, runs, "loss", 1, INK)
            loss.set_xlabel("step")
            loss.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            _scale_loss(loss, runs["loss"].dropna())
            titled = loss
            if selection:
                titled = figure.add_subplot(grid[len(heights) * band, column], sharex=loss, sharey=first)
                first = first or titled
                shared = _lines(titled, runs, selection, 100, BLUE)
                name = f"{labels[method]}, {selection.replace('_', ' ')}"
                tell(titled, shared.index, shared, [f"{name}\nstep {x}: {y:.2f}" for x, y in shared.items()])
                marked |= _mark_chosen(titled, runs, selection, chosen)
                titled.tick_params(labelbottom=False, labelleft=column == 0)
            titled.set_title(labels[method])
            if column == 0:
                titled.set_ylabel(f"{selection.replace('_', ' ')} (%)" if selection else "loss")
                loss.set_ylabel("loss")
        colour = BLUE if selection else INK
        one = "one fold of one seed" if histories["seed"].nunique() > 1 else "one fold"
        handles = [legend_line(color=colour, lw=2, label="mean over runs" if several else "run")]
        if several:
            handles.append(legend_line(color=colour, lw=0.8, alpha=0.5, label=f"single run ({one})"))
        if marked:
            kept = {"color": VERMILLION, "marker": "D", "ls": "", "ms": 5, "mec": "white"}
            handles.append(legend_line(label="selected checkpoint", **kept))
        figure.align_ylabels()
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _scale_loss(axis: Axes, losses: Series) -> None:
    """Use a logarithmic scale if a linear one would show a single drop and then a flat line."""
    from matplotlib.ticker import MaxNLocator, NullFormatter

    if len(losses) and losses.min() > 0 and losses.max() > LOG_LOSS * losses.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(plain)
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.yaxis.set_major_locator(MaxNLocator(3))


def _lines(axis: Axes, runs: DataFrame, column: str, scale: float, colour: str) -> Series:
    """Draw each run as a thin line, and their mean over the steps that all runs have; return this mean."""
    runs = runs.dropna(subset=[column])
    for _, run in runs.groupby(["seed", "fold"]):
        axis.plot(run["step"], scale * run[column], color=colour, lw=0.8, alpha=0.45)
    folds = runs.groupby("step")[column].agg(["mean", "size"])
    shared = folds[folds["size"] == folds["size"].max()]
    axis.plot(shared.index, scale * shared["mean"], color=colour, lw=2)
    return scale * shared["mean"]


def _mark_chosen(axis: Axes, runs: DataFrame, column: str, chosen: Mapping[tuple[str, int, int], int]) -> bool:
    """Mark the selected checkpoints; return whether there are any."""
    marked = False
    for (method, seed, fold), run in runs.groupby(["method", "seed", "fold"]):
        kept = run[run["epoch"] == chosen.get((method, seed, fold))]
        axis.plot(kept["step"], 100 * kept[column], "D", color=VERMILLION, ms=5, mec="white", mew=0.7, zorder=4)
        marked |= bool(kept[column].notna().any())
    return marked


class Curves(Figure):
    name, title, place = "curves", "Training curves", 120
    caption = (
        "Training on {dataset}. The loss has its own scale per method (logarithmic if it falls far). Where a method "
        "has several runs (folds or seeds), thin lines are single runs and the thick line is their mean over the steps "
        "that all of them have."
    )
    needs = ("histories", "runs")

    def sentences(self, facts: Facts) -> Iterable[str]:
        if facts["selection_column"]:
            yield "Upper panels: a metric during training, on the images named on the axis, with one scale for all."
            yield "Diamonds are the selected checkpoints."

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        facts = inputs.facts
        shown = {"labels": inputs.labels, "selection": facts["selection_column"], "reference": facts["reference"]}
        return draw(inputs.histories, chosen=inputs.chosen_epochs, **shown, png=png, svg=svg)
