"""Exact retrieval metrics of any embeddings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recheck.errors import MissingPackage, UserError, nearest
from recheck.evaluation.gpu_search import search_device
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import normalise as to_length_1

if TYPE_CHECKING:
    import torch

    Array = np.ndarray | torch.Tensor | Sequence[Any]

DEFAULT = ("P@1", "RP", "MAP@R")
# Names of pytorch-metric-learning's AccuracyCalculator → ours.
LIBRARY = {
    "precision_at_1": "P@1",
    "r_precision": "RP",
    "mean_average_precision_at_r": "MAP@R",
    "mean_average_precision": "mAP",
}
DEVICES = ("cpu", "cuda", "mps")


def metrics(
    embeddings: "Array",
    labels: "Array",
    *,
    gallery: "Array | None" = None,
    gallery_labels: "Array | None" = None,
    gallery_includes_queries: bool = False,
    metrics: Sequence[str] = DEFAULT,
    normalise: bool = False,
    device: "str | torch.device | None" = None,
    seed: int = 0,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Retrieval and clustering metrics of embeddings, as fractions from 0 to 1, in the order of ``metrics``.

    Neighbours are exact: they are ordered by Euclidean distance, with ties broken by the smaller index, whatever the
    device, the library or the number of threads. The search works in blocks, so memory does not grow with queries x
    gallery. A query without another item of its class is left out of the mean, but stays in the gallery.

    The values equal those of pytorch-metric-learning's ``AccuracyCalculator`` with ``k="max_bin_count"``, and for mAP
    with ``k=None``. Only NMI and AMI can differ, because they depend on the k-means. As in ``AccuracyCalculator`` with
    faiss, embeddings are rounded to float32 first.

    Args:
        embeddings: one row per query, (queries, dimensions): a numpy array, a torch tensor on any device, or lists.
        labels: one label per query: numbers or strings.
        gallery: rows to search; without it, each query searches all other queries.
        gallery_labels: one label per row of the gallery.
        gallery_includes_queries: the first rows of the gallery are the queries, in the same order; no query finds
            itself (``ref_includes_query`` of AccuracyCalculator).
        metrics: any of ``P@1``, ``RP`` (R-precision), ``MAP@R``, ``mAP``, ``R@k`` for any k of at least 1, ``NMI`` and
            ``AMI``. AccuracyCalculator's names, such as ``precision_at_1``, are accepted too; only its
            ``mean_reciprocal_rank`` is not available.
        normalise: scale rows to length 1 first, so that neighbours are ordered by cosine similarity.
        device: ``cpu`` or ``cuda`` (also ``cuda:1``) for the search; by default the device of ``embeddings``. It does
            not change the result. A GPU is used only for large searches, and only if faiss can use it.
        seed: seed of the k-means for NMI and AMI.
        clusters: settings of NMI and AMI: ``kmeans`` (``faiss`` or ``scikit-learn``) and ``average`` (``arithmetic`` or
            ``geometric``).

    Examples:
        >>> import numpy as np, recheck
        >>> embeddings = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.3]])
        >>> recheck.metrics(embeddings, [0, 0, 1, 1], metrics=["P@1", "MAP@R", "R@2"])
        {'P@1': 1.0, 'MAP@R': 1.0, 'R@2': 1.0}

    Raises:
        UserError: if shapes do not match, a metric is unknown, an embedding is not finite, or no query has a match.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise UserError(f"'metrics' must be a list of names, such as ['P@1'], found {metrics!r}.")
    metrics = list(metrics)
    if wrong := [name for name in metrics if not isinstance(name, str)]:
        raise UserError(f"'metrics' must be a list of names, such as ['P@1'], found the entry {wrong[0]!r}.")
    if (gallery is None) != (gallery_labels is None):
        missing, given = ("gallery", "gallery_labels") if gallery is None else ("gallery_labels", "gallery")
        raise UserError(f"'{given}' is given without '{missing}': pass both, or neither.")
    if gallery_includes_queries and gallery is None:
        raise UserError("'gallery_includes_queries' needs a 'gallery': without one, queries search each other anyway.")
    wanted = _device(embeddings, device)
    queries, query_labels = _rows(embeddings, "embeddings", normalise), _labels(labels, "labels")
    searched = None if gallery is None else _rows(gallery, "gallery", normalise)
    searched_labels = None if gallery is None else _labels(gallery_labels, "gallery_labels")
    if searched_labels is not None and _are_words(searched_labels) != _are_words(query_labels):
        words, numbers = ("gallery_labels", "labels") if _are_words(searched_labels) else ("labels", "gallery_labels")
        raise UserError(f"'{words}' are strings, but '{numbers}' are numbers: both must be of the same kind.")
    if searched is not None and searched.shape[1] != queries.shape[1]:
        raise UserError(
            f"'gallery' has {searched.shape[1]} dimensions, 'embeddings' has {queries.shape[1]}: both "
            "must have the same number."
        )
    if gallery_includes_queries and not np.array_equal(searched[: len(queries)], queries):
        raise UserError(
            f"'gallery_includes_queries' needs the {len(queries)} queries as the first rows of 'gallery', but these "
            "rows differ: put the queries first."
        )
    sizes = len(queries), len(queries if searched is None else searched), queries.shape[1]
    try:
        values = evaluate(
            queries,
            query_labels,
            list(dict.fromkeys(LIBRARY.get(name, name) for name in metrics)),
            searched,
            searched_labels,
            device=wanted if search_device(wanted.partition(":")[0], *sizes) == "cuda" else "cpu",
            seed=seed,
            clusters=clusters,
            includes_queries=gallery_includes_queries,
        )
    except ModuleNotFoundError as error:  # faiss or scikit-learn
        raise MissingPackage(error, "A search on a GPU, NMI or AMI", "train") from error
    return {name: values[LIBRARY.get(name, name)] for name in metrics}


def _device(embeddings: "Array", device: "str | torch.device | None") -> str:
    """Name of the device to search on: the given one, else that of the embeddings, else ``cpu``."""
    if device is None:
        device = str(getattr(embeddings, "device", "cpu"))
        return device if device.partition(":")[0] in DEVICES else "cpu"
    if str(device).partition(":")[0] not in DEVICES:
        raise UserError(f"Unknown device '{device}'; {nearest(str(device), DEVICES)}.")
    return str(device)


def _array(values: "Array", name: str) -> np.ndarray:
    """The values of an array, a tensor or lists as a numpy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.float() if values.is_floating_point() else values).numpy()
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition(". ")[0].rstrip(".")
        raise UserError(
            f"'{name}' cannot be read as one array ({reason}): pass a numpy array, a torch tensor, or lists of equal "
            "length."
        ) from error


def _rows(values: "Array", name: str, normalise: bool) -> np.ndarray:
    """Embeddings as finite float32 numbers of shape (rows, dimensions)."""
    rows = _array(values, name)
    if rows.ndim and not len(rows):
        raise UserError(f"'{name}' has no rows: pass at least one embedding.")
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype.kind not in "biuf":
        raise UserError(f"'{name}' must be numbers of shape (rows, dimensions), found {rows.dtype} {rows.shape}.")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))
    if len(bad):
        raise UserError(
            f"'{name}' contains NaN or infinity in float32 in {len(bad)} of {len(rows)} rows (the first is row "
            f"{bad[0]}): all embeddings must be finite."
        )
    return to_length_1(rows) if normalise else rows


def _labels(values: "Array", name: str) -> np.ndarray:
    """Labels as numbers or strings."""
    labels = _array(values, name)
    if labels.dtype.kind == "O":  # such as a column of a table
        labels = _array(labels.tolist(), name)
    if labels.dtype.kind not in "biufUS":
        raise UserError(f"'{name}' must be numbers or strings, found {labels.dtype}.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise UserError(f"'{name}' contains NaN, which is not a class: give every row a label.")
    return labels


def _are_words(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US"
