"""Read zip archives from untrusted sources with bounded memory.

zipfile reads the whole directory before its entries can be counted, and decompresses bzip2 and LZMA without a limit.
"""

import bz2
import contextlib
import copy
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from recheck.data.streams import LARGEST_DICTIONARY, Decompressed

CHUNK = 1 << 20
ENTRY = b"PK\1\2"
LONGEST_START = 4
"""Maximum number of bytes before the first member: the marker of a multi-part archive that fitted into one part."""
METHODS = {
    zipfile.ZIP_STORED: "stored",
    zipfile.ZIP_DEFLATED: "deflated",
    zipfile.ZIP_BZIP2: "bzip2",
    zipfile.ZIP_LZMA: "LZMA",
}


class TooManyMembers(Exception):
    """The directory has more entries than allowed."""


@contextlib.contextmanager
def opened(raw: IO[bytes], most_members: int) -> Iterator[zipfile.ZipFile]:
    """An archive whose directory has at most ``most_members`` entries."""
    counted = _Counted(raw, most_members)
    with zipfile.ZipFile(counted) as archive:
        counted.most = None
        if min((member.header_offset for member in archive.infolist()), default=0) > LONGEST_START:
            raise zipfile.BadZipFile("it does not begin with its first member; is it two archives in one file?")
        yield archive


class _Counted:
    """A file that counts directory entries in what zipfile reads, before zipfile makes objects of them."""

    def __init__(self, raw: IO[bytes], most: int):
        self.raw, self.most = raw, most
        self.seek, self.tell, self.seekable, self.close = raw.seek, raw.tell, raw.seekable, raw.close

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        if self.most is not None and data.count(ENTRY) > self.most:
            raise TooManyMembers
        return data


@contextlib.contextmanager
def content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """The content of a member, decompressed as it is read; its length and checksum are compared at its end."""
    if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with archive.open(member) as stream:
            yield _Checked(stream, member, crc=None)
        return
    with archive.open(_as_stored(member)) as packed:
        stream = Decompressed(
            packed, bz2.BZ2Decompressor if member.compress_type == zipfile.ZIP_BZIP2 else _lzma(packed)
        )
        yield _Checked(io.BufferedReader(stream), member, crc=0)


def _as_stored(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The entry for the compressed bytes of a member, without a checksum."""
    stored = copy.copy(member)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC
    return stored


def _lzma(packed: IO[bytes]):
    """The decompressor for a member, by its first bytes: version, length of the properties, properties."""
    head = packed.read(9)
    if len(head) < 9 or head[2:4] != b"\5\0" or head[4] >= 9 * 5 * 5:
        raise zipfile.BadZipFile("an LZMA member with unknown properties")
    dictionary = int.from_bytes(head[5:9], "little")
    if dictionary > LARGEST_DICTIONARY:
        raise zipfile.BadZipFile(
            f"an LZMA member needs {dictionary:,} bytes of memory, but at most {LARGEST_DICTIONARY:,} are allowed"
        )
    filters = {
        "id": lzma.FILTER_LZMA1,
        "lc": head[4] % 9,
        "lp": head[4] // 9 % 5,
        "pb": head[4] // 45,
        "dict_size": max(dictionary, 4096),
    }
    return lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[filters])


class _Checked:
    """A stream that must have the declared length and, unless zipfile checks it, the declared checksum."""

    def __init__(self, stream: IO[bytes], member: zipfile.ZipInfo, crc: int | None):
        self.stream, self.member, self.crc = stream, member, crc
        self.left = member.file_size

    def read(self, size: int) -> bytes:
        data = self.stream.read(min(size, self.left)) if self.crc is not None else self.stream.read(size)
        self.left -= len(data)
        if self.crc is not None:
            self.crc = zlib.crc32(data, self.crc)
        if not data and self.left:
            declared = self.member.file_size
            raise zipfile.BadZipFile(
                f"{self.member.filename!r} has {declared - self.left:,} bytes, but its header says {declared:,}"
            )
        if not data and self.crc not in (None, self.member.CRC):
            raise zipfile.BadZipFile(f"{self.member.filename!r} has a wrong checksum")
        return data
