"""Decompress untrusted streams with bounded memory."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import IO, Protocol

PIECE = 1 << 16
LARGEST_DICTIONARY = 128 << 20
"""Maximum memory for the dictionary of an xz or LZMA stream, in bytes; `xz -9` needs half of it."""


class Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Decompressed(io.RawIOBase):
    """The content of several compressed streams, one after the other; it decompresses only what is read.

    lzma.open does not limit the dictionary, and zipfile does not limit what 4 KB of a bzip2 or LZMA member unpack to.
    """

    def __init__(self, source: IO[bytes], start: Callable[[], Decompressor]):
        self.source, self.start = source, start
        self.decompressor, self.input = start(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        data = b""
        while not data:
            if self.decompressor.eof and not self._next():
                return 0
            if self.decompressor.needs_input and not self.input:
                self.input = self.source.read(PIECE)
                if not self.input:
                    raise EOFError("the compressed data ends too early")
            piece, self.input = self.input, b""
            data = self.decompressor.decompress(piece, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next(self) -> bool:
        """Begin the next stream, if there is one; zeros between xz streams are padding."""
        self.input = self.decompressor.unused_data.lstrip(b"\0")
        while not self.input and (piece := self.source.read(PIECE)):
            self.input = piece.lstrip(b"\0")
        self.decompressor = self.start() if self.input else self.decompressor
        return bool(self.input)


def _xz() -> Decompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_DICTIONARY)


OPENERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": lambda raw: io.BufferedReader(
        Decompressed(raw, bz2.BZ2Decompressor), PIECE
    ),  # bz2.open ignores trailing garbage
    b"\xfd7zXZ\0": lambda raw: io.BufferedReader(Decompressed(raw, _xz), PIECE),
}
"""First bytes of a compressed stream → function that opens it."""


def is_compressed(start: bytes) -> bool:
    return start.startswith(tuple(OPENERS))


def decompressed(raw: IO[bytes], start: bytes) -> IO[bytes]:
    """The decompressed stream. Its first bytes tell the format; names do not, because mirrors rename files."""
    return next(opener for magic, opener in OPENERS.items() if start.startswith(magic))(raw)
