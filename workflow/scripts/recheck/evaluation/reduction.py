"""Dimension reduction for untrained networks, so that they are compared with trained ones at the same size."""

import numpy as np

from recheck.errors import UserError, nearest

KINDS = ("standardise_pca", "pca", "random_linear")


def reduce(embeddings: np.ndarray, kind: str, dimensions: int, seed: int = 0) -> np.ndarray:
    """Embeddings in ``dimensions`` dimensions, float32, not normalised; fitted on the embeddings themselves.

    - standardise_pca: every feature scaled to mean 0 and population standard deviation 1, then PCA without whitening;
    - pca: PCA without scaling;
    - random_linear: a Gaussian matrix drawn from ``seed``.
    """
    if kind not in KINDS:
        raise UserError(f"Unknown reduction '{kind}'; {nearest(kind, KINDS)}.")
    if dimensions < 1:
        raise UserError(f"'reduction.dims' must be at least 1, found {dimensions}.")
    features = np.asarray(embeddings, dtype=np.float64)
    count, width = features.shape
    if kind == "random_linear":
        weights = np.random.default_rng(seed).standard_normal((width, dimensions)) / np.sqrt(width)
        return (features @ weights).astype(np.float32)
    if dimensions > min(count, width):
        raise UserError(
            f"'reduction.dims' must be at most {min(count, width)} for {count} embeddings of {width} dimensions, found "
            f"{dimensions}."
        )
    constant = features.max(axis=0) == features.min(axis=0)
    features = features - features.mean(axis=0)
    features[:, constant] = 0.0
    if kind == "standardise_pca":
        features /= np.where(constant, 1.0, features.std(axis=0))
    return (features @ _components(features, dimensions)).astype(np.float32)


def _components(centred: np.ndarray, dimensions: int) -> np.ndarray:
    """Principal directions as columns, most variance first, each with its largest coordinate positive."""
    _, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, ::-1][:, :dimensions]
    largest = np.abs(vectors).argmax(axis=0)
    return vectors * np.where(vectors[largest, np.arange(dimensions)] < 0, -1.0, 1.0)
