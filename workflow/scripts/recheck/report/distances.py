"""How far apart the images of a set are: all pairs, those of a class, and what chance would give."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter
from scipy.special import betaln

from recheck.data.splits import PAIRED_IMAGES, spread_classes
from recheck.report.style import BLUE, GREY, VERMILLION, plt, save, styled

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
) -> Figure:
    """One panel an entry of ``embeddings`` (label -> array in the same order), numbers of pairs on a log scale.

    ``what`` says which images they are. Of a larger set whole classes are taken.

    Chance is the number of pairs times the density, for as many dimensions as the embeddings have; it is drawn where it
    is a pair or more.
    """
    part = spread_classes(labels, PAIRED_IMAGES)
    with styled():
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
        axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes[0, 0].set_ylabel(f"pairs in a bin of {LARGEST / BINS:g}")
        figure.legend(handles=_handles(), loc="outside lower center", ncols=3)
        return save(figure, png, svg)


def _handles() -> list[Line2D | Patch]:
    return [
        Patch(color=GREY, alpha=0.55, lw=0, label="all pairs"),
        Line2D([], [], color=BLUE, lw=1.4, label="pairs of a class"),
        Line2D([], [], color=VERMILLION, lw=1.4, ls=(0, (4, 2)), label="uniform on the sphere"),
    ]
