"""The names of the stored cases of the contextual losses and baselines, and the tolerances of their comparison.

Our values are computed in float64. The authors' arrays are in float64 or in float32.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from support.golden.fidelity import both

DOUBLE, SINGLE, SINGLE_GRADIENT = 1e-8, 1e-5, 2e-4
LOSS, GRADIENT = both(DOUBLE, SINGLE), both(DOUBLE, SINGLE_GRADIENT)


def case_names(stored: Iterable[str]) -> list[str]:
    """The cases of a file, sorted: each has its embeddings in the array ``<case>_x``."""
    names = sorted(key.removesuffix("_x") for key in stored if re.fullmatch(r"[^_]+_x", key))
    assert names, "no case is stored"
    return names


def close_gradient(ours: torch.Tensor, expected: np.ndarray, what: Any) -> None:
    """Check that a gradient is the expected one, relative to its largest entry; ``what`` names it in the error."""
    tolerance = DOUBLE if expected.dtype == np.float64 else SINGLE_GRADIENT
    assert np.abs(ours.numpy() - expected).max() <= max(tolerance * np.abs(expected).max(), 1e-15), what
