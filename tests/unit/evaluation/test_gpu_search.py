"""The search on a GPU. faiss's GPU is simulated by its own search on the CPU, with little memory."""

from itertools import pairwise

import faiss
import numpy as np
import pytest
import torch

from recheck.evaluation import gpu_search
from recheck.evaluation.gpu_search import SMALL, in_pieces, search_device
from recheck.evaluation.search import Search, neighbours
from support.datasets.gaussian import gaussian

TOO_MUCH = "Error in allocMemory\nError: alloc fail (cudaMalloc error out of memory [2])"


def limited(gallery, most, sizes):
    """A real search on a device that holds ``most`` queries."""

    def find(queries):
        sizes.append(len(queries))
        if len(queries) > most:
            raise RuntimeError(TOO_MUCH)
        return faiss.knn(queries, gallery, 3)

    return find


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that holds ``most`` queries; records what happens to its memory."""
    events = []

    def simulate(most):
        class Resources:
            broken = False

            def setTempMemory(self, size):
                events.append("new")

        def knn_gpu(resources, queries, gallery, count, device):
            assert not resources.broken, "faiss crashes here"
            events.append(len(queries))
            if len(queries) > most:
                resources.broken = True
                raise RuntimeError(TOO_MUCH)
            return faiss.knn(queries, gallery, count)

        monkeypatch.setattr(faiss, "StandardGpuResources", Resources, raising=False)
        monkeypatch.setattr(faiss, "knn_gpu", knn_gpu, raising=False)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: events.append("given back"))
        return events

    return simulate


def test_resources_are_new_after_every_failure_and_memory_is_given_back_first(gpu):
    events = gpu(most=10)
    x = gaussian(40, 6)
    np.testing.assert_array_equal(neighbours(x, 3, device="cuda"), neighbours(x, 3))
    start = ["given back", "new"]
    assert events == [*start, 40, *start, 20, *start, 10, 10, 10, 10]


def test_without_memory_for_one_query_the_cpu_searches_and_says_why(gpu, caplog, monkeypatch):
    monkeypatch.setattr(gpu_search.log, "propagate", True)
    events = gpu(most=0)
    gallery, queries = gaussian(50, 6), gaussian(25, 6, seed=1)
    search = Search(gallery, "cuda")
    np.testing.assert_array_equal(search.nearest(queries, 3), neighbours(queries, 3, gallery))
    assert [size for size in events if isinstance(size, int)] == [25, 12, 6, 3, 1]
    assert (
        "too little free memory to find the neighbours of even one image (Error: alloc fail (cudaMalloc" in caplog.text
    )
    np.testing.assert_array_equal(search.nearest(queries, 2), neighbours(queries, 2, gallery))
    assert [size for size in events if isinstance(size, int)] == [25, 12, 6, 3, 1], "the GPU is not tried again"


@pytest.mark.parametrize("most", [1, 2, 12, 24, 25, 100])
def test_out_of_memory_reduces_the_queries_per_call(most):
    gallery, queries, sizes = gaussian(50, 6), gaussian(25, 6, seed=1), []
    distance, index = in_pieces(limited(gallery, most, sizes), queries)
    np.testing.assert_array_equal(index, neighbours(queries, 3, gallery))
    assert distance.shape == index.shape
    assert sum(size for size in sizes if size <= most) == 25, "no query is searched twice"
    assert all(before >= after for before, after in pairwise(sizes)), "and no size that was too large is tried again"


def test_other_errors_of_the_device_are_not_hidden():
    def broken(queries):
        raise RuntimeError("illegal memory access")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        in_pieces(broken, gaussian(4, 2))


def test_only_large_searches_use_the_gpu(monkeypatch):
    side = int((SMALL / 512) ** 0.5)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: pytest.fail("faiss was asked for GPUs"))
    assert search_device("cpu", 10**6, 10**6, 512) == "cpu"
    assert search_device("cuda", side, side, 512) == "cpu"
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    assert search_device("cuda", side + 1, side + 1, 512) == "cuda"
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    assert search_device("cuda", side + 1, side + 1, 512) == "cpu"
