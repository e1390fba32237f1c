"""Histogram of the distances between images: all pairs, pairs of the same class, and random points on the sphere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recheck.data.splits import PAIRED_IMAGES, spread_classes
from recheck.names import BEST_ON_TEST
from recheck.report.figures import Facts, Figure, compared
from recheck.report.style import BLUE, GREY, VERMILLION, WIDTH, legend_line, legend_patch, save, styled

if TYPE_CHECKING:
    from recheck.report.types import Drawing, Inputs, Line2D, Patch

BINS, LARGEST, UNDER_THE_ROOT = 1000, 2.0, 1e-5
BLOCK = 512


class Histogram(NamedTuple):
    """Number of pairs per distance, in ``BINS`` equal bins from 0 to 2."""

    pairs: np.ndarray
    positives: np.ndarray


def histogram(embeddings: np.ndarray, labels: np.ndarray) -> Histogram:
    """Histogram of d = sqrt(2 − 2S + 1e-5), with S the cosine similarity; each pair of images counts once."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(min=np.finfo(embeddings.dtype).tiny)
    pairs, positives = np.zeros((2, BINS), np.int64)
    for start in range(0, len(unit), BLOCK):
        rows = slice(start, start + BLOCK)
        scores = unit[rows] @ unit[start:].T
        distance = np.sqrt((2 - 2 * scores).clip(min=0) + UNDER_THE_ROOT)
        bins = (distance * (BINS / LARGEST)).astype(np.int64).clip(max=BINS - 1)
        new_pair = np.arange(len(unit) - start) > np.arange(len(scores))[:, None]
        same = labels[rows, None] == labels[None, start:]
        pairs += np.bincount(bins[new_pair], minlength=BINS)
        positives += np.bincount(bins[new_pair & same], minlength=BINS)
    return Histogram(pairs, positives)


def centres() -> np.ndarray:
    return (np.arange(BINS) + 0.5) * LARGEST / BINS


def density(distance: np.ndarray, dimension: int) -> np.ndarray:
    """The density of the distance d between two uniformly random points on the unit sphere in n dimensions.

    q(d) = d^(n−2) (1 − d²/4)^((n−3)/2) / (2^(n−2) B((n−1)/2, (n−1)/2)). For large n almost all of it is near √2.
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
    """One panel per entry of ``embeddings`` (label → array in the same order), with numbers of pairs on a log scale.

    ``what`` is the kind of images, for the axis label. A large set is reduced to some of its classes.

    The curve for random points is the number of pairs times the density in the embeddings' dimension; it is drawn
    where it is one pair or more.
    """
    chosen = spread_classes(labels, PAIRED_IMAGES)
    with styled() as plt:
        figure, axes = plt.subplots(
            1,
            len(embeddings),
            figsize=(WIDTH, 4.2),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        drawn: set[str] = set()
        for axis, (label, vectors) in zip(axes[0], embeddings.items(), strict=True):
            counts = histogram(vectors[chosen], labels[chosen])
            by_chance = counts.pairs.sum() * LARGEST / BINS * density(centres(), vectors.shape[1])
            axis.stairs(counts.pairs, np.linspace(0, LARGEST, BINS + 1), fill=True, color=GREY, alpha=0.55, lw=0)
            axis.stairs(counts.positives, np.linspace(0, LARGEST, BINS + 1), color=BLUE, lw=1.1)
            visible = by_chance >= 1
            drawn |= {"random"} if visible.any() else set()
            drawn |= {"positives"} if counts.positives.any() else set()
            axis.plot(centres()[visible], by_chance[visible], color=VERMILLION, lw=1.4, ls=(0, (4, 2)))
            axis.set(yscale="log", xlim=(0, LARGEST), title=label, xlabel=f"distance between two {what} images")
        axes[0, 0].set_ylim(bottom=0.7)
        axes[0, 0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[0, 0].set_ylabel(f"pairs per bin of {LARGEST / BINS:g}")
        figure.legend(handles=_handles(drawn), loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _handles(drawn: Collection[str]) -> list[Line2D | Patch]:
    """Legend entries for all pairs and for what else is drawn: ``positives``, ``random``."""
    kinds = {
        "positives": {"color": BLUE, "label": "pairs of the same class"},
        "random": {"color": VERMILLION, "ls": (0, (4, 2)), "label": "random points on the sphere"},
    }
    lines = [legend_line(lw=1.4, **look) for kind, look in kinds.items() if kind in drawn]
    return [legend_patch(color=GREY, alpha=0.55, lw=0, label="all pairs"), *lines]


class Distances(Figure):
    name, title, place = "distances", "Distances between images", 130
    caption = (
        "Distances between images of {dataset}, counted in small bins on a logarithmic scale: all pairs, pairs of the "
        "same class, and the expectation for random points on the sphere. In an embedding that recognises classes, "
        "pairs of the same class lie to the left of all other pairs."
    )
    needs = ("evaluations", "runs", "embeddings", "index", "split")

    def sentences(self, facts: Facts) -> Iterable[str]:
        return (compared(facts),)

    def applies(self, facts: Facts) -> bool:
        # only for normalised embeddings, because the density is that of points on a sphere
        on_sphere = BEST_ON_TEST in facts["views"] and facts["normalise"]
        return super().applies(facts) and facts["scope"] == "all" and on_sphere

    def draw(self, inputs: Inputs, png: str | Path, svg: str | Path) -> Drawing:
        training = inputs.facts["distances"] == "train"
        shown = inputs.shown_training() if training else inputs.shown()
        return draw(shown.embeddings, shown.labels, what="training" if training else "test", png=png, svg=svg)
