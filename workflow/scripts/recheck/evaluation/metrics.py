"""Retrieval metrics for embeddings; all except mAP come from one pass over the neighbours.

For a query with R other items of its class:

- P@1 is whether the nearest item has its class;
- R@k is whether any of the k nearest items has its class;
- RP is the share of its class among the R nearest items;
- MAP@R is the mean over the first R places of (1 if the item there has its class, else 0) x (precision so far);
- mAP is the same sum over the whole ranking, (1/R) Σ_m m / (place of the m-th item of its class).

A user's metric is a function ``metric(embeddings, labels)`` of arrays (n, dimensions) and (n,) that returns a fraction,
named as ``module:function``. If the split has a gallery, the function also gets the gallery's embeddings and labels.

Each metric is the plain mean over queries. An item without others of its class (R = 0) is never a query, not even for
R@k, but it stays in the gallery as a distractor.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from recheck.blame import user_code, wrong_result
from recheck.errors import UserError
from recheck.evaluation import clustering
from recheck.evaluation.hyperbolic_search import searching
from recheck.evaluation.search import BLOCK
from recheck.names import AT_R, CLUSTERING, MODULE_ATTRIBUTE, RECALL, WHOLE, check_metrics
from recheck.parts import load

ARRAYS = ("embeddings", "labels", "gallery", "gallery_labels")


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
    curvature: float | None = None,
    includes_queries: bool = False,
) -> dict[str, float]:
    """Metrics by name, as fractions, in the given order.

    Embeddings are not normalised here. Without a gallery, each row searches all others. If the gallery
    ``includes_queries``, its first rows are the queries in the same order, and no query finds itself. NMI and AMI
    cluster only ``embeddings``, not the gallery, by a k-means with the given ``seed`` and the settings ``clusters``
    (:func:`recheck.evaluation.clustering.evaluate`). With a ``curvature``, neighbours are found by hyperbolic
    distance in the Poincaré ball.
    """
    check_metrics(metrics)
    labels, gallery_labels = np.asarray(labels), np.asarray(labels if gallery is None else gallery_labels)
    for rows, names in ((embeddings, labels), (embeddings if gallery is None else gallery, gallery_labels)):
        if names.shape != (len(rows),):
            raise UserError(f"Each of the {len(rows)} embeddings needs one label, found labels of shape {names.shape}.")
    by_users = [name for name in metrics if MODULE_ATTRIBUTE.fullmatch(name)]
    by_neighbours = [name for name in metrics if name not in CLUSTERING and name not in by_users]
    by_clusters = [name for name in metrics if name in CLUSTERING]
    values = {}
    if by_neighbours:
        queries_in_gallery = gallery is None or includes_queries
        searched = embeddings if gallery is None else gallery
        values |= _retrieval(
            embeddings, labels, by_neighbours, searched, gallery_labels, queries_in_gallery, device, block, curvature
        )
    if by_clusters:
        values |= clustering.evaluate(embeddings, labels, by_clusters, seed, clusters)
    of_gallery = () if gallery is None else (gallery, gallery_labels)
    values |= {name: _users(name, embeddings, labels, *of_gallery) for name in by_users}
    return {name: values[name] for name in metrics}


def _users(name: str, *arrays: np.ndarray) -> float:
    """Value of a user's metric."""
    function = load(name, "metric")
    with user_code("metric", function, **dict(zip(ARRAYS, arrays, strict=False))):
        value = function(*arrays)
    if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
        raise wrong_result("metric", function, value, "one finite number, such as a fraction of the queries")
    return float(value)


def _retrieval(
    embeddings: np.ndarray,
    labels: np.ndarray,
    metrics: Sequence[str],
    gallery: np.ndarray,
    gallery_labels: np.ndarray,
    queries_in_gallery: bool,
    device: str,
    block: int,
    curvature: float | None,
) -> dict[str, float]:
    """Metrics of queries that search a gallery; the queries may be its first rows (``queries_in_gallery``)."""
    _, codes = np.unique(np.concatenate((labels, gallery_labels)), return_inverse=True)
    labels, gallery_labels = codes[: len(labels)], codes[len(labels) :]
    sizes = np.bincount(gallery_labels, minlength=codes.max(initial=0) + 1)
    relevant = sizes[labels] - queries_in_gallery
    queries = np.flatnonzero(relevant > 0)
    if not len(queries) and not queries_in_gallery:
        raise UserError(
            f"None of the {len(labels)} queries has an image of its class in the gallery of {len(gallery)} images: "
            "queries and gallery must use the same class labels."
        )
    if not len(queries):
        raise UserError(
            f"None of the {len(labels)} images has another image of its class to retrieve: use classes with at least "
            "two images."
        )
    nearest_only = [name for name in metrics if name != WHOLE]
    depth = np.full(len(labels), max((_depth(name) for name in nearest_only), default=1))
    if any(name in AT_R for name in metrics):
        depth = np.maximum(depth, relevant)
    queries = queries[np.argsort(-depth[queries], kind="stable")]  # so that a large class affects only a few blocks

    search = searching(gallery, device, curvature)
    embeddings = np.asarray(embeddings)
    members = np.split(np.argsort(gallery_labels, kind="stable"), np.cumsum(sizes)[:-1])
    values = {name: np.empty(len(queries)) for name in metrics}
    usual = _usual(depth[queries])
    if queries_in_gallery and nearest_only and len(queries) > len(gallery) / 2:
        search.pair_up(usual)
    for chunk in _slices(depth[queries], usual, block):
        rows = queries[chunk]
        query_rows = rows if queries_in_gallery else None
        if nearest_only:
            query_embeddings = None if queries_in_gallery else embeddings[rows]
            hits = search.hits(
                query_embeddings, labels[rows], gallery_labels, int(depth[rows].max()), query_rows, block
            )
            for name in nearest_only:
                values[name][chunk] = _values(name, hits, relevant[rows])
        if WHOLE in values:
            rankings = search.places(embeddings[rows], [members[label] for label in labels[rows]], query_rows, block)
            values[WHOLE][chunk] = [_average_precision(of_query) for of_query in rankings]
    return {name: math.fsum(of_queries) / len(queries) for name, of_queries in values.items()}


def _average_precision(places: np.ndarray) -> float:
    """Average precision from the places of all items of the class in the whole ranking."""
    return math.fsum(np.arange(1, len(places) + 1) / np.sort(places)) / len(places)


def _depth(name: str) -> int:
    """Number of neighbours that a metric needs for every query."""
    recall = RECALL.fullmatch(name)
    return int(recall[1]) if recall else 1


def _usual(depth: np.ndarray) -> int:
    """Depth that covers all queries, or 95 % of them if a few large classes need more than twice as much."""
    most, usual = int(depth.max()), int(np.quantile(depth, 0.95, method="higher"))
    return most if most <= 2 * usual else usual


def _slices(depth: np.ndarray, usual: int, block: int) -> Iterator[slice]:
    """Slices of rows sorted by descending depth, each with at most ``block`` neighbours and 4096 rows.

    No slice mixes rows deeper than ``usual`` with others.
    """
    start, deep = 0, np.count_nonzero(depth > usual)
    while start < len(depth):
        stop = start + max(1, min(4096, block // int(depth[start])))
        stop = min(stop, deep if start < deep else len(depth))
        yield slice(start, stop)
        start = stop


def _values(name: str, hits: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Metric of each query. Sums start at the first place, so zeros after place R do not change any bits."""
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
