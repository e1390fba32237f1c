"""Resumable training state, used only if every byte is intact.

The file holds the SHA-256 of its payload, then the payload. The previous state is kept beside it, so a kill in the
middle of a write costs one save, never the run.
"""

import contextlib
import hashlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

from recheck.errors import MachineError
from recheck.files import atomic

log = logging.getLogger("recheck")
DIGEST_BYTES = hashlib.sha256().digest_size


class _Hashed:
    """A writable file that hashes what passes through it, so that a large state need not be copied for hashing."""

    def __init__(self, file: BinaryIO):
        self.file, self.sha256 = file, hashlib.sha256()
        # When a write fails, torch closes its archive and reports only the error of closing; this keeps the first one.
        self.refused: OSError | None = None

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
    """State of one run, tied to the fingerprint of its settings and data."""

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
        """Newest intact state with this fingerprint, or None if the run must start from the beginning."""
        for path in (self.current, self.previous):
            stored = _read(path)
            if stored is None:
                continue
            if stored["fingerprint"] == self.fingerprint:
                return stored["state"]
            log.warning("%s belongs to a run with other settings or data. Ignoring it.", path)
        return None

    def exists(self) -> bool:
        return self.current.exists() or self.previous.exists()

    def kept(self) -> str:
        """A sentence for the end of an error message that says where the last state is; empty if there is none."""
        return f" The last good state is kept in {self.folder}." if self.exists() else ""

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn the errors of a state that is intact but does not fit the run into one sentence."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise MachineError(
                f"The state in {self.folder} does not fit this run: delete this folder and run again; training then "
                "starts over."
            ) from error


def _read(path: Path) -> dict[str, Any] | None:
    """Content of a state file, or None if the file is missing or differs from what was written."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    digest, payload = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != digest:
        log.warning("%s is damaged. Ignoring it.", path)
        return None
    try:
        stored = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for a file it cannot read
        reason = (str(error) or type(error).__name__).splitlines()[0]
        log.warning("%s cannot be read (%s). Ignoring it.", path, reason)
        return None
    if not isinstance(stored, dict) or set(stored) != {"fingerprint", "state"}:
        log.warning("%s does not hold the state of a run. Ignoring it.", path)
        return None
    return stored
