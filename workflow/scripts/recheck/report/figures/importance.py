"""How much each free setting mattered in a search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recheck.report.figures import Facts, Figure
from recheck.report.figures.search import has_searches, searches
from recheck.report.style import BLUE, SMALL, note, panels, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs

PANELS_PER_ROW = 3


class Importance(Figure):
    name, title, place = "importance", "Importance of the settings", 58
    caption = (
        "How much of the variance of the objective between trials on {dataset} each free setting explains, alone and "
        "together with other settings (fANOVA, a random forest fitted to the trials; with few trials it is a rough "
        "guide)."
    )
    needs = ("importances",)

    def applies(self, facts: Facts) -> bool:
        return has_searches(facts) and any(len(search["space"]) > 1 for search in searches(facts).values())

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """One panel per row with several free settings: a bar per setting, with its share in percent."""
        shown = [row for row in inputs.labels if row in inputs.importances]
        if not shown:
            return note(
                "No importance: the finished trials of a search need two or more different objectives.", png, svg
            )
        most = max(len(inputs.importances[row]) for row in shown)
        with styled() as plt:
            figure, axes = panels(plt, len(shown), PANELS_PER_ROW, 0.32 * most + 0.7, 0.2, shared="x")
            for axis, row in zip(axes, shown, strict=True):
                shares = sorted(inputs.importances[row].items(), key=lambda item: (-item[1], item[0]))
                names, values = [name for name, _ in shares], [100 * share for _, share in shares]
                axis.barh(range(len(names)), values, color=BLUE, height=0.6)
                for number, value in enumerate(values):
                    axis.text(value + 1.5, number, f"{value:.0f}", va="center", fontsize=SMALL)
                axis.set_yticks(range(len(names)), names)
                axis.set(title=inputs.labels[row], xlim=(0, 112), ylim=(most - 0.5, -0.5))
                axis.grid(axis="y", visible=False)
                if axis.get_subplotspec().is_last_row():
                    axis.set_xlabel("share of the variance (%)")
            return save(figure, png, svg)
