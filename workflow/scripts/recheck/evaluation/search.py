"""Exact nearest neighbours whose order does not depend on device, library, threads or block size.

The order is *defined* by the squared Euclidean distance of the float32 vectors, computed in float64 by ``_distances``;
ties go to the smaller index. Computing all distances that way would be slow, so a float32 search proposes candidates,
and a bound on its rounding error shows which candidates are certainly in the right order:

- two adjacent candidates that are further apart than twice the bound are in the right order;
- all others form groups, and only these are ordered by their float64 distances;
- such a gap after the k-th place proves that no other row belongs among the first k.

On a CPU and for many rows, candidates come from ``candidates``, otherwise from faiss. Both give the same order. Where
faiss is not installed, the float64 comparison below replaces it, with the same order again.

Queries without that proof (many duplicates, nearly collapsed embeddings) are compared with the whole gallery in
float64. Memory grows with the block size, not with queries x gallery.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from recheck.errors import UserError
from recheck.evaluation.candidates import Candidates, blas_threads, library, rounding, threads, unpacked
from recheck.evaluation.gpu_search import MOST, GpuSearch

SPARE = 8  # candidates beyond k in which to look for a gap
BLOCK = 1 << 20  # numbers in a block of candidates
ORDER = 1 << 16  # numbers in a block while ordering, small enough for the cache
MANY = 1024  # number of rows from which our products are faster than faiss
SCAN = 1 << 22  # float64 numbers in a block of a full scan


class Search:
    """Search for the nearest rows of one gallery."""

    def __init__(self, gallery: np.ndarray, device: str = "cpu"):
        self.gallery, self.norms = checked(gallery)
        self.reach = self.norms.max(initial=0.0)
        self.device = str(device)
        self._pairs: tuple[np.ndarray, np.ndarray] | None = None

    def pair_up(self, k: int) -> None:
        """Prepare for queries that are most of the gallery's rows, with up to k neighbours each.

        If it is faster, all candidates are found at once: distances are symmetric, so half of the products are enough.
        """
        count = min(k + SPARE, len(self.gallery) - 1)
        if self._by_products(self.norms, count):
            self._pairs = self._products.among_all(count, threads())

    def nearest(
        self, queries: np.ndarray | None, k: int, query_rows: np.ndarray | None = None, block: int = BLOCK
    ) -> np.ndarray:
        """Gallery indices (queries, k) of the nearest rows, nearest first.

        ``query_rows`` has the gallery row of each query itself; that row, but not its duplicates, is left out. Without
        ``queries``, these rows are the queries. There are fewer than k columns if the gallery is too small.
        """
        return self._search(queries, k, query_rows, block)

    def hits(
        self,
        queries: np.ndarray | None,
        wanted: np.ndarray,
        labels: np.ndarray,
        k: int,
        query_rows: np.ndarray | None = None,
        block: int = BLOCK,
    ) -> np.ndarray:
        """Whether each of the k nearest rows has its query's ``wanted`` label: ``labels[nearest] == wanted``.

        This is faster than ``nearest``, because a group of rows that are all right or all wrong need not be ordered.
        """
        return self._search(queries, k, query_rows, block, lambda chunk, index: labels[index] == wanted[chunk, None])

    def _search(
        self,
        queries: np.ndarray | None,
        k: int,
        query_rows: np.ndarray | None,
        block: int,
        right: Callable[[slice, np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        if queries is None:
            queries, norms, rows = self.gallery, self.norms, query_rows
        else:
            queries, norms = checked(queries)
            rows = np.arange(len(queries))
        if queries.shape[1] != self.gallery.shape[1]:
            raise ValueError(f"Queries have {queries.shape[1]} dimensions, the gallery has {self.gallery.shape[1]}.")
        k = min(k, len(self.gallery) - (query_rows is not None))
        result = np.empty((len(rows), max(k, 0)), dtype=np.int64 if right is None else bool)
        if result.size:
            with blas_threads():
                for chunk, distance, index, bound in self._proposals(queries, norms, rows, k, query_rows, block):
                    excluded = None if query_rows is None else query_rows[chunk]
                    hits = None if right is None else right(chunk, index)
                    index = self._ordered(queries, rows[chunk], k, excluded, distance, index, bound, hits)
                    result[chunk] = index if right is None else right(chunk, index)
        return result

    def _proposals(
        self,
        queries: np.ndarray,
        norms: np.ndarray,
        rows: np.ndarray,
        k: int,
        query_rows: np.ndarray | None,
        block: int,
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Slices of ``rows`` with their candidates: float32 squared distances, indices, and error bounds."""
        few = min(block, ORDER) // (k + SPARE)
        if (
            queries is self.gallery
            and self._pairs is not None
            and min(k + SPARE, len(queries) - 1) <= self._pairs[0].shape[1]
        ):
            keys, bound = self._pairs
            for chunk in blocks(len(rows), few):
                yield chunk, *unpacked(keys[rows[chunk], : k + SPARE]), bound[rows[chunk]]
            return
        count = min(k + SPARE + (query_rows is not None), len(self.gallery))
        for many in blocks(len(rows), block // (k + SPARE)):
            distance, index, bound = self._candidates(queries[rows[many]], norms[rows[many]], count)
            if query_rows is not None:
                distance, index = _without(query_rows[many], distance, index)
            for chunk in blocks(len(index), few):
                yield (
                    slice(many.start + chunk.start, many.start + chunk.stop),
                    distance[chunk],
                    index[chunk],
                    bound[chunk],
                )

    def _ordered(
        self,
        queries: np.ndarray,
        rows: np.ndarray,
        k: int,
        query_rows: np.ndarray | None,
        distance: np.ndarray,
        index: np.ndarray,
        bound: np.ndarray,
        hits: np.ndarray | None,
    ) -> np.ndarray:
        """k nearest candidates of some ``rows`` of the queries, in the defined order.

        ``hits`` marks right candidates; if given, only groups with both right and wrong candidates are ordered.
        """
        gap = 2 * bound * (1 + 1e-6)  # the difference of two float32 is rounded too
        close = np.diff(distance, axis=1) <= gap.astype(np.float32)[:, None]
        complete = index.shape[1] == len(self.gallery) - (query_rows is not None)
        proven = np.isfinite(bound) & (complete | ~close[:, k - 1 :].all(axis=1))
        close &= proven[:, None]
        close[:, k - 1 :] &= np.logical_and.accumulate(close[:, k - 1 :], axis=1)  # up to the gap after the k-th place

        place, group = _groups(close, hits)
        rivals = index.take(place)
        exact = self._distances(queries, rows[place // index.shape[1]], rivals)
        np.put(index, place, rivals[np.lexsort((rivals, exact, group))])
        result = index[:, :k]
        unsure = np.flatnonzero(~proven)
        if len(unsure):
            result[unsure] = self._scan(queries[rows[unsure]], k, None if query_rows is None else query_rows[unsure])
        return result

    def _candidates(
        self, queries: np.ndarray, norms: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Float32 squared distances and indices of the nearest rows, nearest first, and error bounds."""
        if self._by_products(norms, count):
            keys, bound = self._products.of(queries, norms, count, threads())
            return *unpacked(keys), bound
        if (faiss := library()) is None:
            # No candidate is proven, so all queries are compared with the whole gallery.
            shape = (len(queries), count)
            rows = np.broadcast_to(np.arange(count), shape)
            return np.zeros(shape, np.float32), rows.copy(), np.full(len(queries), np.inf)
        bound = rounding(np.float32, queries.shape[1], norms + self.reach)
        on_gpu = self.device.startswith("cuda")
        if on_gpu and count > MOST:
            warnings.warn(
                f"faiss can select at most {MOST} neighbours on a GPU. Searching larger classes on the CPU.",
                stacklevel=2,
            )
        elif on_gpu:
            if (nearest := self._gpu.nearest(queries, count)) is not None:
                return *nearest, bound
            self.device = "cpu"
        return *faiss.knn(queries, self.gallery, count), bound

    def _by_products(self, norms: np.ndarray, count: int) -> bool:
        """Whether our products are faster than faiss: on a CPU, for many queries and few neighbours."""
        if self.device.startswith("cuda") or min(len(self.gallery), len(norms)) < MANY:
            return False
        return count <= self._products.most and self._products.holds(norms)

    @cached_property
    def _gpu(self) -> GpuSearch:
        return GpuSearch(self.gallery, self.device)

    @cached_property
    def _products(self) -> Candidates:
        return Candidates(self.gallery, self.norms)

    @cached_property
    def _copy_of(self) -> np.ndarray:
        """First row with the same bytes, for every gallery row, so that copies are compared only once."""
        rows = self.gallery.view(np.dtype((np.void, self.gallery.itemsize * self.gallery.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        return first[inverse]

    def _scan(self, queries: np.ndarray, k: int, query_rows: np.ndarray | None) -> np.ndarray:
        """k nearest rows from a float64 product with the whole gallery."""
        result = np.empty((len(queries), k), dtype=np.int64)
        for chunk in blocks(len(queries), SCAN // len(self.gallery)):
            distance, bound = self._all_distances(queries[chunk], None if query_rows is None else query_rows[chunk])
            limit = np.partition(distance, k - 1, axis=1)[:, k - 1] + 2 * bound
            for row, number in enumerate(range(chunk.start, chunk.stop)):
                index = np.flatnonzero(distance[row] <= limit[row])
                exact = self._exact(queries, number, index)
                result[number] = index[np.lexsort((index, exact))[:k]]
        return result

    def places(
        self,
        queries: np.ndarray,
        targets: Sequence[np.ndarray],
        query_rows: np.ndarray | None = None,
        block: int = BLOCK,
    ) -> Iterator[np.ndarray]:
        """Yield for each query the places of its ``targets`` (gallery indices) in the whole ranking, counted from 1.

        The row of a query in ``query_rows`` has no place and is never a target. The gallery is not sorted in the
        defined order: a target's place is one more than the number of nearer rows, counted in float64. Rows too close
        to a target to decide are compared by the distance that defines the order.
        """
        queries, _ = checked(queries)
        for chunk in blocks(len(queries), 4 * block // len(self.gallery)):
            distance, bound = self._all_distances(queries[chunk], None if query_rows is None else query_rows[chunk])
            ordered = np.sort(distance, axis=1)
            for row, number in enumerate(range(chunk.start, chunk.stop)):
                wanted = (
                    targets[number] if query_rows is None else targets[number][targets[number] != query_rows[number]]
                )
                yield self._places(queries, number, wanted, distance[row], ordered[row], 2 * bound[row])

    def _places(
        self,
        queries: np.ndarray,
        number: int,
        targets: np.ndarray,
        distance: np.ndarray,
        ordered: np.ndarray,
        margin: float,
    ) -> np.ndarray:
        low, high = distance[targets] - margin, distance[targets] + margin
        nearer = np.searchsorted(ordered, low, side="left")
        unsure = np.flatnonzero(np.searchsorted(ordered, high, side="right") - nearer > 1)
        if len(unsure):
            # rows inside any interval: more intervals have begun than ended before them
            begun = np.searchsorted(np.sort(low[unsure]), distance, side="right")
            index = np.flatnonzero(begun > np.searchsorted(np.sort(high[unsure]), distance, side="left"))
            order = np.lexsort((index, self._exact(queries, number, index)))
            place = np.empty(len(index), dtype=np.int64)
            place[order] = np.arange(len(index))
            among = np.searchsorted(np.sort(distance[index]), low[unsure], side="left")
            nearer[unsure] += place[np.searchsorted(index, targets[unsure])] - among
        return nearer + 1

    @cached_property
    def _centre(self) -> np.ndarray:
        return self.gallery.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)

    def _all_distances(self, queries: np.ndarray, query_rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances to the whole gallery by float64 products, and an error bound for each query.

        Vectors are centred at the gallery's mean, so that a small cloud far from the origin keeps its digits. The
        distance of a query to itself is set to infinity.
        """
        near = queries - self._centre
        squares = np.einsum("ij,ij->i", near, near)
        distance = np.empty((len(near), len(self.gallery)))
        reach = 0.0
        for columns in blocks(len(self.gallery), SCAN // self.gallery.shape[1]):
            far = self.gallery[columns] - self._centre
            far_squares = np.einsum("ij,ij->i", far, far)
            distance[:, columns] = squares[:, None] + far_squares - 2 * (near @ far.T)
            reach = max(reach, far_squares.max() ** 0.5)
        if query_rows is not None:
            distance[np.arange(len(near)), query_rows] = np.inf
        return distance, rounding(np.float64, near.shape[1], np.sqrt(squares) + reach)

    def _exact(self, queries: np.ndarray, number: int, index: np.ndarray) -> np.ndarray:
        """Distances that define the order, from one query to some gallery rows; copies are computed only once."""
        distinct, inverse = np.unique(self._copy_of[index], return_inverse=True)
        return self._distances(queries, np.full(len(distinct), number), distinct)[inverse]

    def _distances(self, queries: np.ndarray, row: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Distances that define the order, for pairs of a query and a gallery row.

        Terms are summed by halves in a fixed order, so that the result does not depend on instruction set or threads.
        """
        result = np.empty(len(row))
        for chunk in blocks(len(row), (1 << 17) // queries.shape[1]):
            terms = queries[row[chunk]].astype(np.float64)
            terms -= self.gallery[index[chunk]]
            terms *= terms
            result[chunk] = sum_by_halves(terms)
        return result


def sum_by_halves(terms: np.ndarray) -> np.ndarray:
    """Sum of each row in a fixed order; ``terms`` is overwritten."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0]


def neighbours(queries: np.ndarray, k: int, gallery: np.ndarray | None = None, device: str = "cpu") -> np.ndarray:
    """Indices (n, at most k) of the nearest gallery rows, or without a gallery, of the nearest other queries."""
    search = Search(queries if gallery is None else gallery, device)
    if gallery is not None:
        return search.nearest(queries, k)
    search.pair_up(k)
    return search.nearest(None, k, np.arange(len(queries)))


def checked(embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings as contiguous float32 with their float64 norms; NaN and infinity are refused."""
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
    if embeddings.ndim != 2 or not embeddings.shape[1]:
        raise UserError(f"Embeddings must have shape (rows, dimensions), found {embeddings.shape}.")
    squares = np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.float64)  # float64 cannot overflow here
    bad = np.flatnonzero(~np.isfinite(squares))
    if len(bad):
        raise UserError(
            f"Embeddings with NaN or infinity: {len(bad)} of {len(embeddings)} (the first is row {bad[0]}). The model "
            "has diverged: lower its learning rate and train it again."
        )
    return embeddings, np.sqrt(squares)


def blocks(count: int, size: int) -> Iterator[slice]:
    size = max(1, size)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _groups(close: np.ndarray, hits: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Flat positions of the candidates to order, and the group of each.

    ``close`` (rows, places - 1) marks adjacent places whose order is uncertain. If ``hits`` (rows, places) is given,
    groups that are all right or all wrong are left out.
    """
    width = close.shape[1]
    pair = np.flatnonzero(close)
    place = pair + pair // max(width, 1)  # flat position of the first of the two
    first = np.ones(len(pair), dtype=bool)
    first[1:] = np.diff(place) != 1
    group = np.cumsum(first) - 1
    if hits is not None:
        hits = hits.ravel()
        mixed = np.bincount(group, hits[place] != hits[place + 1]) > 0
        keep = mixed[group]
        place, first, group = place[keep], first[keep], group[keep]
    both = np.concatenate((place[first], place + 1)), np.concatenate((group[first], group))
    order = np.argsort(both[0])
    return both[0][order], both[1][order]


def _without(query_rows: np.ndarray, distance: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates without the query itself, or without the farthest one if duplicates have crowded the query out."""
    last = index.shape[1] - 1
    hit = index == query_rows[:, None]
    drop = np.where(hit.any(axis=1), hit.argmax(axis=1), last)
    keep = np.arange(last) + (np.arange(last) >= drop[:, None])
    return np.take_along_axis(distance, keep, axis=1), np.take_along_axis(index, keep, axis=1)
