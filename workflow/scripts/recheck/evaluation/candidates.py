"""Candidates for the nearest rows, from float32 products in blocks that fit the cache. ``search`` orders them.

Each block of products is compared with the best candidates so far, and only better ones are processed. If every row
searches all others, the products are symmetric: a block off the diagonal serves its rows and its columns, so half of
the products are enough. Blocks on the diagonal come first: adjacent rows often belong to the same class, so later
blocks contain few better candidates.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import ModuleType

import numpy as np

SIDE = 768  # rows and columns of a block; smaller blocks multiply less efficiently
LARGE = 1536  # the same for large sets, where few blocks are on the diagonal
STRIP = (1024, 3072)  # queries and gallery rows of a block; such blocks have no diagonal
EVEN = 1e-6  # squared lengths with a smaller relative difference are treated as equal
LOW = 0 if sys.byteorder == "little" else 1  # index of the less significant half of a number
EMPTY = np.uint64(2**64 - 1)


@cache
def _libraries():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(count: int | None = None) -> Iterator[None]:
    """Make numpy's products use ``count`` threads, by default as many as faiss, so that one setting controls both."""
    with _libraries().limit(limits=count or threads(), user_api="blas"):
        yield


def threads() -> int:
    """Number of threads of a search: as many as faiss or, if it is not installed, numpy's products would use."""
    if faiss := library():
        return faiss.omp_get_max_threads()
    return max((blas["num_threads"] for blas in _libraries().select(user_api="blas").info()), default=1)


@cache
def library() -> ModuleType | None:
    """faiss, or None if it is not installed. It is imported late because it takes a second to load."""
    try:
        import faiss
    except ModuleNotFoundError:
        return None
    return faiss


class Pool:
    """Best ``count`` partners of each row in a block, as (squared distance, index) packed into one number.

    The pool has room for more than twice as many; the best are selected only when it is full. ``floor`` is the product
    that a new partner must exceed: the ``count``-th best at the last selection.
    """

    def __init__(self, keys: np.ndarray, count: int, level: np.float32):
        self.keys, self.count, self.level = keys, count, level
        self.flat = keys.reshape(-1)
        self.filled = np.zeros(len(keys), dtype=np.int64)
        self.floor = np.full(len(keys), -np.inf, dtype=np.float32)
        self.lock = threading.Lock()

    @staticmethod
    def room(count: int) -> int:
        return 2 * count + 24

    def add(self, row: np.ndarray, partner: np.ndarray, products: np.ndarray) -> None:
        """Add partners of rows; ``row`` must be sorted."""
        distance = np.maximum(2 * (self.level - products), np.float32(0))
        keys = np.empty((len(row), 2), dtype=np.uint32)
        keys[:, LOW], keys[:, 1 - LOW] = partner, distance.view(np.uint32)
        keys, width, flat = keys.view(np.uint64).ravel(), self.keys.shape[1], self.flat
        while len(row):
            counts = np.bincount(row, minlength=len(self.keys))
            first = np.arange(0, flat.size, width) + self.filled  # first free place in each row
            place = np.arange(len(row)) + np.repeat(first - np.cumsum(counts) + counts, counts)
            self.filled += counts
            if self.filled.max() <= width:
                flat[place] = keys
                return
            fits = place < (row + 1) * width
            flat[place[fits]] = keys[fits]
            self.settle()
            late = ~fits & (keys < self.keys[row, self.count - 1])
            row, keys = row[late], keys[late]

    def settle(self) -> None:
        """Keep the best ``count`` partners of each row and raise the floor."""
        self.keys.partition(self.count - 1, axis=1)
        self.keys[:, self.count :] = EMPTY
        np.minimum(self.filled, self.count, out=self.filled)
        last = self.keys[:, self.count - 1]
        distance = _distance(last)
        floor = np.where(distance == 0, np.inf, self.level - distance / 2)  # no partner is nearer than 0
        np.copyto(self.floor, floor, where=(last != EMPTY), casting="same_kind")


class Candidates:
    """Nearest rows of one gallery according to float32 products."""

    def __init__(self, gallery: np.ndarray, norms: np.ndarray, side: int | None = None):
        self.gallery, self.squares = gallery, norms**2
        self.side = side or (LARGE if len(gallery) >= 8 * LARGE else SIDE)
        self.strip = (side, 2 * side) if side else STRIP

    @property
    def most(self) -> int:
        """Largest number of candidates per row for which the first block can set a floor."""
        return self.side // 4

    def holds(self, norms: np.ndarray) -> bool:
        """Whether float32 can represent the distances to queries of these lengths."""
        reach = norms.max(initial=0.0) + np.sqrt(self.squares.max(initial=0.0))
        return bool(np.isfinite(rounding(np.float32, self.gallery.shape[1], reach)))

    def among_all(self, count: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Nearest other rows of each row: packed keys (rows, count), nearest first, and an error bound."""
        level, halves, bound = self._levels(self.squares)
        slices = _slices(len(self.gallery), self.side)
        keys = np.full((len(self.gallery), Pool.room(count)), EMPTY, dtype=np.uint64)
        pools = [Pool(keys[rows], count, level) for rows in slices]

        def block(pair: tuple[int, int], scratch: "Scratch") -> None:
            i, j = pair
            rows, columns = slices[i], slices[j]
            product = scratch.product(self.gallery[rows], self.gallery[columns])
            if halves is not None:
                product -= halves[rows, None]
                product -= halves[columns]
            if i == j:
                np.fill_diagonal(product, -np.inf)
                self._begin(pools[i], product)
                _add(pools[i], *scratch.above(pools[i].floor), columns.start)
                return
            mine, others = pools[i].floor.copy(), pools[j].floor.copy()
            row, column, products = scratch.above(mine, others)
            better = products > mine[row]
            _add(pools[i], row[better], column[better], products[better], columns.start)
            order = np.flatnonzero(products > others[column])
            order = order[np.argsort(column[order].astype(np.uint16), kind="stable")]
            _add(pools[j], column[order], row[order], products[order], rows.start)

        steps = range(len(slices))
        _share(block, [(i, i) for i in steps], threads, self.side**2)
        _share(block, [(i, i + step) for step in steps[1:] for i in steps[:-step]], threads, self.side**2)
        return _settled(keys, pools, count), bound

    def of(self, queries: np.ndarray, norms: np.ndarray, count: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Nearest gallery rows of each query, in the same form as ``among_all``."""
        squares = norms**2
        level, halves, bound = self._levels(squares)
        rows, columns = _slices(len(queries), self.strip[0]), _slices(len(self.gallery), self.strip[1])
        keys = np.full((len(queries), Pool.room(count)), EMPTY, dtype=np.uint64)
        pools = [Pool(keys[block], count, level) for block in rows]

        def strip(number: int, scratch: "Scratch") -> None:
            pool, mine = pools[number], queries[rows[number]]
            for block in columns:
                product = scratch.product(mine, self.gallery[block])
                if halves is not None:
                    product -= (squares[rows[number], None] / 2).astype(np.float32)
                    product -= halves[block]
                if block.start == 0:
                    self._begin(pool, product)
                _add(pool, *scratch.above(pool.floor), block.start)

        _share(strip, range(len(rows)), threads, (rows[0].stop + 1) * (columns[0].stop + 1))
        return _settled(keys, pools, count), bound

    def _levels(self, squares: np.ndarray) -> tuple[np.float32, np.ndarray | None, np.ndarray]:
        """Terms that turn products into half distances (one for all pairs, or one per row), and an error bound.

        A squared distance is |x|² + |y|² - 2xy. If all rows have the same length, as unit vectors do, |x|² + |y|² is
        the same for all pairs. The squares are computed in float64, so only the product has the error of a long sum.
        """
        least, most = min(self.squares.min(), squares.min()), max(self.squares.max(), squares.max())
        dimensions, reach = self.gallery.shape[1], np.sqrt(squares) + np.sqrt(self.squares.max())
        bound = 2 * rounding(np.float32, dimensions, np.sqrt(np.sqrt(squares * self.squares.max())))
        bound += rounding(np.float32, 0, reach)
        if most - least <= EVEN * most:
            return np.float32((least + most) / 2), None, bound + (most - least)
        return np.float32(0), (self.squares / 2).astype(np.float32), bound

    @staticmethod
    def _begin(pool: Pool, product: np.ndarray) -> None:
        """Set the floor of a pool from its first block, low enough to keep the block's ``count`` best columns.

        Only the best column of each group of columns is compared: the ``count``-th best of these is a lower bound for
        the ``count``-th best of all columns.
        """
        groups = product.shape[1] // max(1, product.shape[1] // (4 * pool.count))
        best = product[:, :groups].copy()
        for start in range(groups, product.shape[1] - groups + 1, groups):
            np.maximum(best, product[:, start : start + groups], out=best)
        if (spare := groups - pool.count) > 0:
            best.partition(spare, axis=1)
            pool.floor[:] = np.nextafter(best[:, spare], np.float32(-np.inf))


class Scratch:
    """Buffers of one thread for one block."""

    def __init__(self, size: int):
        self.numbers = np.empty(size, dtype=np.float32)
        self.flags, self.others = np.empty(size, dtype=bool), np.empty(size, dtype=bool)

    def product(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        self.current = self.numbers[: len(rows) * len(columns)].reshape(len(rows), len(columns))
        return np.matmul(rows, columns.T, out=self.current)

    def above(self, rows: np.ndarray, columns: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and product wherever the product exceeds the floor of its row or of its column."""
        size, width = self.current.size, self.current.shape[1]
        flags = self.flags[:size].reshape(self.current.shape)
        np.greater(self.current, rows[:, None], out=flags)
        if columns is not None:
            others = self.others[:size].reshape(self.current.shape)
            flags |= np.greater(self.current, columns, out=others)
        positions = np.flatnonzero(flags)
        row = (positions.astype(np.uint32) // np.uint32(width)).astype(np.intp)
        return row, positions - row * width, self.numbers[positions]


def _add(pool: Pool, row: np.ndarray, partner: np.ndarray, products: np.ndarray, start: int) -> None:
    with pool.lock:
        pool.add(row, partner + start, products)


def _settled(keys: np.ndarray, pools: Iterable[Pool], count: int) -> np.ndarray:
    for pool in pools:
        pool.settle()
    best = keys[:, :count].copy()
    best.sort(axis=1)
    return best


def unpacked(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances and indices of packed keys."""
    return _distance(keys), (keys & np.uint64(2**32 - 1)).astype(np.int64)


def _distance(keys: np.ndarray) -> np.ndarray:
    return (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)


def _slices(count: int, side: int) -> list[slice]:
    """As few slices of at most ``side`` as possible, of nearly equal size."""
    number = -(-count // side)
    edges = [count * step // number for step in range(number + 1)]
    return [slice(*edge) for edge in pairwise(edges)]


def _share(work: Callable, tasks: Iterable, threads: int, size: int) -> None:
    """Run tasks in order on several threads, with single-threaded products in each."""
    tasks, stopped = iter(list(tasks)), threading.Event()

    def take() -> None:
        scratch = Scratch(size)
        for task in tasks:
            if stopped.is_set():
                return
            work(task, scratch)

    with blas_threads(1):
        if threads == 1:
            return take()
        with ThreadPoolExecutor(threads) as pool:
            try:
                for done in [pool.submit(take) for _ in range(threads)]:
                    done.result()
            finally:
                stopped.set()  # after a signal or an error: skip the remaining tasks


def rounding(dtype: type, dimensions: int, reach: np.ndarray) -> np.ndarray:
    """Bound for the rounding error of a squared distance |x|^2 + |y|^2 - 2xy computed in ``dtype``.

    This is the classical bound for sums in any order, for |x| + |y| <= ``reach``, with some room for the few other
    operations and for the distance that defines the order, plus underflow. It is infinite if the sums could overflow.
    """
    limits = np.finfo(dtype)
    operations = dimensions + 32
    share = operations * float(limits.eps) / 2
    relative = share / (1 - share) if share < 1 else np.inf
    bound = relative * reach**2 + 4 * operations * float(limits.tiny)
    return np.where(reach**2 < float(limits.max) / 4, bound, np.inf)
