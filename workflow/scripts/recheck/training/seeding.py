"""Randomness that is a function of (seed, fold, purpose, step), never of what ran before."""

import os
import random
import zlib
from typing import Any

import numpy as np
import torch


def derive(seed: int, *stream: int | str) -> int:
    """A 64-bit seed of its own for each stream of a run."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in stream]
    entropy = [len(words), seed, *words]
    if max(entropy) < 2**32 and min(entropy) >= 0:
        entropy = np.array(entropy, np.uint32)  # the same words, which numpy need not look for then
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])


def seed_everything(seed: int) -> None:
    """The global generators: what libraries (dropout, miners) draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def make_deterministic(deterministic: bool) -> None:
    """Ask every library for the algorithms that give the same bits each time.

    A few operations have none on a GPU (the cumulative sum of FastAP): they warn, and the run goes on.
    ``use_deterministic_algorithms`` would also load PyTorch's compiler, which an embedding job never needs. New tensors
    are not filled before they are written: a safeguard for code that reads uninitialised memory, and a seventh of a
    training step on a CPU. Without it the bits are the same.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn" if deterministic else "default")
    torch.backends.cudnn.benchmark = not deterministic
    torch.utils.deterministic.fill_uninitialized_memory = False


def random_state() -> dict[str, Any]:
    """All global generators, as plain data and tensors."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
