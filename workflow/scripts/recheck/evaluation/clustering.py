"""Clustering metrics: how well k-means recovers the classes."""

from collections.abc import Mapping, Sequence

import numpy as np

from recheck.errors import UserError, nearest
from recheck.evaluation.search import checked

ITERATIONS = 20
MOST_CLUSTERS = 1000
"""Largest number of clusters for scikit-learn's full k-means; above it, mini-batches are used."""
CHOICES = {"kmeans": ("faiss", "scikit-learn"), "average": ("arithmetic", "geometric")}
"""Settings of the clustering metrics and their values; the first value is the default."""


def check_settings(settings: Mapping[str, str] | None) -> dict[str, str]:
    """Settings with defaults filled in; unknown settings and values are refused."""
    chosen = {key: known[0] for key, known in CHOICES.items()} | dict(settings or {})
    for key, value in chosen.items():
        if key not in CHOICES:
            raise UserError(f"Unknown clustering setting '{key}'; {nearest(str(key), CHOICES)}.")
        if value not in CHOICES[key]:
            hint = nearest(str(value), CHOICES[key])
            raise UserError(f"Unknown value '{value}' for clustering setting '{key}'; {hint}.")
    return chosen


def evaluate(
    embeddings: np.ndarray,
    labels: np.ndarray,
    metrics: Sequence[str],
    seed: int = 0,
    settings: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """NMI and AMI of a k-means clustering with one cluster per class, including classes with a single image.

    ``settings`` choose the ``kmeans`` implementation (faiss, scikit-learn) and the ``average`` of the entropies that
    normalises the mutual information (arithmetic, geometric).
    """
    chosen = check_settings(settings)
    cluster = {"faiss": kmeans, "scikit-learn": kmeans_of_scikit_learn}[chosen["kmeans"]]
    clusters = cluster(embeddings, len(np.unique(labels)), seed)
    return {name: {"NMI": nmi, "AMI": ami}[name](labels, clusters, chosen["average"]) for name in metrics}


def kmeans(embeddings: np.ndarray, clusters: int, seed: int = 0) -> np.ndarray:
    """Cluster of each row by faiss, determined by the seed. Always on the CPU, so that the device does not matter."""
    import faiss  # imported late because it is slow to load

    embeddings, _ = checked(embeddings)
    means = faiss.Kmeans(
        embeddings.shape[1],
        clusters,
        niter=ITERATIONS,
        seed=seed,
        min_points_per_centroid=1,  # small classes are common here; faiss would warn below 39 images per class
    )
    means.train(embeddings)
    return means.assign(embeddings)[1]


def kmeans_of_scikit_learn(embeddings: np.ndarray, clusters: int, seed: int = 0) -> np.ndarray:
    """Cluster of each row by scikit-learn: the best of ten runs, or mini-batches if there are very many clusters.

    Every setting is explicit, because scikit-learn's defaults have changed since 2019.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    embeddings, _ = checked(embeddings)
    if clusters <= MOST_CLUSTERS:
        means = KMeans(clusters, init="k-means++", n_init=10, max_iter=300, tol=1e-4, random_state=seed)
    else:
        means = MiniBatchKMeans(
            clusters,
            init="k-means++",
            n_init=3,
            max_iter=100,
            batch_size=100,
            tol=0.0,
            max_no_improvement=10,
            reassignment_ratio=0.01,
            random_state=seed,
        )
    return means.fit_predict(embeddings)


def nmi(labels: np.ndarray, clusters: np.ndarray, average_method: str = "arithmetic") -> float:
    """Normalised mutual information; papers use different means of the entropies to normalise it."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters, average_method=average_method))


def ami(labels: np.ndarray, clusters: np.ndarray, average_method: str = "arithmetic") -> float:
    """Adjusted mutual information, which is corrected for chance."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(labels, clusters, average_method=average_method))
