"""Embedding files: one float32 matrix per role (test, or query and gallery; train, if figures show it).

Embeddings of the checkpoint that is best on the test set, if any, and features of the backbone, if a view shows them,
are in the same file under prefixed names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from recheck import seal
from recheck.data.splits import searched
from recheck.errors import UserError
from recheck.names import BACKBONE, BEST_ON_TEST


@dataclass(frozen=True)
class Searched:
    """Test images (their numbers) and embeddings, one row each; the last ``gallery`` rows are the gallery."""

    images: np.ndarray
    embeddings: np.ndarray
    gallery: int


def write_embeddings(path: str | Path, roles: dict[str, np.ndarray]) -> None:
    seal.write(path, {role: np.ascontiguousarray(rows, np.float32) for role, rows in roles.items()}, save_file)


def read_embeddings(path: str | Path) -> dict[str, np.ndarray]:
    seal.check(path)
    try:
        stored = load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # a type that NumPy does not have
        raise UserError(f"{path} is damaged ({error}): delete it and run again to recreate it.") from error
    for role, rows in stored.items():
        if rows.ndim != 2 or rows.dtype != np.float32:
            raise UserError(
                f"{path}: '{role}' must be a matrix of float32, found {rows.dtype} of shape {rows.shape}. Delete the "
                "file and run again to recreate it."
            )
    return stored


def read_test_set(path: str | Path, split: Mapping[str, np.ndarray], view: str = "") -> Searched:
    """Test set of a split with a run's embeddings for a view.

    These are outputs of the head or, for the view ``backbone``, of the backbone; for ``best_on_test``, if it is stored,
    of the checkpoint that is best on the test set.
    """
    stored, roles = read_embeddings(path), searched(split, "test")
    best = view == BEST_ON_TEST and f"{BEST_ON_TEST}/{roles[0]}" in stored
    prefix = f"{view}/" if best or view == BACKBONE else ""
    if missing := [role for role in roles if f"{prefix}{role}" not in stored]:
        raise UserError(f"{path} has no embeddings of '{missing[0]}': delete it and run again to recreate it.")
    return Searched(
        np.concatenate([np.asarray(split[role], np.int64) for role in roles]),
        np.concatenate([stored[f"{prefix}{role}"] for role in roles]),
        len(split["gallery"]) if len(roles) > 1 else 0,
    )
