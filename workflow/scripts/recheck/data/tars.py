"""Read tar archives from untrusted sources, compressed or not, with bounded memory and time.

tarfile parses the archive, but every header is checked first: tarfile reads a header of any size into memory, takes a
broken header for the end of the archive, and before Python 3.11.10 and 3.12.6 takes for ever on some headers
(CVE-2024-6232).
"""

import contextlib
import re
import tarfile
from collections.abc import Iterator
from typing import IO

from recheck.data.streams import decompressed, is_compressed

CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE
LARGEST_HEADER = 1 << 20
"""Maximum number of bytes in the headers of one member."""
LONGEST_NUMBER = 255
"""Maximum number of consecutive digits in a header: tarfile's time for them grows with their square."""
USUAL_HEADER = 4096
"""Headers of all members together may have this many bytes per member, plus MARGIN."""
MARGIN = 64 << 20
"""Maximum number of bytes after the end mark."""
DIGITS = re.compile(rb"\d{%d}" % (LONGEST_NUMBER + 1))
ZEROS = bytes(BLOCK)
ANOTHER = "another archive begins after its end mark: unpack the two archives separately"


def is_tar(start: bytes) -> bool:
    """Whether these are the first bytes of an uncompressed tar archive, whatever its first name looks like."""
    try:
        tarfile.TarInfo.frombuf(start[:BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def members(raw: IO[bytes], most: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Every member of an archive with its content, which must be read before the next one.

    ``most`` is the largest size of all contents together.
    """
    start = raw.read(BLOCK)
    raw.seek(0)
    with contextlib.ExitStack() as stack:
        stream = raw if is_tar(start) or not is_compressed(start) else stack.enter_context(decompressed(raw, start))
        reader = _Reader(stream, most + MARGIN)
        archive = stack.enter_context(tarfile.open(fileobj=reader, mode="r:"))
        while (member := archive.next()) is not None:
            archive.members.clear()  # tarfile keeps every member: half a gigabyte for iNaturalist
            reader.headers = None
            yield member, archive.extractfile(member) if member.isreg() else None
            reader.headers, reader.most = 0, reader.most + USUAL_HEADER
        reader.finish()


class _Reader:
    """A forward-only file for tarfile. ``headers`` counts the bytes of headers; it is None while contents are read."""

    def __init__(self, stream: IO[bytes], most: int):
        self.stream, self.most = stream, most
        self.position = 0
        self.headers: int | None = 0
        self.pax = False
        self.last = b""

    def read(self, size: int) -> bytes:
        if size < 0:
            raise tarfile.ReadError("a header with a negative size")
        if self.headers is None:
            return self._take(size)
        self.headers += size
        if self.headers > LARGEST_HEADER:
            raise tarfile.ReadError(f"more than {LARGEST_HEADER:,} bytes of headers for one member")
        self.last = self._take(size)
        if DIGITS.search(self.last):
            raise tarfile.ReadError(f"a header with a number of more than {LONGEST_NUMBER} digits")
        if self.pax:
            _check_pax(self.last)
        self.pax = not self.pax and size == BLOCK and self.last[156:157] in (b"x", b"g", b"X")
        return self.last

    def _take(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.position += len(data)
        if self.position > self.most:
            raise tarfile.ReadError("it is much longer than its members")
        return data

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        if position < self.position:
            raise tarfile.ReadError("a header that points backwards")
        while self.position < position and self._take(min(CHUNK, position - self.position)):
            pass

    def finish(self) -> None:
        """Read to the end of the stream, where gzip, bzip2 and xz store their checksum."""
        if self.last != ZEROS:
            raise tarfile.ReadError("it has no end mark")
        end, rest, begun = self.position + MARGIN, b"", False
        while data := self._take(CHUNK):
            start = b"" if begun else data.lstrip(b"\0")
            begun = begun or bool(start)
            if is_compressed(start) or start.startswith(b"PK"):
                raise tarfile.ReadError(ANOTHER)
            if self.position > end:
                raise tarfile.ReadError(f"more than {MARGIN:,} bytes after its end mark")
            rest += data
            whole = len(rest) - len(rest) % BLOCK
            if any(is_tar(rest[start : start + BLOCK]) for start in range(0, whole, BLOCK) if rest[start]):
                raise tarfile.ReadError(ANOTHER)
            rest = rest[whole:]


def _check_pax(data: bytes) -> None:
    """Refuse records that are not `<length> <key>=<value>` and a newline, each within its length."""
    start = 0
    while start < len(data) and data[start]:
        space = data.find(b" ", start, start + 20)
        end = start + int(data[start:space]) if data[start:space].isdigit() and space > start else 0
        if not space < data.find(b"=", space + 2, end) < end <= len(data) or data[end - 1] != ord("\n"):
            raise tarfile.ReadError("a malformed extended header")
        start = end
