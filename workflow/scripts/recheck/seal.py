"""Safetensors files that carry their own SHA-256, so that a damaged one is noticed and never used.

The hash is taken of the whole file with zeros in the place of the hash itself: one flipped bit of a tensor, of a name,
a shape or of the metadata is enough to be refused. It is the first entry of the metadata, and the same content gives
the same file.
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
# safetensors puts its metadata at the beginning of the header, behind the header's length
PLACE = re.compile(rb'.{8}\{"__metadata__":\{"recheck":"\{\\"_sha256\\": \\"([0-9a-f]{64})\\"', re.DOTALL)
BEGINNING = 256


def write(
    path: str | Path, tensors: dict[str, Any], save_file: Callable[..., None], about: dict[str, Any] | None = None
) -> None:
    """Write tensors by one of safetensors' ``save_file``, with what is to be said about them.

    All of it is one entry of the metadata: safetensors writes several in random order, and the file would not have the
    same bits each time.
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
    """Refuse a file that is not exactly what was written."""
    try:
        with Path(path).open("rb") as file:
            place = PLACE.match(file.read(BEGINNING))
        whole = place is not None and _sha256(path, place.span(1)) == place[1].decode()
    except FileNotFoundError:
        raise UserError(f"{path} is gone: run again, it will be made anew.") from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): look after its disk, or make it readable."
        ) from error
    if not whole:
        raise UserError(f"{path} is damaged (its checksum is not that of its content): delete it and run again.")


def _sha256(path: str | Path, without: tuple[int, int]) -> str:
    """The hash of a file with zeros at the given place."""
    start, end = without
    with Path(path).open("rb") as file:
        found = hashlib.sha256(file.read(start))
        found.update(ZEROS.encode())
        file.seek(end)
        while chunk := file.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()
