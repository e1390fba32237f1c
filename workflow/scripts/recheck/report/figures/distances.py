"""How far apart the images of a set are: all pairs, those of a class, and what chance would give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recheck.data.splits import PAIRED_IMAGES, spread_classes
from recheck.names import BEST_ON_TEST
from recheck.report.figures import Facts, Figure
from recheck.report.style import BLUE, GREY, VERMILLION, legend_line, legend_patch, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs, Line2D, Patch

BINS, LARGEST, UNDER_THE_ROOT = 1000, 2.0, 1e-5
BLOCK = 512


class Histogram(NamedTuple):
    """Numbers of pairs by distance, in ``BINS`` equal bins from 0 to 2."""

    pairs: np.ndarray
    positives: np.ndarray


def histogram(embeddings: np.ndarray, labels: np.ndarray) -> Histogram:
    """Of d = sqrt(2 − 2S + 1e-5), S the cosine similarity; each pair of two images counts once."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(min=np.finfo(embeddings.dtype).tiny)
    pairs, positives = np.zeros((2, BINS), np.int64)
    for start in range(0, len(unit), BLOCK):
        rows = slice(start, start + BLOCK)
        scores = unit[rows] @ unit[start:].T
        distance = np.sqrt((2 - 2 * scores).clip(min=0) + UNDER_THE_ROOT)
        bins = (distance * (BINS / LARGEST)).astype(np.int64).clip(max=BINS - 1)
        later = np.arange(len(unit) - start) > np.arange(len(scores))[:, None]
        same = labels[rows, None] == labels[None, start:]
        pairs += np.bincount(bins[later], minlength=BINS)
        positives += np.bincount(bins[later & same], minlength=BINS)
    return Histogram(pairs, positives)


def centres() -> np.ndarray:
    return (np.arange(BINS) + 0.5) * LARGEST / BINS


def density(distance: np.ndarray, dimension: int) -> np.ndarray:
    """q(d) = d^(n−2) (1 − d²/4)^((n−3)/2) / (2^(n−2) B((n−1)/2, (n−1)/2)), for two points that are
    uniform on the unit sphere in n dimensions. Almost all of it is near √2 where n is large.
    """
    from scipy.special import betaln

    power = (dimension - 3) / 2
    logarithm = (dimension - 2) * np.log(distance) + power * np.log1p(-(distance**2) / 4)
    half = (dimension - 1) / 2
    return np.exp(logarithm - (dimension - 2) * np.log(2) - betaln(half, half))


def draw(
    embeddings: Mapping[str, np.ndarray],
    labels: np.ndarray,
    *,
    png: str | Path,
    svg: str | Path,
    what: str = "test",
) -> Drawing:
    """One panel an entry of ``embeddings`` (label -> array in the same order), numbers of pairs on a log scale.

    ``what`` says which images they are. Of a larger set whole classes are taken.

    Chance is the number of pairs times the density, for as many dimensions as the embeddings have; it is drawn where it
    is a pair or more.
    """
    part = spread_classes(labels, PAIRED_IMAGES)
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(embeddings),
            figsize=(0.9 + 4.6 * len(embeddings), 4.2),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axis, (label, vectors) in zip(axes[0], embeddings.items(), strict=True):
            found = histogram(vectors[part], labels[part])
            by_chance = found.pairs.sum() * LARGEST / BINS * density(centres(), vectors.shape[1])
            axis.stairs(found.pairs, np.linspace(0, LARGEST, BINS + 1), fill=True, color=GREY, alpha=0.55, lw=0)
            axis.stairs(found.positives, np.linspace(0, LARGEST, BINS + 1), color=BLUE, lw=1.1)
            seen = by_chance >= 1
            axis.plot(centres()[seen], by_chance[seen], color=VERMILLION, lw=1.4, ls=(0, (4, 2)))
            axis.set(yscale="log", xlim=(0, LARGEST), title=label, xlabel=f"distance of two {what} images")
        axes[0, 0].set_ylim(bottom=0.7)
        axes[0, 0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[0, 0].set_ylabel(f"pairs in a bin of {LARGEST / BINS:g}")
        figure.legend(handles=_handles(), loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _handles() -> list[Line2D | Patch]:
    return [
        legend_patch(color=GREY, alpha=0.55, lw=0, label="all pairs"),
        legend_line(color=BLUE, lw=1.4, label="pairs of a class"),
        legend_line(color=VERMILLION, lw=1.4, ls=(0, (4, 2)), label="uniform on the sphere"),
    ]


class Distances(Figure):
    name, title, place = "distances", "Distances between images", 130
    caption = (
        "How far apart images of {dataset} are (the axis says whether test or training images), counted in small steps "
        "on a logarithmic scale: all pairs, pairs of the same class, and what points spread evenly over the sphere "
        "would give. An embedding that recognises classes has its pairs of the same class to the left of all others."
    )
    needs = ("evaluations", "embeddings", "index", "split")

    def applies(self, facts: Facts) -> bool:
        # on a sphere, where there is a density to compare with
        of_epochs = BEST_ON_TEST in facts["views"] and facts["normalise"]
        return super().applies(facts) and facts["scope"] == "all" and of_epochs

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        training = inputs.facts["distances"] == "train"
        shown = inputs.shown_training() if training else inputs.shown()
        return draw(shown.embeddings, shown.labels, what="training" if training else "test", png=png, svg=svg)
