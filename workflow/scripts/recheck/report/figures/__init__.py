"""The figures of a study: every module in this folder is one figure.

Snakemake imports them all while it parses the workflow, to find out which files a figure needs and where it applies.
Therefore a module imports slow packages such as matplotlib and pandas only in the functions that draw. A user's figures
are named in the config, as ``figures: ["module:Class"]``.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.blame import place_of
from recheck.errors import UserError
from recheck.names import VALIDATION
from recheck.parts import load, own_files

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs

Facts = Mapping[str, Any]


class Figure:
    """One figure of a dataset. ``name`` is part of its path; ``title`` and the description appear on the page.

    ``caption`` explains how to read the figure (``{dataset}`` is filled in), ``place`` sets its position on the page,
    and ``needs`` lists kinds of files: evaluations, histories, runs, embeddings, searches, trials, importances,
    index, split, pack.
    """

    name: str
    title: str
    caption: str
    place: int
    needs: tuple[str, ...]
    # whether there is one figure of all datasets, not one per dataset
    across = False

    def applies(self, facts: Facts) -> bool:
        """Whether a study has this figure (default: if rows are measured and the study is not a sweep)."""
        return bool(facts["measured"]) and not facts["sweep"]

    def sentences(self, facts: Facts) -> Iterable[str]:
        """Sentences to add to the caption, about marks that only some studies have; empty ones are left out."""
        return ()

    def describe(self, facts: Facts) -> str:
        """The caption for one dataset of a study: it explains all marks in the figure, and no others."""
        caption = self.caption.format(dataset=facts["dataset_title"])
        return " ".join(sentence for sentence in (caption, *self.sentences(facts)) if sentence)

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        """Draw the figure and write it to both files."""
        raise NotImplementedError


class StudyFigure(Figure):
    """One figure of all datasets of a study, drawn from their tables.

    It is not part of a dataset's section. Its methods get the facts of every dataset as a list, and ``inputs`` with
    ``facts`` and ``tables`` in the same order.
    """

    needs = ("tables",)
    across = True

    def applies(self, facts: Sequence[Facts]) -> bool:
        """Whether a study has this figure (default: if it has several datasets and is not a sweep)."""
        return len(facts) > 1 and not facts[0]["sweep"]

    def sentences(self, facts: Sequence[Facts]) -> Iterable[str]:
        return ()

    def describe(self, facts: Sequence[Facts]) -> str:
        return " ".join(sentence for sentence in (self.caption, *self.sentences(facts)) if sentence)


def quoted(facts: Facts) -> set[str]:
    """The names of the rows with a published value on test images."""
    return {
        row for document in facts["published"] for row, views in document["values"].items() if {*views} - {VALIDATION}
    }


def intervals(facts: Facts, marks: str = "Whiskers") -> str:
    """A sentence on the marks for intervals, if any row has several seeds."""
    rows = [row for row in facts["rows"] if row["name"] in facts["measured"]]
    return f"{marks} are 95 % t-intervals over seeds." if any(row["seeds"] > 1 for row in rows) else ""


def compared(facts: Facts) -> str:
    """A sentence on the two models in figures of embeddings: the best trained row and, if any, the untrained one."""
    best = f"the trained method with the highest {facts['lead_metric']}, if possible without a warning"
    reference = next((row["label"] for row in facts["rows"] if row["name"] == facts["reference"]), None)
    untrained = f"the untrained model ({reference}) and " if reference else ""
    return f"The figure shows {untrained}{best}."


def all_figures(user_figures: tuple[str, ...] = ()) -> dict[str, Figure]:
    """Name → figure of one dataset, in the order of the page; ``user_figures`` are given as ``module:Class``."""
    return {name: figure for name, figure in _figures(user_figures).items() if not figure.across}


def study_figures(user_figures: tuple[str, ...] = ()) -> dict[str, Figure]:
    """Name → figure of all datasets together, in the order of the page; ``user_figures`` as in ``all_figures``."""
    return {name: figure for name, figure in _figures(user_figures).items() if figure.across}


@cache
def _figures(user_figures: tuple[str, ...]) -> dict[str, Figure]:
    """Every module in this folder, and every ``module:Class`` in ``user_figures``."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Figure) and value.__module__ == module.__name__
    ]
    names = {figure.name for figure in classes}
    for spec in user_figures:
        cls = load(spec, "figure")
        _check(cls, spec, names)
        names.add(cls.name)
        classes.append(cls)
    return {figure.name: figure() for figure in sorted(classes, key=lambda figure: (figure.place, figure.name))}


def source_of(figure: Figure) -> list[str]:
    """The user's file that defines a figure; none for the figures in this folder."""
    return own_files(f"{type(figure).__module__}:{type(figure).__qualname__}")


def _check(cls: Any, spec: str, names: set[str]) -> None:
    if not isinstance(cls, type) or not issubclass(cls, Figure):
        bases = ", ".join(base.__name__ for base in cls.__bases__) if isinstance(cls, type) else ""
        raise UserError(
            f"The figure '{spec}' must be a class derived from recheck.report.figures.Figure, found "
            f"{f'a class derived from {bases}' if bases else f'a {type(cls).__name__}'}: correct the name or the class."
        )
    missing = [key for key in ("name", "title", "caption", "place", "needs") if not hasattr(cls, key)]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise UserError(f"{place_of(cls)}: the figure '{spec}' does not define {', '.join(missing)}. Add {them}.")
    if cls.name in names or not re.fullmatch(r"[a-z0-9_]+", cls.name):
        raise UserError(
            f"{place_of(cls)}: 'name' of the figure '{spec}' is '{cls.name}'. It must consist of lower-case letters, "
            "digits and '_', and no other figure may have it."
        )
