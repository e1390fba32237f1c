"""Pictures and page of the toy experiment with points in a plane (``training/toy.py``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recheck.errors import UserError
from recheck.evaluation.metrics import evaluate
from recheck.report import page as pages
from recheck.report.style import COLOURS, FAINT, INK, MARKERS, WIDTH, legend_line, save, styled

PICTURES = {
    "data": (
        "Training data",
        "Points drawn like a training batch, coloured by circle. A point's radius is its circle's radius plus "
        "noise with a standard deviation of 1/5, the distance between neighbouring circles.",
    ),
    "losses": (
        "Training loss",
        "The loss of each step (faint) and its moving average, each panel with its own scale. Every step uses a new "
        "batch of four points per circle, so single values vary. The contrastive loss is a mean over the pairs whose "
        "loss is not zero: once the easy pairs drop out, the mean over the others may rise.",
    ),
    "embeddings": (
        "Learned embeddings",
        "The network's outputs, not normalised, for new points with noise of standard deviation 1/20. The loss saw "
        "only the directions of the outputs: circles are separated where their points lie at different angles.",
    ),
}
"""Name of each picture → its title and caption."""

SMOOTHED = 0.02
"""Window of the loss's mean, as a fraction of all steps."""

Arrays = Mapping[str, np.ndarray]


def read(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays that a run has written."""
    try:
        with np.load(path) as stored:
            return dict(stored)
    except Exception as error:  # numpy and zipfile raise many types
        raise UserError(f"{path} is damaged ({error}): delete it and run again to recreate it.") from error


def draw(picture: str, runs: Mapping[str, Arrays], png: str | Path, svg: str | Path) -> Figure:
    """Draw one of ``PICTURES``, with one panel per run; ``runs`` maps labels to arrays."""
    with styled() as plt:
        if picture == "data":
            figure, axis = plt.subplots(figsize=(WIDTH, 5.4), layout="constrained")
            first = next(iter(runs.values()))
            _scatter(axis, first["data"], first["data_labels"])
            figure.legend(handles=_circles(first["data_labels"]), loc="outside right center")
            return save(figure, png, svg)
        figure, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 4.2), squeeze=False, layout="constrained")
        for axis, (label, run) in zip(axes[0], runs.items(), strict=True):
            axis.set_title(label)
            if picture == "losses":
                _loss(axis, run["losses"])
            else:
                _scatter(axis, run["embeddings"], run["labels"])
        if picture == "losses":
            axes[0, 0].set_ylabel("loss")
        else:
            figure.legend(handles=_circles(next(iter(runs.values()))["labels"]), loc="outside right center")
        return save(figure, png, svg)


def _scatter(axis: Axes, points: np.ndarray, labels: np.ndarray) -> None:
    for number, label in enumerate(np.unique(labels)):
        circle = points[labels == label]
        axis.plot(*circle.T, ls="", marker=MARKERS[number], color=COLOURS[number], ms=2.6, mew=0, alpha=0.65)
    axis.set_aspect("equal", adjustable="datalim")


def _circles(labels: np.ndarray) -> list[Line2D]:
    return [
        legend_line(ls="", marker=MARKERS[number], color=COLOURS[number], ms=6, label=f"circle {label + 1}")
        for number, label in enumerate(np.unique(labels))
    ]


def _loss(axis: Axes, losses: np.ndarray) -> None:
    steps = np.arange(1, len(losses) + 1)
    axis.plot(steps, losses, color=FAINT, lw=0.5, rasterized=True)
    width = max(1, round(SMOOTHED * len(losses)))
    means = np.convolve(losses, np.full(width, 1 / width), mode="valid")
    axis.plot(steps[: len(means)] + (width - 1) / 2, means, color=INK, lw=1.6)
    axis.set_xlabel("step")
    axis.set_ylim(bottom=0)


def measures(runs: Mapping[str, Arrays]) -> pd.DataFrame:
    """One row per loss: its mean at the start and the end, and Recall@1 of new points.

    Recall@1 is computed for the directions, which the loss saw, and for the raw outputs.
    """
    rows = []
    for label, run in runs.items():
        width = max(1, round(SMOOTHED * len(run["losses"])))
        unit = run["embeddings"] / np.linalg.norm(run["embeddings"], axis=1, keepdims=True)
        recall = [evaluate(vectors, run["labels"], ["R@1"])["R@1"] for vectors in (unit, run["embeddings"])]
        rows.append([label, len(run["losses"]), run["losses"][:width].mean(), run["losses"][-width:].mean(), *recall])
    names = ["Loss", "Steps", "Loss at the start", "Loss at the end", "R@1 of directions (%)", "R@1 of outputs (%)"]
    table = pd.DataFrame(rows, columns=names)
    table.iloc[:, 4:] *= 100
    return table


@dataclass(frozen=True)
class _Table:
    """The parts of a table that the page needs."""

    frame: pd.DataFrame
    caption: str
    compares: bool = False
    notes: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def html(self) -> str:
        rows = self.frame.set_index(self.frame.columns[0]).map(
            lambda value: f"{value:.2f}" if value % 1 else str(value)
        )
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.frame.columns)
        body = "".join(
            f'<tr><th scope="row">{escape(label)}</th>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>'
            for label, row in zip(rows.index, rows.to_numpy(), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def csv(self) -> str:
        return self.frame.to_csv(index=False)


class _Section(pages.Section):
    @property
    def downloads(self) -> list[tuple[str, str, str]]:
        return [("CSV", f"{self.dataset}.csv", pages.data_uri(self.table.csv().encode(), ".csv"))]


def page(toy: Mapping[str, Any], runs: Mapping[str, Arrays], figure_files: Sequence[str | Path]) -> str:
    """The HTML of the page, like that of a study: a small table and all pictures."""
    files = {(Path(path).stem, Path(path).suffix): path for path in figure_files}
    figures = [
        pages.Picture(
            kind, title, files[kind, ".png"], files[kind, ".svg"], text, f"{title}: {', '.join(runs)}. {text}"
        )
        for kind, (title, text) in PICTURES.items()
    ]
    caption = (
        f"Loss: mean over the first and the last {100 * SMOOTHED:g} % of the steps. R@1: share of the points in the "
        "last picture whose nearest other point is on the same circle."
    )
    return pages.render(
        study=toy["name"],
        title=toy["title"],
        description=toy["description"],
        sections=[_Section("circles", _Table(measures(runs), caption), figures)],
        runs=[],
        labels={},
        command=f"snakemake --cores all {toy['name']}",
    )
