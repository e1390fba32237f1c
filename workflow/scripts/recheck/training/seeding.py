"""Random numbers that depend only on (seed, fold, purpose, step), never on what ran before."""

import os
import random
import zlib
from typing import Any

import numpy as np
import torch


def derive(seed: int, *stream: int | str) -> int:
    """A distinct 64-bit seed for each random stream of a run."""
    words = [zlib.crc32(word.encode()) if isinstance(word, str) else word for word in stream]
    entropy = [len(words), seed, *words]
    if max(entropy) < 2**32 and min(entropy) >= 0:
        entropy = np.array(entropy, np.uint32)  # the same seed, but faster: numpy need not convert the words
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])


def generator_of_pass(seed: int, fold: int, number: int) -> np.random.RandomState:
    """Generator from which a sampler draws a pass of a run, by the pass's number."""
    return np.random.RandomState(derive(seed, fold, "sampler", number) % 2**32)


def seed_everything(seed: int) -> None:
    """Seed the global generators, which libraries (dropout, miners) draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def make_deterministic(deterministic: bool) -> None:
    """Make every library use deterministic algorithms.

    A few operations have no deterministic version on a GPU (the cumulative sum of FastAP): they only warn.
    ``use_deterministic_algorithms`` is not used because it also loads PyTorch's compiler, which embedding jobs never
    need. ``fill_uninitialized_memory`` is off: it only guards against code that reads uninitialised memory, costs a
    seventh of a training step on a CPU, and does not change the results.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn" if deterministic else "default")
    torch.backends.cudnn.benchmark = not deterministic
    torch.utils.deterministic.fill_uninitialized_memory = False


def random_state() -> dict[str, Any]:
    """States of all global generators, as plain data and tensors."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }
    return state | ({"mps": torch.mps.get_rng_state()} if torch.backends.mps.is_available() else {})


def restore_random_state(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_initialized():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])
