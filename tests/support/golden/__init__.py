"""Stored arrays by case; a test must use every array."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

RELATIVE = 1e-8


class Case:
    """The arrays of one case by name; on exit it checks that the test has used all of them."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str):
        self.arrays, self.name, self.used = arrays, name, set()

    def __enter__(self) -> "Case":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            assert self.used == set(self.arrays), f"{self.name}: unused {set(self.arrays) - self.used}"

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def array(self, key: str) -> np.ndarray:
        self.used.add(key)
        return self.arrays[key]

    def value(self, key: str) -> Any:
        return self.array(key).item()

    def tensor(self, key: str) -> torch.Tensor:
        return torch.from_numpy(self.array(key))

    def variable(self, key: str) -> torch.Tensor:
        return self.tensor(key).clone().requires_grad_()

    def check(self, key: str, ours: Any, tolerance: float = RELATIVE) -> None:
        """Compare relative to the largest expected number; if all are zero, to float64's rounding error."""
        expected = self.array(key)
        ours = np.asarray(ours.detach() if isinstance(ours, torch.Tensor) else ours)
        assert ours.shape == expected.shape, f"{self.name} {key}"
        limit = max(tolerance * np.abs(expected).max(), 1e-14)
        error = np.abs(ours - expected).max()
        assert error <= limit, f"{self.name} {key}: {error} > {limit}"

    def same(self, key: str, ours: Any) -> None:
        np.testing.assert_array_equal(np.asarray(ours), self.array(key), err_msg=f"{self.name} {key}")


def load(golden: Path, file: str) -> dict[str, np.ndarray]:
    with np.load(golden / f"{file}.npz") as stored:
        return dict(stored)


def cases(golden: Path, file: str) -> list[Case]:
    """All cases of a file; arrays that belong to no case are in :func:`rest`."""
    arrays = load(golden, file)
    result = []
    for number in range(int(arrays["n_cases"])):
        prefix = f"case{number}_"
        selected = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
        result.append(Case(selected, f"{file} {number}"))
    assert result
    return result


def rest(golden: Path, file: str) -> Case:
    """The arrays of a file that belong to no case."""
    arrays = load(golden, file)
    prefixes = tuple(f"case{number}_" for number in range(int(arrays.get("n_cases", 0))))
    selected = {key: value for key, value in arrays.items() if key != "n_cases" and not key.startswith(prefixes)}
    return Case(selected, file)
