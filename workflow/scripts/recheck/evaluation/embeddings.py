"""Embeddings on disk: one float32 matrix for each role (test, query, gallery, …)."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from recheck.errors import UserError
from recheck.files import atomic


def write_embeddings(path: str | Path, roles: dict[str, np.ndarray]) -> None:
    with atomic(path) as temporary:
        save_file({role: np.ascontiguousarray(rows, np.float32) for role, rows in roles.items()}, temporary)


def read_embeddings(path: str | Path) -> dict[str, np.ndarray]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run again, it will be made anew.") from error
