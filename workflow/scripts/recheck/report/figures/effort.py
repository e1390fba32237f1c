"""How many trials a search needed to come close to its own best: which methods are easy to tune."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.quoted_searches import CLOSE, median_needed, needed
from recheck.report.figures import Facts, Figure
from recheck.report.quoted import batch_label, of_dataset, other_batches, study_batch
from recheck.report.style import BLUE, GREY, INK, VERMILLION, WIDTH, legend_line, note, save, striped, styled

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs

SAME_BATCH = {"color": INK, "marker": "o", "ls": "", "ms": 6.5}
OTHER_BATCH = {"color": VERMILLION, "marker": "s", "ls": "", "ms": 10, "mfc": "white", "mew": 1.6}
OURS = {"color": BLUE, "marker": "D", "ls": "", "ms": 6.5}
ELSEWHERE = {"color": GREY, "marker": "x", "ls": "", "ms": 5, "mew": 1.2}
MEDIAN = {"color": INK, "marker": "|", "ls": "", "ms": 17, "mew": 2.2}


class Effort(Figure):
    name, title, place = "effort", "Trials needed by published searches", 63
    caption = (
        "How many trials each search on {dataset} needed until its best validation MAP@R was within {close:g} points "
        "of its final value. Few trials mean that a method is easy to tune, not that it is good. The "
        "methods are ordered by the median over their published searches on all datasets (short vertical line). "
        "Crosses are their searches on the other datasets. Every mark is a single search, so small differences mean "
        "nothing."
    )
    needs = ("quoted_searches", "trials")

    def applies(self, facts: Facts) -> bool:
        return bool(facts["quoted_searches"])

    def describe(self, facts: Facts) -> str:
        caption = self.caption.format(dataset=facts["dataset_title"], close=100 * CLOSE)
        return " ".join([caption, *self.sentences(facts)])

    def sentences(self, facts: Facts) -> Iterable[str]:
        batch_size, others = study_batch(facts), other_batches(facts)
        if batch_size and others:
            yield f"Dots: batches of {batch_size} images; hollow squares: {' and '.join(map(str, others))}."
        if facts["measured"]:
            yield "Diamonds are our searches, where they have ended."

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One line per row, from the fewest trials to the most."""
        quoted, every, trials, facts = of_dataset(inputs), inputs.quoted_searches, inputs.trials, inputs.facts
        if not quoted:
            return note("No searches of these rows were published.", png, svg)
        medians = median_needed(every)
        names = {row: searches[0].row for row, searches in quoted.items()}
        order = sorted(quoted, key=lambda row: list(medians).index(names[row]))
        batch_size, any_of_ours = study_batch(facts), False
        most = max(map(len, [*(search.trials for search in every), *trials.values()]))
        with styled() as plt:
            figure, axis = plt.subplots(figsize=(WIDTH, 0.34 * len(order) + 1.5), layout="constrained")
            for place, row in enumerate(order):
                by_batch = {search.batch: search.needed for search in quoted[row]}
                elsewhere = [
                    search.needed for search in every if search.row == names[row] and search.dataset != facts["dataset"]
                ]
                axis.plot(elsewhere, [place] * len(elsewhere), zorder=2, **ELSEWHERE)
                axis.plot(medians[names[row]], place, zorder=3, **MEDIAN)
                for batch, count in by_batch.items():
                    axis.plot(
                        count,
                        place,
                        zorder=4 + (batch == batch_size),
                        **(SAME_BATCH if batch == batch_size else OTHER_BATCH),
                    )
                finished = trials[row].sort_values("trial")["objective"].cummax() if row in trials else None
                if finished is not None and finished.notna().any():
                    axis.plot(needed(list(finished.fillna(-1))), place, zorder=6, **OURS)
                    any_of_ours = True
            striped(axis, len(order))
            axis.set_yticks(range(len(order)), [inputs.labels[row] for row in order])
            axis.set(xlim=(0, most + 1), xlabel=f"trials until within {100 * CLOSE:g} points of the search's own best")
            axis.set_xticks([1, *range(5, most + 1, 5)])
            batches = [batch for batch in (batch_size, *other_batches(facts)) if batch]
            handles = [
                legend_line(label=batch_label(facts, batch), **(SAME_BATCH if batch == batch_size else OTHER_BATCH))
                for batch in batches
            ]
            handles += [legend_line(label="ours", **OURS)] if any_of_ours else []
            handles += [legend_line(label="published, another dataset", **ELSEWHERE)]
            handles += [legend_line(label="median of all published", **MEDIAN)]
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
            return save(figure, png, svg)
