"""Published searches: the best objective so far, with our own search beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.quoted_searches import CLOSE
from recheck.report.figures import Facts, Figure
from recheck.report.quoted import batch_label, of_dataset, other_batches, study_batch
from recheck.report.style import (
    BLUE,
    GREY,
    INK,
    SHADE,
    VERMILLION,
    legend_line,
    legend_patch,
    note,
    panels,
    save,
    styled,
)

if TYPE_CHECKING:
    from recheck.report.types import Axes, Drawing, Inputs

PANELS_PER_ROW = 5
OURS = {"color": BLUE, "lw": 1.6, "ls": (0, (6, 1.5, 1.5, 1.5))}
SAME_BATCH = {"color": INK, "lw": 1.8, "ls": "-"}
OTHER_BATCH = {"color": VERMILLION, "lw": 1.4, "ls": (0, (4, 1.5))}
NEEDED = {"marker": "o", "ls": "", "ms": 6, "mew": 1.4}
# The axis ends this many percentage points below the lowest best: the first trials of some searches are far below.
DEPTH = 5


def _curve(axis: Axes, best: Sequence[float], needed: int, look: Mapping[str, object]) -> None:
    axis.plot(range(1, len(best) + 1), [100 * value for value in best], drawstyle="steps-post", zorder=3, **look)
    inside = look["color"] if look is SAME_BATCH else "white"
    axis.plot(needed, 100 * best[needed - 1], color=look["color"], mfc=inside, zorder=4, **NEEDED)


class BestSoFar(Figure):
    name, title, place = "best_so_far", "Published searches: best so far", 61
    caption = (
        "The searches for hyper-parameters that were published for {dataset}: the highest validation MAP@R (mean over "
        "four folds) among the trials so far. The dot is the first trial within {close:g} points of the search's own "
        "best. Shaded: the first {startup} published trials, which do not depend on results. The axis starts "
        "{depth:g} points below the lowest final value, so the lower part of some curves is not shown."
    )
    needs = ("quoted_searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return bool(facts["quoted_searches"])

    def describe(self, facts: Facts) -> str:
        startup = " or ".join(map(str, sorted({about["startup"] for about in facts["quoted_searches"]})))
        numbers = {"close": 100 * CLOSE, "depth": DEPTH, "startup": startup}
        return " ".join([self.caption.format(dataset=facts["dataset_title"], **numbers), *self.sentences(facts)])

    def sentences(self, facts: Facts) -> Iterable[str]:
        batch_size, others = study_batch(facts), other_batches(facts)
        if batch_size and others:
            other_sizes = " and ".join(map(str, others))
            yield (
                f"Solid lines with filled dots: batches of {batch_size} images; dashed lines with hollow dots: "
                f"{other_sizes}."
            )
        by_batch = {
            same: {e["row"] for e in facts["quoted_searches"] if e["same_batch"] == same} for same in (True, False)
        }
        labels = [row["label"] for row in facts["rows"] if row["name"] in by_batch[False] - by_batch[True]]
        if labels:
            yield f"No search with batches of {batch_size} was published for {' and '.join(labels)}."
        if facts["measured"]:
            yield "The dash-dotted line is our search, where it has ended."

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per row: the best objective after each number of trials."""
        quoted, trials, facts = of_dataset(inputs), inputs.trials, inputs.facts
        if not quoted:
            return note("No searches of these rows were published.", png, svg)
        batch_size = study_batch(facts)
        lowest = min(100 * search.best for searches in quoted.values() for search in searches)
        counts = map(len, [*(search.trials for searches in quoted.values() for search in searches), *trials.values()])
        ticks = [1, *range(10, max(counts) + 1, 10)]
        with styled() as plt:
            figure, axes = panels(plt, len(quoted), PANELS_PER_ROW, 2.0, 0.6)
            for axis, (row, searches) in zip(axes, quoted.items(), strict=True):
                for search in searches:
                    _curve(
                        axis,
                        search.best_so_far,
                        search.needed,
                        SAME_BATCH if search.batch == batch_size else OTHER_BATCH,
                    )
                ours = trials[row].sort_values("trial")["objective"].cummax().ffill() if row in trials else None
                if ours is not None and ours.notna().any():
                    axis.plot(range(1, len(ours) + 1), 100 * ours, drawstyle="steps-post", **OURS)
                    lowest = min(lowest, 100 * ours.max())
                axis.axvspan(0.5, searches[0].startup + 0.5, color=SHADE, lw=0, zorder=0)
                axis.set(title=inputs.labels[row], xlabel="trials", xticks=ticks, xlim=(0.5, None))
                if axis.get_subplotspec().is_first_col():
                    axis.set_ylabel("best validation\nMAP@R so far (%)")
            axes[0].set_ylim(lowest - DEPTH, None)
            shown = [batch for batch in (batch_size, *other_batches(facts)) if batch]
            handles = [
                legend_line(label=batch_label(facts, batch), **(SAME_BATCH if batch == batch_size else OTHER_BATCH))
                for batch in shown
            ]
            handles += [legend_line(label="ours", **OURS)] if any(row in trials for row in quoted) else []
            handles.append(legend_patch(color=SHADE, label="first trials"))
            handles.append(legend_line(color=GREY, label=f"within {100 * CLOSE:g} points of its best", **NEEDED))
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
