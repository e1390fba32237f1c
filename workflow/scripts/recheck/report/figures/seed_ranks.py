"""Average ranks of the methods over the seeds of one dataset; bars join ranks that are not separated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recheck.names import metric_title
from recheck.report.figures import Facts, Figure
from recheck.report.figures.critical_difference import METHODS, draw
from recheck.report.figures.metrics import view_label

if TYPE_CHECKING:
    from recheck.report.types import DataFrame, Drawing, Inputs

# With two seeds the critical difference is larger than any difference of ranks, however many methods there are.
FEWEST_SEEDS = 3


def values(evaluations: DataFrame, view: str, metric: str) -> DataFrame:
    """Seeds × methods."""
    shown = evaluations[(evaluations["view"] == view) & (evaluations["metric"] == metric)]
    return shown.pivot(index="seed", columns="method", values="value")


class SeedRanks(Figure):
    name, title, place = "seed_ranks", "Average ranks over seeds", 54
    caption = (
        "The rank of each method on {dataset} with each seed (1 is the highest value), averaged over seeds. Methods "
        "joined by a thick bar are not separated: their average ranks are at most the critical difference of Nemenyi's "
        "test (5 %) apart. Seeds show how training varies on this dataset, not whether a method is better on others."
    )
    needs = ("evaluations",)

    def applies(self, facts: Facts) -> bool:
        rows = [row for row in facts["rows"] if row["name"] in facts["measured"] and row["seeds"] >= FEWEST_SEEDS]
        return super().applies(facts) and len(rows) >= METHODS

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        metric = inputs.facts["lead_metric"]
        panels = [
            (
                f"{metric_title(metric)}, {view_label(view, inputs.summary)}",
                values(inputs.evaluations, view, metric).rename(columns=inputs.labels),
            )
            for view in inputs.facts["views"]
        ]
        return draw(panels, blocks="seed", published=False, png=png, svg=svg)
