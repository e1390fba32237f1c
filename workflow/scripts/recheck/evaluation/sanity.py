"""Signs that an evaluation is worthless: collapsed embeddings, and metrics that a random order would have too."""

from collections.abc import Mapping, Sequence
from math import comb, sqrt

import numpy as np

from recheck.names import RECALL, view_title
from recheck.sanity import Finding, finding

# Embeddings are collapsed if their mean squared distance to their mean is below this share of their squared length.
# In sane runs, this share is 1e-3 to 0.9; in runs that collapsed under hard mining, it is about 1e-5.
COLLAPSED = 1e-4
STANDARD_ERRORS = 3
# rows that are converted to float64 at once
BLOCK = 4096


def collapsed(view: str, folds: Sequence[np.ndarray]) -> list[Finding]:
    """A finding if the images have almost the same embedding in a fold; ``folds`` are embeddings as searched."""
    spreads = [spread(rows) for rows in folds]
    low = [value for value in spreads if value < COLLAPSED]
    if not low:
        return []
    where = view_title(view) + (f", {len(low)} of {len(spreads)} folds" if len(spreads) > 1 else "")
    text = (
        f"The embeddings have collapsed ({where}): their mean squared distance to their mean is {min(low):.1g} times "
        "their mean squared length. Check the loss, and lower 'optimisers.*.lr'."
    )
    return [finding("collapsed", text)]


def spread(rows: np.ndarray) -> float:
    """Mean squared distance of the rows to their mean, as a share of their mean squared length."""
    mean = rows.mean(axis=0, dtype=np.float64)
    length = distance = 0.0
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK].astype(np.float64)
        length += np.square(block).sum()
        distance += np.square(block - mean).sum()
    return float(distance / length) if length else 0.0


def at_chance(view: str, metrics: Mapping[str, float], relevant: np.ndarray, size: int) -> list[Finding]:
    """A finding if retrieval is not better than a random order by three standard errors.

    ``relevant`` is the number of images of its class that each query searches, out of ``size`` images. The test uses
    P@1, or the R@k with the smallest k; without these metrics there is no test.
    """
    depths = {name: int(match[1]) for name in metrics if (match := RECALL.fullmatch(name))}
    name = "P@1" if "P@1" in metrics else min(depths, key=depths.get, default=None)
    if name is None or not len(relevant):
        return []
    chances = hit_chances(relevant, size, depths.get(name, 1))
    if not is_at_chance(metrics[name], chances):
        return []
    mean, error = 100 * chances.mean(), 100 * standard_error(chances)
    text = (
        f"{name} ({view_title(view)}) is {100 * metrics[name]:.2f} %, no better than chance: a random order has "
        f"{mean:.2f} ± {error:.2f} % (standard error of {len(chances):,} queries). Check the training, and which "
        "weights were evaluated."
    )
    return [finding("chance", text)]


def relevant_images(labels: np.ndarray, gallery: int) -> tuple[np.ndarray, int]:
    """Number of images of its own class that each query searches, and of all images that it searches.

    The last ``gallery`` labels are those of the gallery; with 0, each image searches all others.
    """
    queries, searched = (labels[:-gallery], labels[-gallery:]) if gallery else (labels, labels)
    classes, counts = np.unique(searched, return_counts=True)
    known = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    itself = 0 if gallery else 1
    return np.array([known.get(label, 0) - itself for label in queries.tolist()]), len(searched) - itself


def hit_chances(relevant: np.ndarray, size: int, k: int) -> np.ndarray:
    """Probability that k random images of ``size`` include one of the r relevant: 1 − C(size − r, k) / C(size, k)."""
    values = {r: 1 - comb(size - r, k) / comb(size, k) for r in np.unique(relevant).tolist()}
    return np.array([values[r] for r in relevant.tolist()])


def is_at_chance(share: float, chances: np.ndarray) -> bool:
    """Whether a share of hits exceeds the mean of the queries' chances by less than three standard errors."""
    return bool(share - chances.mean() < STANDARD_ERRORS * standard_error(chances))


def standard_error(chances: np.ndarray) -> float:
    """Standard error of the share of hits among independent queries with these chances."""
    return sqrt(float((chances * (1 - chances)).sum())) / len(chances)


def of_folds(
    view: str,
    folds: Sequence[np.ndarray],
    labels: np.ndarray,
    metrics: Mapping[str, float],
    gallery: int = 0,
) -> list[Finding]:
    """Findings about a view; ``folds`` are the folds' embeddings as searched."""
    relevant, size = relevant_images(np.asarray(labels), gallery)
    # an image without others of its class is not a query
    return [*collapsed(view, folds), *at_chance(view, metrics, relevant[relevant > 0], size)]
