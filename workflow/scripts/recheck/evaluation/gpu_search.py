"""Candidates from faiss on a GPU: when a GPU is worth it, and what to do if it runs out of memory."""

import logging
import sys
from collections.abc import Callable

import numpy as np

log = logging.getLogger("recheck")
# Number of multiplications (queries x gallery x dimensions) up to which one CPU core needs less time than a GPU needs
# to start, which is assumed to be half a second: benchmarks/search_sizes.py
SMALL = 3 * 10**10
MOST = 2048  # largest number of neighbours that faiss can select on a GPU
SCRATCH = 256 << 20  # bytes; faiss takes 1.5 GB by default, which the model on the same GPU may need


def search_device(wanted: str, queries: int, gallery: int, dimensions: int) -> str:
    """``cuda`` if that is wanted, the search is large and faiss can use a GPU, else ``cpu``; results are the same."""
    if wanted != "cuda" or queries * gallery * dimensions <= SMALL:
        return "cpu"
    import faiss  # imported late because it is slow to load

    if faiss.get_num_gpus():
        return "cuda"
    log.info("faiss cannot use a GPU here. Searching neighbours on the CPU, with the same result.")
    return "cpu"


class GpuSearch:
    """Search for the nearest rows of one gallery by faiss on a GPU.

    After an error faiss's resources are half initialised, and using them again crashes. So every error discards them.
    """

    def __init__(self, gallery: np.ndarray, device: str):
        self.gallery = gallery
        self.number = int(device.partition(":")[2] or -1)
        self._resources = None

    def nearest(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Float32 squared distances and indices of the nearest rows; None if the GPU has too little free memory."""
        try:
            return in_pieces(lambda chunk: self._search(chunk, count), queries)
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            reason = str(error).strip().splitlines()[-1]
            log.warning(
                "The GPU has too little free memory to find the neighbours of even one image (%s). Searching "
                "neighbours on the CPU, with the same result.",
                reason,
            )
            return None

    def _search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        import faiss

        if self._resources is None:
            give_memory_back()
            self._resources = faiss.StandardGpuResources()
            self._resources.setTempMemory(SCRATCH)
        try:
            return faiss.knn_gpu(self._resources, queries, self.gallery, count, device=self.number)
        except RuntimeError:
            self._resources = None
            raise


def give_memory_back() -> None:
    """Release the GPU memory that PyTorch has cached, if PyTorch was imported."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def in_pieces(
    search: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``search(queries)``, halving the number of queries per call whenever the device runs out of memory."""
    size, start, results = len(queries), 0, []
    while start < len(queries):
        try:
            results.append(search(queries[start : start + size]))
            start += size
        except RuntimeError as error:
            if size == 1 or not _out_of_memory(error):
                raise
            size //= 2
    distances, indices = zip(*results, strict=True)
    return np.concatenate(distances), np.concatenate(indices)


def _out_of_memory(error: RuntimeError) -> bool:
    return "out of memory" in str(error)
