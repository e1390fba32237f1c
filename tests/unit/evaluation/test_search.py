"""Neighbours, compared with a slow search in cases that are hard because of rounding, ties and duplicates."""

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recheck.errors import UserError
from recheck.evaluation import search
from recheck.evaluation.search import Search, neighbours
from support.datasets.gaussian import gaussian


def brute_force(queries, k, gallery=None):
    """One query after another, in float64, sorted by (distance, index)."""
    rows = []
    places = queries if gallery is None else gallery
    for i, query in enumerate(queries.astype(np.float64)):
        others = [j for j in range(len(places)) if gallery is not None or j != i]
        distance = {j: float(((query - places[j].astype(np.float64)) ** 2).sum()) for j in others}
        rows.append(sorted(others, key=lambda j: (distance[j], j))[:k])
    return np.array(rows, dtype=np.int64).reshape(len(queries), -1)


def with_duplicates(n, d, distinct, seed=0):
    return gaussian(distinct, d, seed)[np.random.default_rng(seed + 1).integers(distinct, size=n)]


CLOUDS = {
    "ordinary": gaussian(150, 33),
    "one dimension": gaussian(150, 1),
    "far from the origin": gaussian(150, 33) * np.float32(1e-3) + 1,
    "almost collapsed": gaussian(150, 33) * np.float32(3e-7) + 1,
    "collapsed": np.ones((150, 33), np.float32),
    "zero": np.zeros((150, 33), np.float32),
    "duplicates": with_duplicates(150, 33, 20),
    "squares underflow float32": gaussian(150, 33) * np.float32(1e-30),
    "squares overflow float32": gaussian(150, 33) * np.float32(1e30),
    "an outlier": np.concatenate([gaussian(149, 33), np.full((1, 33), 1e4, np.float32)]),
}


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("k", [1, 7, 149])
def test_agrees_with_brute_force(cloud, k):
    x = CLOUDS[cloud]
    np.testing.assert_array_equal(neighbours(x, k), brute_force(x, k))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_gallery_agrees_with_brute_force_and_removes_nothing(cloud):
    gallery = CLOUDS[cloud]
    queries = gallery[::7]
    result = neighbours(queries, 5, gallery)
    np.testing.assert_array_equal(result, brute_force(queries, 5, gallery))
    copies = (gallery[result[:, 0]] == queries).all(axis=1)
    assert copies.all(), "the query's own row is in the gallery and must come first"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 4),
    st.integers(1, 45),
    st.integers(0, 2),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_ties_go_to_the_smaller_index(n, d, k, size, seed, separate):
    """Points of a small lattice: most distances are tied, and exact in any arithmetic."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-size, size + 1, size=(n, d)).astype(np.float32)
    gallery = rng.integers(-size, size + 1, size=(2 * n, d)).astype(np.float32) if separate else None
    np.testing.assert_array_equal(neighbours(x, k, gallery), brute_force(x, k, gallery))


@pytest.mark.parametrize("cloud", ["ordinary", "far from the origin", "duplicates", "collapsed"])
def test_block_size_changes_nothing(cloud):
    x = CLOUDS[cloud]
    query_rows = np.arange(len(x))
    whole = Search(x).nearest(x, 10, query_rows)
    for block in (1, 60, 1000):
        np.testing.assert_array_equal(Search(x).nearest(x, 10, query_rows, block), whole)


def test_number_of_threads_changes_nothing():
    x, results = gaussian(600, 64), []
    before = faiss.omp_get_max_threads()
    try:
        for threads in (1, 4):
            faiss.omp_set_num_threads(threads)
            results.append(neighbours(x, 20))
    finally:
        faiss.omp_set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_a_query_is_never_its_own_neighbour():
    x = with_duplicates(300, 16, 3)
    result = neighbours(x, 5)
    assert (result != np.arange(300)[:, None]).all()
    assert (x[result] == x[:, None]).all(), "its duplicates are still neighbours"


@pytest.mark.parametrize("k", [1, 2, 3, 4, 10])
def test_neighbours_that_float32_cannot_distinguish_are_ordered(k):
    """Three clear neighbours, then forty at about 1 + 1e-10, the nearest of them last in the gallery."""
    clear = [[0.1, 0], [0.3, 0], [0.5, 0]]
    crowd = [[1, 1e-5 * step] for step in range(40, 0, -1)]
    gallery = np.array(clear + crowd, np.float32)
    result = neighbours(np.zeros((1, 2), np.float32), k, gallery)
    np.testing.assert_array_equal(result[0], [0, 1, 2, *range(42, 2, -1)][:k])


def test_rows_can_be_searched_in_any_order():
    x = gaussian(100, 8)
    rows = np.random.default_rng(1).permutation(100)[:30]
    np.testing.assert_array_equal(Search(x).nearest(x[rows], 4, rows), neighbours(x, 4)[rows])


def test_more_neighbours_than_rows():
    x = gaussian(5, 3)
    assert neighbours(x, 100).shape == (5, 4)
    assert neighbours(x, 100, x[:2]).shape == (5, 2)
    assert neighbours(x[:1], 3).shape == (1, 0)


class FastPathOnly(Search):
    def _scan(self, queries, k, query_rows):
        raise AssertionError(f"{len(queries)} ordinary queries were scanned in float64")


def test_ordinary_embeddings_need_no_scan():
    x = gaussian(1000, 128)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    result = FastPathOnly(x).nearest(x, 10)
    np.testing.assert_array_equal(result[:50], brute_force(x[:50], 10, x))


@pytest.mark.parametrize("d", [1, 3, 128, 2048])
@pytest.mark.parametrize("scale", [1e-22, 1e-3, 1.0, 1e15])
def test_float32_distances_stay_within_the_bound(d, scale):
    x = gaussian(64, d) * np.float32(scale) + np.float32(scale)
    distance, index = faiss.knn(x, x, 64)
    norms = np.linalg.norm(x.astype(np.float64), axis=1)
    true = ((x.astype(np.float64)[:, None] - x.astype(np.float64)[index]) ** 2).sum(axis=2)
    bound = search.rounding(np.float32, d, norms + norms.max())
    assert (np.abs(distance - true) <= bound[:, None]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_nan_and_infinity_are_refused(bad):
    x = gaussian(20, 4).astype(np.float64)
    x[13, 2] = bad
    with pytest.raises(UserError, match=r"Embeddings with NaN or infinity: 1 of 20 \(the first is row 13\)"):
        neighbours(x, 3)
    with pytest.raises(UserError, match="row 13"):
        neighbours(x, 3, gaussian(5, 4))


def test_wrong_shapes_are_refused():
    with pytest.raises(UserError, match=r"\(4,\)"):
        neighbours(np.zeros(4), 1)
    with pytest.raises(ValueError, match="3 dimensions, the gallery has 4"):
        neighbours(gaussian(5, 3), 1, gaussian(5, 4))
