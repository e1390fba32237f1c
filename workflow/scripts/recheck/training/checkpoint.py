"""Resumable training state: whole or not used at all.

The file is the SHA-256 of its payload, then the payload. The state before it is kept beside it until the new one is
whole, so a kill in the middle of a write costs one save, never the run.
"""

import hashlib
import io
import logging
from pathlib import Path
from typing import Any, BinaryIO

import torch

from recheck.files import atomic

log = logging.getLogger("recheck")
DIGEST_BYTES = hashlib.sha256().digest_size


class _Hashed:
    """A file to write to, and the hash of what was written: a state is too large to be copied for that."""

    def __init__(self, file: BinaryIO):
        self.file, self.sha256 = file, hashlib.sha256()
        self.refused: OSError | None = None  # torch closes its archive on an error, and reports only what that met

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.refused = error
            raise

    def flush(self) -> None:
        self.file.flush()


class StateFile:
    """The state of one run, bound to the fingerprint of its configuration and data."""

    def __init__(self, folder: str | Path, fingerprint: str):
        self.folder = Path(folder)
        self.current = self.folder / "state.bin"
        self.previous = self.folder / "previous.bin"
        self.fingerprint = fingerprint

    def save(self, state: dict[str, Any]) -> None:
        with atomic(self.current) as temporary:
            with temporary.open("wb") as file:
                file.write(bytes(DIGEST_BYTES))
                payload = _Hashed(file)
                try:
                    torch.save({"fingerprint": self.fingerprint, "state": state}, payload)
                except RuntimeError as error:
                    raise payload.refused or error from None
                file.seek(0)
                file.write(payload.sha256.digest())
            if self.current.exists():
                self.current.replace(self.previous)

    def load(self) -> dict[str, Any] | None:
        """The newest state that is whole and of this configuration; None to start from the beginning."""
        for path in (self.current, self.previous):
            stored = _read(path)
            if stored is None:
                continue
            if stored["fingerprint"] == self.fingerprint:
                return stored["state"]
            log.warning("%s belongs to another configuration: it is not used, training starts anew.", path)
        return None


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a state file, or None if it is missing or not exactly what was written."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    digest, payload = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != digest:
        log.warning("%s is damaged: it is not used.", path)
        return None
    try:
        stored = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # torch has many words for a file that is none of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        log.warning("%s cannot be read (%s): it is not used.", path, reason)
        return None
    if not isinstance(stored, dict) or set(stored) != {"fingerprint", "state"}:
        log.warning("%s is no state of a run: it is not used.", path)
        return None
    return stored
