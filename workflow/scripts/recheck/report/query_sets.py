"""Shared code of the figures of query sets: seen queries (classes used in training) and unseen queries.

Each set is calibrated on its own queries. Seen queries are always drawn solid and unseen queries dashed.
"""

from __future__ import annotations

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
# Methods share one scale unless their largest distances differ by more than this factor.
COMPARABLE = 8


Sets = Mapping[str, Mapping[str, QuerySet]]
"""Method → name in ``LOOKS`` → query set. Methods and sets without results are missing."""


class QueryFigure(Figure):
    """A figure of the nearest neighbours that each row finds for both query sets, with its first seed."""

    needs = ("embeddings", "index", "split")

    def applies(self, facts: Facts) -> bool:
        return super().applies(facts) and facts["scope"] == "all" and QUERY_VIEWS[0] in facts["views"]


def measured(sets: Sets, labels: Mapping[str, str]) -> dict[str, dict[str, QuerySet]]:
    """The methods with query sets, in the order of ``labels``, each with its seen queries first."""
    ordered = {
        method: {name: sets[method][name] for name in LOOKS if name in sets.get(method, {})} for method in labels
    }
    return {method: by_name for method, by_name in ordered.items() if by_name}


def names(sets: Sets) -> list[str]:
    return [name for name in LOOKS if any(name in by_name for by_name in sets.values())]


def title(name: str) -> str:
    return name.replace("_", " ")


def set_handles(sets: Sets, colour: str | None = None) -> list[Line2D]:
    """Legend entries for solid and dashed lines, in one colour or in each set's colour."""
    looks = {name: {"color": colour or LOOKS[name]["color"], "ls": LOOKS[name]["ls"]} for name in names(sets)}
    return [legend_line(lw=1.4, label=title(name), **look) for name, look in looks.items()]


def limits(sets: Sets) -> tuple[dict[str, tuple[float, float]], bool]:
    """The distance limits of each method, and whether all methods share them (if one scale is readable)."""
    spans = {}
    for method, by_name in sets.items():
        every = np.concatenate([[queries.threshold, *queries.distances] for queries in by_name.values()])
        spans[method] = every.min(), every.max()
    low, high = (pick(ends) for pick, ends in zip((min, max), zip(*spans.values(), strict=True), strict=True))
    shared = high <= COMPARABLE * min(end for _, end in spans.values())
    return {method: _padded(*((low, high) if shared else span)) for method, span in spans.items()}, shared


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.04 * (high - low) or 0.1 * high or 1.0
    return max(low - room, -room / 2), high + room


def wrapped(label: str, width: int, lines: int = 3) -> str:
    return textwrap.fill(label, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
