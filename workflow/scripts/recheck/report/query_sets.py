"""Queries of classes that were trained on (seen) and of others (unseen), calibrated each on themselves, for figures.

Seen is always solid and unseen always dashed.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from recheck.evaluation.query_sets import QuerySet
from recheck.names import QUERY_VIEWS
from recheck.report.figures import Facts, Figure
from recheck.report.style import VIEW_STYLES, legend_line

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

DASHED = (0, (4, 2))
LOOKS = {"seen_queries": {**VIEW_STYLES[0], "ls": "-"}, "unseen_queries": {**VIEW_STYLES[1], "ls": DASHED}}
# Methods whose largest distances lie more than this many times apart can't be read on one scale.
COMPARABLE = 8


Sets = Mapping[str, Mapping[str, QuerySet]]
"""By method and by one of ``LOOKS``; either may be missing where nothing was measured yet."""


class QueryFigure(Figure):
    """A figure of what each row finds for both sets of queries, with its first seed."""

    needs = ("embeddings", "index", "split")

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["scope"] == "all" and QUERY_VIEWS[0] in facts["views"]


def measured(sets: Sets, labels: Mapping[str, str]) -> dict[str, dict[str, QuerySet]]:
    """The methods that have any queries, in the order of ``labels``, and of each first the seen ones."""
    found = {method: {name: sets[method][name] for name in LOOKS if name in sets.get(method, {})} for method in labels}
    return {method: own for method, own in found.items() if own}


def names(sets: Sets) -> list[str]:
    return [name for name in LOOKS if any(name in own for own in sets.values())]


def title(name: str) -> str:
    return name.replace("_", " ")


def set_handles(sets: Sets, colour: str | None = None) -> list[Line2D]:
    """What solid and dashed mean, in one colour or in the sets' own."""
    looks = {name: {"color": colour or LOOKS[name]["color"], "ls": LOOKS[name]["ls"]} for name in names(sets)}
    return [legend_line(lw=1.4, label=title(name), **look) for name, look in looks.items()]


def limits(sets: Sets) -> tuple[dict[str, tuple[float, float]], bool]:
    """The distances to draw of each method, and whether they are the same for all, as they are if that can be read."""
    spans = {}
    for method, own in sets.items():
        every = np.concatenate([[one.threshold, *one.distances] for one in own.values()])
        spans[method] = every.min(), every.max()
    low, high = (pick(ends) for pick, ends in zip((min, max), zip(*spans.values(), strict=True), strict=True))
    shared = high <= COMPARABLE * min(end for _, end in spans.values())
    return {method: _padded(*((low, high) if shared else span)) for method, span in spans.items()}, shared


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.04 * (high - low) or 0.1 * high or 1.0
    return max(low - room, -room / 2), high + room


def arranged(count: int, a_row: int) -> tuple[int, int]:
    """Rows and columns for so many panels, rows as equally long as can be."""
    rows = math.ceil(count / a_row)
    return rows, math.ceil(count / rows)


def wrapped(label: str, width: int, lines: int = 3) -> str:
    return textwrap.fill(label, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
