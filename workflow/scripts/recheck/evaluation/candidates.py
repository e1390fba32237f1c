"""The likely nearest rows, from float32 products in blocks that stay in the cache. ``search`` puts them in order.

A block of products is compared with what each row has found so far, and only what is better is looked at. If every row
is searched among all others, the products are symmetric: a block beside the diagonal serves its rows and its columns,
and half of the products is enough. The blocks on the diagonal come first: rows next to each other are often of one
class, so that little of what follows is better.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import numpy as np

SIDE = 768  # rows and columns of a block; smaller ones are multiplied less efficiently
LARGE = 1536  # the same where there are so many rows that the diagonal does not matter
STRIP = (1024, 3072)  # queries and rows of a gallery; nothing is wasted on a diagonal there
EVEN = 1e-6  # squared lengths that differ by a smaller share are taken as equal
LOW = 0 if sys.byteorder == "little" else 1  # the less significant half of a number
EMPTY = np.uint64(2**64 - 1)


@cache
def _libraries():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(count: int | None = None) -> Iterator[None]:
    """Products by numpy use as many threads as faiss may, so that a job has one setting; or ``count``."""
    import faiss

    with _libraries().limit(limits=count or faiss.omp_get_max_threads(), user_api="blas"):
        yield


class Pool:
    """The ``count`` best partners of each of some rows, by (squared distance, index) packed into one number.

    There is room for as many again, and only when that is used up are the best chosen. ``floor`` then is the product
    that a partner must exceed: the ``count``-th best so far.
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
        """Partners of rows, in the order of rows."""
        distance = np.maximum(2 * (self.level - products), np.float32(0))
        keys = np.empty((len(row), 2), dtype=np.uint32)
        keys[:, LOW], keys[:, 1 - LOW] = partner, distance.view(np.uint32)
        keys, width, flat = keys.view(np.uint64).ravel(), self.keys.shape[1], self.flat
        while len(row):
            counts = np.bincount(row, minlength=len(self.keys))
            first = np.arange(0, flat.size, width) + self.filled  # the first place that is free in each row
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
        """Keep the best."""
        self.keys.partition(self.count - 1, axis=1)
        self.keys[:, self.count :] = EMPTY
        np.minimum(self.filled, self.count, out=self.filled)
        last = self.keys[:, self.count - 1]
        distance = _distance(last)
        floor = np.where(distance == 0, np.inf, self.level - distance / 2)  # nothing is nearer than 0
        np.copyto(self.floor, floor, where=(last != EMPTY), casting="same_kind")


class Candidates:
    """The nearest rows of one gallery, as far as float32 products tell."""

    def __init__(self, gallery: np.ndarray, norms: np.ndarray, side: int | None = None):
        self.gallery, self.squares = gallery, norms**2
        self.side = side or (LARGE if len(gallery) >= 8 * LARGE else SIDE)
        self.strip = (side, 2 * side) if side else STRIP

    @property
    def most(self) -> int:
        """Candidates of a row that a single block can tell something about."""
        return self.side // 4

    def holds(self, norms: np.ndarray) -> bool:
        """Whether float32 can hold the distances to queries of these lengths."""
        reach = norms.max(initial=0.0) + np.sqrt(self.squares.max(initial=0.0))
        return bool(np.isfinite(rounding(np.float32, self.gallery.shape[1], reach)))

    def among_all(self, count: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Of each row the nearest others: packed keys (rows, count), nearest first, and how far they can be off."""
        level, halves, bound = self._levels(self.squares)
        parts = _parts(len(self.gallery), self.side)
        keys = np.full((len(self.gallery), Pool.room(count)), EMPTY, dtype=np.uint64)
        pools = [Pool(keys[part], count, level) for part in parts]

        def block(pair: tuple[int, int], scratch: "Scratch") -> None:
            i, j = pair
            rows, columns = parts[i], parts[j]
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

        steps = range(len(parts))
        _share(block, [(i, i) for i in steps], threads, self.side**2)
        _share(block, [(i, i + step) for step in steps[1:] for i in steps[:-step]], threads, self.side**2)
        return _settled(keys, pools, count), bound

    def of(self, queries: np.ndarray, norms: np.ndarray, count: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Of each query the nearest rows, in the same form."""
        squares = norms**2
        level, halves, bound = self._levels(squares)
        parts, columns = _parts(len(queries), self.strip[0]), _parts(len(self.gallery), self.strip[1])
        keys = np.full((len(queries), Pool.room(count)), EMPTY, dtype=np.uint64)
        pools = [Pool(keys[part], count, level) for part in parts]

        def strip(number: int, scratch: "Scratch") -> None:
            pool, mine = pools[number], queries[parts[number]]
            for part in columns:
                product = scratch.product(mine, self.gallery[part])
                if halves is not None:
                    product -= (squares[parts[number], None] / 2).astype(np.float32)
                    product -= halves[part]
                if part.start == 0:
                    self._begin(pool, product)
                _add(pool, *scratch.above(pool.floor), part.start)

        _share(strip, range(len(parts)), threads, (parts[0].stop + 1) * (columns[0].stop + 1))
        return _settled(keys, pools, count), bound

    def _levels(self, squares: np.ndarray) -> tuple[np.float32, np.ndarray | None, np.ndarray]:
        """What turns products into half distances, for all pairs or for each row, and how far distances can be off.

        A squared distance is |x|² + |y|² - 2xy. If all rows are of one length, as unit vectors are, the first two are
        the same number for all pairs. Squares are exact, so only the product is a long sum.
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
        """What the first block of a pool says about the rest; its own ``count`` best have to pass too.

        Columns are put into groups, of which only the best are compared: as many of these as of all columns are at
        least as good as the ``count``-th of them.
        """
        groups = product.shape[1] // max(1, product.shape[1] // (4 * pool.count))
        best = product[:, :groups].copy()
        for start in range(groups, product.shape[1] - groups + 1, groups):
            np.maximum(best, product[:, start : start + groups], out=best)
        if (spare := groups - pool.count) > 0:
            best.partition(spare, axis=1)
            pool.floor[:] = np.nextafter(best[:, spare], np.float32(-np.inf))


class Scratch:
    """Memory of one thread for one block."""

    def __init__(self, size: int):
        self.numbers = np.empty(size, dtype=np.float32)
        self.flags, self.others = np.empty(size, dtype=bool), np.empty(size, dtype=bool)

    def product(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        self.current = self.numbers[: len(rows) * len(columns)].reshape(len(rows), len(columns))
        return np.matmul(rows, columns.T, out=self.current)

    def above(self, rows: np.ndarray, columns: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the product is more than the floor of its row, or of its column: both, and the product."""
        size, width = self.current.size, self.current.shape[1]
        flags = self.flags[:size].reshape(self.current.shape)
        np.greater(self.current, rows[:, None], out=flags)
        if columns is not None:
            others = self.others[:size].reshape(self.current.shape)
            flags |= np.greater(self.current, columns, out=others)
        found = np.flatnonzero(flags)
        row = (found.astype(np.uint32) // np.uint32(width)).astype(np.intp)
        return row, found - row * width, self.numbers[found]


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
    """Squared distances and indices."""
    return _distance(keys), (keys & np.uint64(2**32 - 1)).astype(np.int64)


def _distance(keys: np.ndarray) -> np.ndarray:
    return (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)


def _parts(count: int, side: int) -> list[slice]:
    """As few parts as can be, of nearly equal size."""
    number = -(-count // side)
    edges = [count * step // number for step in range(number + 1)]
    return [slice(*edge) for edge in pairwise(edges)]


def _share(work: Callable, tasks: Iterable, threads: int, size: int) -> None:
    """Tasks in their order, by threads that each multiply with one."""
    tasks = iter(list(tasks))

    def take() -> None:
        scratch = Scratch(size)
        for task in tasks:
            work(task, scratch)

    with blas_threads(1):
        if threads == 1:
            return take()
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(take) for _ in range(threads)]:
                done.result()


def rounding(dtype: type, dimensions: int, reach: np.ndarray) -> np.ndarray:
    """How far a squared distance |x|^2 + |y|^2 - 2xy in ``dtype`` can be from the true one.

    The classical bound for sums in any order, for |x| + |y| <= ``reach``, with some room for the few operations
    around the sums and for the distance that defines the order; plus underflow, and no bound at all where the sums
    could overflow.
    """
    limits = np.finfo(dtype)
    operations = dimensions + 32
    share = operations * float(limits.eps) / 2
    relative = share / (1 - share) if share < 1 else np.inf
    bound = relative * reach**2 + 4 * operations * float(limits.tiny)
    return np.where(reach**2 < float(limits.max) / 4, bound, np.inf)
