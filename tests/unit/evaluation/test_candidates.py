"""Searching all rows at once with half of the products, compared with the plain path and a slow float64 search."""

import faiss
import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from recheck.evaluation import candidates, search
from recheck.evaluation.candidates import Candidates, Pool, unpacked
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.search import Search, neighbours
from support.datasets.gaussian import gaussian

NAMES = ["P@1", "RP", "MAP@R", "R@3"]


def clustered(n, d, classes, seed=0, noise=1.0):
    """Unit vectors around class centres, like those of a network, sorted by class."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(classes, size=n))
    x = rng.normal(size=(classes, d))[labels] + noise * rng.normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels


CLOUDS = {
    "clustered": clustered(230, 24, 12)[0],
    "shuffled": clustered(230, 24, 12)[0][np.random.default_rng(5).permutation(230)],
    "of any length": gaussian(230, 24),
    "one dimension": gaussian(230, 1),
    "far from the origin": gaussian(230, 24) * np.float32(1e-3) + 1,
    "almost collapsed": gaussian(230, 24) * np.float32(3e-7) + 1,
    "collapsed": np.ones((230, 24), np.float32),
    "zero": np.zeros((230, 24), np.float32),
    "duplicates": clustered(30, 24, 5)[0][np.random.default_rng(1).integers(30, size=230)],
    "two points": clustered(2, 24, 2)[0][np.arange(230) % 2],
    "squares underflow float32": gaussian(230, 24) * np.float32(1e-30),
    "squares overflow float32": gaussian(230, 24) * np.float32(1e30),
    "an outlier": np.concatenate([gaussian(229, 24), np.full((1, 24), 1e4, np.float32)]),
}


def brute_force(queries, k, gallery=None):
    """One query after another, in float64, sorted by (distance, index)."""
    rows = []
    places = (queries if gallery is None else gallery).astype(np.float64)
    for i, query in enumerate(queries.astype(np.float64)):
        distance = ((query - places) ** 2).sum(axis=1)
        order = np.lexsort((np.arange(len(places)), distance))
        rows.append(order[(order != i) | (gallery is not None)][:k])
    return np.array(rows)


@pytest.fixture
def products(monkeypatch):
    """Use products in small blocks, for any number of rows and neighbours."""

    def use(side, wanted=True):
        monkeypatch.setattr(search, "MANY", 1 if wanted else 10**9)
        monkeypatch.setattr(candidates, "SIDE", side)
        monkeypatch.setattr(Candidates, "most", 10**9)

    return use


def plain(products, *arguments):
    products(1, wanted=False)
    return neighbours(*arguments)


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("k", [1, 9, 229, 500])
def test_all_rows_at_once_agree_with_one_by_one(cloud, k, products):
    x = CLOUDS[cloud]
    expected = plain(products, x, k)
    for side in (40, 64, 230):
        products(side)
        np.testing.assert_array_equal(neighbours(x, k), expected)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_gallery_agrees_with_the_plain_path(cloud, products):
    gallery = CLOUDS[cloud]
    queries = np.concatenate((gallery[::3], gallery[::5] * np.float32(0.5)))
    expected = plain(products, queries, 9, gallery)
    for side in (40, 64, 230):
        products(side)
        np.testing.assert_array_equal(neighbours(queries, 9, gallery), expected)


@pytest.mark.parametrize("cloud", ["clustered", "of any length", "duplicates", "collapsed", "one dimension"])
def test_agrees_with_a_slow_search_in_float64(cloud, products):
    x = CLOUDS[cloud][:120]
    products(32)
    np.testing.assert_array_equal(neighbours(x, 7), brute_force(x, 7))
    np.testing.assert_array_equal(neighbours(x[::2], 7, x), brute_force(x[::2], 7, x))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_ties_go_to_the_smaller_index_whatever_the_blocks(data):
    """Points of a small lattice: most distances are tied, and exact in any arithmetic."""
    n, d, k = data.draw(st.integers(2, 60)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 65))
    side, threads = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 3))
    size, rng = data.draw(st.integers(0, 2)), np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(-size, size + 1, size=(n, d)).astype(np.float32)
    labels = rng.integers(3, size=n)
    mine = Search(x)
    mine._pairs = Candidates(x, mine.norms, side).among_all(min(k + search.SPARE, n - 1), threads)
    query_rows = rng.permutation(n)
    result = mine.nearest(None, k, query_rows)
    np.testing.assert_array_equal(result, brute_force(x, k)[query_rows])
    np.testing.assert_array_equal(
        mine.hits(None, labels[query_rows], labels, k, query_rows), labels[result] == labels[query_rows, None]
    )


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("wanted", [True, False])
def test_hits_agree_with_nearest(cloud, wanted, products):
    """Only near ties between right and wrong rows need to be decided."""
    x, labels = CLOUDS[cloud], np.random.default_rng(2).integers(3, size=230)
    products(50, wanted)
    mine, query_rows = Search(x), np.arange(230)
    mine.pair_up(20)
    for k in (1, 5, 20):
        expected = labels[mine.nearest(None, k, query_rows)] == labels[:, None]
        np.testing.assert_array_equal(mine.hits(None, labels, labels, k, query_rows), expected)
        np.testing.assert_array_equal(mine.hits(x, labels, labels, k, query_rows), expected)
    expected = labels[mine.nearest(x[:40], 6)] == labels[:40, None]
    np.testing.assert_array_equal(mine.hits(x[:40], labels[:40], labels, 6), expected)


@pytest.mark.parametrize("cloud", [name for name in CLOUDS if "overflow" not in name])
def test_distances_stay_within_the_bound_and_no_nearer_row_is_missing(cloud):
    x = CLOUDS[cloud]
    true = ((x.astype(np.float64)[:, None] - x.astype(np.float64)) ** 2).sum(axis=2)
    norms = np.linalg.norm(x.astype(np.float64), axis=1)
    among, of = Candidates(x, norms, 64).among_all(12, 1), Candidates(x, norms, 64).of(x, norms, 12, 1)
    for (keys, bound), itself in ((among, False), (of, True)):
        distance, index = unpacked(keys)
        assert (np.abs(distance - np.take_along_axis(true, index, axis=1)) <= bound[:, None]).all()
        rest = true.copy()
        np.put_along_axis(rest, index, np.inf, axis=1)
        if not itself:
            assert (index != np.arange(len(x))[:, None]).all()
            np.fill_diagonal(rest, np.inf)
        assert (rest.min(axis=1) >= distance[:, -1] - bound).all()
        assert all(len(set(row)) == 12 for row in index.tolist()), "no row is proposed twice"


def test_a_pool_keeps_the_nearest_for_any_number_added_at_once():
    rng = np.random.default_rng(3)
    products = rng.normal(size=(4, 300)).astype(np.float32)
    pool = Pool(np.full((4, Pool.room(5)), candidates.EMPTY), 5, np.float32(10))
    for piece in np.split(np.arange(300), [7, 250]):
        row = np.repeat(np.arange(4), len(piece))
        pool.add(row, np.tile(piece, 4), products[:, piece].ravel())
    pool.settle()
    kept = np.sort(unpacked(pool.keys[:, :5])[1], axis=1)
    np.testing.assert_array_equal(kept, np.sort(np.argsort(-products, axis=1)[:, :5], axis=1))
    assert (np.count_nonzero(products > pool.floor[:, None], axis=1) <= 5).all()


def test_ordinary_embeddings_need_neither_the_library_nor_a_scan(monkeypatch):
    def refused(*_):
        raise AssertionError("not the fast path")

    x, labels = clustered(2100, 64, 60)
    expected = evaluate(x[:, ::-1], labels, NAMES)
    monkeypatch.setattr(faiss, "knn", refused)
    monkeypatch.setattr(Search, "_scan", refused)
    ours = evaluate(x, labels, NAMES)
    evaluate(x[:1100], labels[:1100], NAMES, gallery=x[::2], gallery_labels=labels[::2])
    monkeypatch.undo()
    monkeypatch.setattr(search, "MANY", 10**9)
    assert ours == evaluate(x, labels, NAMES) == expected


@pytest.mark.parametrize("huge", [300, 900])
def test_one_large_class_beside_many_small_ones(huge, monkeypatch):
    """The large class is searched separately, and all results are unchanged."""
    x, labels = clustered(1500, 16, 200)
    labels[np.random.default_rng(4).permutation(1500)[:huge]] = 777
    ours = evaluate(x, labels, NAMES)
    monkeypatch.setattr(search, "MANY", 10**9)
    assert evaluate(x, labels, NAMES) == ours


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_neither_the_result_nor_the_setting(threads, products):
    x = CLOUDS["clustered"]
    expected = plain(products, x, 9)
    products(16)
    before = threadpoolctl.threadpool_info()
    count = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(threads)
        np.testing.assert_array_equal(neighbours(x, 9), expected)
    finally:
        faiss.omp_set_num_threads(count)
    after = threadpoolctl.threadpool_info()
    assert [pool["num_threads"] for pool in after] == [pool["num_threads"] for pool in before]


def test_an_error_in_a_thread_is_not_lost():
    def broken(task, scratch):
        raise MemoryError(task)

    with pytest.raises(MemoryError):
        candidates._share(broken, range(5), 2, 16)
