"""Retrieval metrics of embeddings, all but mAP from one pass over the neighbours.

For a query with R other items of its class: P@1 is whether the nearest is of its class, RP the share of its class
among the R nearest, MAP@R the mean over the first R places of (right here) x (precision so far), R@k whether any of
the k nearest is of its class. mAP is the same sum as MAP@R over the whole ranking, so every item of the class counts:
(1/R) Σ_m m / (place of the m-th). Each is a plain mean over queries. Items alone in their class (R = 0) are no queries
in any of these, R@k included, but stay where others have to be told from them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from recheck.errors import UserError
from recheck.evaluation import clustering
from recheck.evaluation.search import BLOCK, Search
from recheck.names import AT_R, CLUSTERING, RECALL, WHOLE, check_metrics


def evaluate(
    embeddings: np.ndarray,
    labels: np.ndarray,
    metrics: Sequence[str],
    gallery: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
    device: str = "cpu",
    seed: int = 0,
    block: int = BLOCK,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """The named metrics, as fractions, in the given order.

    Embeddings are taken as they are: normalise before. Without a gallery each row is searched among the others.
    NMI and AMI cluster ``embeddings`` alone, by a k-means started from ``seed``; ``clusters`` are its settings
    (:func:`recheck.evaluation.clustering.evaluate`).
    """
    check_metrics(metrics)
    labels, places = np.asarray(labels), np.asarray(labels if gallery is None else gallery_labels)
    for rows, names in ((embeddings, labels), (embeddings if gallery is None else gallery, places)):
        if names.shape != (len(rows),):
            raise UserError(f"There are {len(rows)} embeddings but labels of shape {names.shape}: one each is needed.")
    by_neighbours = [name for name in metrics if name not in CLUSTERING]
    by_clusters = [name for name in metrics if name in CLUSTERING]
    values = {}
    if by_neighbours:
        values |= _retrieval(embeddings, labels, by_neighbours, gallery, places, device, block)
    if by_clusters:
        values |= clustering.evaluate(embeddings, labels, by_clusters, seed, clusters)
    return {name: values[name] for name in metrics}


def _retrieval(
    embeddings: np.ndarray,
    labels: np.ndarray,
    metrics: Sequence[str],
    gallery: np.ndarray | None,
    places: np.ndarray,
    device: str,
    block: int,
) -> dict[str, float]:
    _, codes = np.unique(np.concatenate((labels, places)), return_inverse=True)
    labels, places = codes[: len(labels)], codes[len(labels) :]
    sizes = np.bincount(places, minlength=codes.max(initial=0) + 1)
    relevant = sizes[labels] - (gallery is None)
    queries = np.flatnonzero(relevant > 0)
    if not len(queries):
        raise UserError(
            f"None of the {len(labels)} images has another of its class to be found: retrieval needs classes with at "
            "least two images."
        )
    nearest_only = [name for name in metrics if name != WHOLE]
    depth = np.full(len(labels), max((_depth(name) for name in nearest_only), default=1))
    if any(name in AT_R for name in metrics):
        depth = np.maximum(depth, relevant)
    queries = queries[np.argsort(-depth[queries], kind="stable")]  # so that one large class deepens few blocks only

    search = Search(embeddings if gallery is None else gallery, device)
    embeddings = np.asarray(embeddings)
    members = np.split(np.argsort(places, kind="stable"), np.cumsum(sizes)[:-1])
    values = {name: np.empty(len(queries)) for name in metrics}
    usual = _usual(depth[queries])
    if gallery is None and nearest_only and len(queries) > len(labels) / 2:
        search.pair_up(usual)
    for part in _parts(depth[queries], usual, block):
        rows = queries[part]
        own = rows if gallery is None else None
        if nearest_only:
            asking = None if gallery is None else embeddings[rows]
            hits = search.hits(asking, labels[rows], places, int(depth[rows].max()), own, block)
            for name in nearest_only:
                values[name][part] = _values(name, hits, relevant[rows])
        if WHOLE in values:
            found = search.places(embeddings[rows], [members[label] for label in labels[rows]], own, block)
            values[WHOLE][part] = [_average_precision(of_query) for of_query in found]
    return {name: math.fsum(of_queries) / len(queries) for name, of_queries in values.items()}


def _average_precision(places: np.ndarray) -> float:
    """From the places of all items of the class in the whole ranking."""
    return math.fsum(np.arange(1, len(places) + 1) / np.sort(places)) / len(places)


def _depth(name: str) -> int:
    """How many neighbours a metric needs, whatever the query."""
    recall = RECALL.fullmatch(name)
    return int(recall[1]) if recall else 1


def _usual(depth: np.ndarray) -> int:
    """The depth of nearly all queries: that of all, unless a few large classes need far more than the others."""
    most, usual = int(depth.max()), int(np.quantile(depth, 0.95, method="higher"))
    return most if most <= 2 * usual else usual


def _parts(depth: np.ndarray, usual: int, block: int) -> Iterator[slice]:
    """Slices of rows with falling depths, each of at most ``block`` neighbours and few enough embeddings to copy.

    None has both rows that are deeper than ``usual`` and rows that are not.
    """
    start, deep = 0, np.count_nonzero(depth > usual)
    while start < len(depth):
        stop = start + max(1, min(4096, block // int(depth[start])))
        stop = min(stop, deep if start < deep else len(depth))
        yield slice(start, stop)
        start = stop


def _values(name: str, hits: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """A metric of each query. Sums run from the first place on, so zeros behind place R do not change a bit."""
    if name == "P@1":
        return hits[:, 0]
    if name not in AT_R:
        return hits[:, : _depth(name)].any(axis=1)
    place = np.arange(1, hits.shape[1] + 1)
    hits = hits & (place <= relevant[:, None])
    if name == "RP":
        return hits.sum(axis=1) / relevant
    precision = np.cumsum(hits, axis=1) / place
    return np.cumsum(precision * hits, axis=1)[:, -1] / relevant
