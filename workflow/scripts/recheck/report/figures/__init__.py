"""The figures of a study: every module in this folder is one figure.

Snakemake imports them all while it parses the workflow, to find out which files a figure needs and where it applies.
Therefore a module imports slow packages such as matplotlib and pandas only in the functions that draw.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs

Facts = Mapping[str, Any]


class Figure:
    """One figure of a dataset. ``name`` is part of its path; ``title`` and ``caption`` appear on the page.

    ``caption`` explains how to read the figure (``{dataset}`` is filled in), ``place`` sets its position on the page,
    and ``needs`` lists kinds of files: evaluations, histories, runs, embeddings, index, split, pack.
    """

    name: str
    title: str
    caption: str
    place: int
    needs: tuple[str, ...]

    def applies(self, facts: Facts) -> bool:
        """Whether a study has this figure (default: if rows are measured and the study is not a sweep)."""
        return bool(facts["measured"]) and not facts["sweep"]

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """Draw the figure and write it to both files."""
        raise NotImplementedError


def quoted(facts: Facts) -> set[str]:
    """The names of the rows with a published value."""
    return {row for document in facts["published"] for row in document["values"]}


@cache
def all_figures() -> dict[str, Figure]:
    """Name → figure, for every module in this folder, in the order of the page."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Figure) and value.__module__ == module.__name__
    ]
    return {figure.name: figure() for figure in sorted(classes, key=lambda figure: (figure.place, figure.name))}
