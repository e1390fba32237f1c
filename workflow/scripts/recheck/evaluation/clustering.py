"""How well k-means finds the classes again."""

from collections.abc import Sequence

import numpy as np

from recheck.evaluation.search import checked

ITERATIONS = 20


def evaluate(embeddings: np.ndarray, labels: np.ndarray, metrics: Sequence[str], seed: int = 0) -> dict[str, float]:
    """NMI and AMI of a k-means with as many clusters as there are classes; images alone in their class count too."""
    found = kmeans(embeddings, len(np.unique(labels)), seed)
    return {name: {"NMI": nmi, "AMI": ami}[name](labels, found) for name in metrics}


def kmeans(embeddings: np.ndarray, clusters: int, seed: int = 0) -> np.ndarray:
    """The cluster of each row: the same for the same seed. Always on CPU, so that the device does not matter."""
    import faiss  # loaded late for the same reason as in search

    embeddings, _ = checked(embeddings)
    means = faiss.Kmeans(
        embeddings.shape[1],
        clusters,
        niter=ITERATIONS,
        seed=seed,
        min_points_per_centroid=1,  # small classes are usual here; faiss would warn below 39 images a class
    )
    means.train(embeddings)
    return means.assign(embeddings)[1]


def nmi(labels: np.ndarray, clusters: np.ndarray, average_method: str = "arithmetic") -> float:
    """Normalised mutual information; papers differ in the mean that normalises it."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters, average_method=average_method))


def ami(labels: np.ndarray, clusters: np.ndarray, average_method: str = "arithmetic") -> float:
    """Mutual information corrected for chance."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(labels, clusters, average_method=average_method))
