"""Safetensors files that contain their own SHA-256, so that a damaged file is never used.

The hash covers the whole file, with zeros in place of the hash itself: one flipped bit in a tensor, name, shape or the
metadata is detected. The hash is the first entry of the metadata, and equal content gives identical files.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from recheck.errors import UserError
from recheck.files import atomic

ZEROS = "0" * 64
# safetensors starts a file with the length of the header, and the header with the metadata
PLACE = re.compile(rb'.{8}\{"__metadata__":\{"recheck":"\{\\"_sha256\\": \\"([0-9a-f]{64})\\"', re.DOTALL)
BEGINNING = 256


def write(
    path: str | Path, tensors: dict[str, Any], save_file: Callable[..., None], about: dict[str, Any] | None = None
) -> None:
    """Write tensors and metadata (``about``) with one of safetensors' ``save_file`` functions.

    All metadata is in one entry: safetensors writes several entries in random order, so the file's bits would vary.
    """
    text = json.dumps({"_sha256": ZEROS, **(about or {})}, sort_keys=True)
    with atomic(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={"recheck": text})
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            if not number:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        with temporary.open("r+b") as file:
            place = PLACE.match(file.read(BEGINNING))
            digest = _sha256(temporary, place.span(1))
            file.seek(place.start(1))
            file.write(digest.encode())


def check(path: str | Path) -> None:
    """Refuse a file that is not bit for bit what was written."""
    try:
        with Path(path).open("rb") as file:
            place = PLACE.match(file.read(BEGINNING))
        whole = place is not None and _sha256(path, place.span(1)) == place[1].decode()
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run again to recreate it.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check its disk and its permissions.") from error
    if not whole:
        raise UserError(
            f"{path} is damaged (its checksum does not match its content): delete it and run again to recreate it."
        )


def _sha256(path: str | Path, without: tuple[int, int]) -> str:
    """The hash of a file with zeros at the given bytes."""
    start, end = without
    with Path(path).open("rb") as file:
        digest = hashlib.sha256(file.read(start))
        digest.update(ZEROS.encode())
        file.seek(end)
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
