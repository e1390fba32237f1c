"""Random float32 points from a normal distribution."""

import numpy as np


def gaussian(n: int, d: int, seed: int = 0) -> np.ndarray:
    """``n`` points of ``d`` dimensions; the same seed gives the same points."""
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
