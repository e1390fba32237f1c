"""Hostile archives: every kind of archive with one or two things wrong, and some with nothing wrong."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import NamedTuple

FILES = {"set/1/a.jpg": b"a" * 700, "set/1/b.jpg": b"", "set/2/a.jpg": bytes(range(256)) * 9, "set/list.txt": b"x\n"}
LIMIT = 1 << 20
"""The unpacked size that the archives are allowed."""
NAMES = [
    "../x", "/x", "a/../../x", "", ".", "..", "a\\b", "C:x", "é", "a\0b", "x" * 300, "a/", ".extracted.json",
    "set/1/a.jpg", "set/1", "set/list.txt/x", "caf\udce9.jpg", "/".join("a" * 100), "/".join("a" * 1900), "PK\3\4",
    "BZh9", "\x1b[2J", "a\nb", " ", "CON", "1" * 200, "a//b", "./a", "~/x", "$HOME", "-rf", "SET/1/A.JPG",
]  # fmt: skip
TYPES = [
    tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
    tarfile.BLKTYPE, tarfile.CONTTYPE, tarfile.AREGTYPE, b"Z", tarfile.GNUTYPE_SPARSE,
]  # fmt: skip
MODES = [0o100644, 0o120777, 0o040755, 0o020666, 0o010666, 0o140666, 0, 0o177777]
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": lambda data: gzip.compress(data, 1, mtime=0),
    "tar.bz2": bz2.compress,
    "tar.xz": lambda data: lzma.compress(data, preset=0),
}
RECORDS = [
    b"", b"1" * 5000, b"1" * 600_000, b"2 " * 3000 + b"=", b"9 path=x\n", b"30 path=../../../../../etc/x\n",
    b"18 size=999999999\n", b"9" * 300 + b" size=1\n", b"18446744073709551616 path=x\n", b"x" * 1_100_000,
    b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", b"25 GNU.sparse.map=0,5,1,3\n", b"-5 path=x\n",
    b"11 path=\xff\xfe\n", b"12 path=a\0b\n", b"21 hdrcharset=BINARY\n", b"20 linkpath=../../xy\n",
]  # fmt: skip


class Case(NamedTuple):
    """``whole``: nothing is wrong with the archive, so it must be unpacked."""

    name: str
    content: bytes
    whole: bool = False


def tar(random_: random.Random, faults: int) -> bytes:
    buffer = io.BytesIO()
    form = random_.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=buffer, mode="w", format=form, errors="surrogateescape") as made:
        for name, data in FILES.items():
            made.addfile(_tar_member(name, tarfile.REGTYPE, "", len(data)), io.BytesIO(data))
        for _ in range(faults):
            kind = random_.choice(TYPES)
            member = _tar_member(random_.choice(NAMES), kind, random_.choice([*NAMES, *FILES]), 0)
            if kind == tarfile.REGTYPE:
                member.size = random_.choice((0, 7, LIMIT + 1))
            made.addfile(member, io.BytesIO(bytes(member.size)))
    return buffer.getvalue()


def _tar_member(name: str, kind: bytes, target: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    return member


def zipped(random_: random.Random, faults: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in FILES.items():
            made.writestr(name, data, random_.choice(METHODS))
        for _ in range(faults):
            entry = zipfile.ZipInfo("x")
            entry.filename = random_.choice(NAMES).encode(errors="replace").decode()
            entry.external_attr = random_.choice(MODES) << 16
            target = random_.choice([*NAMES, *FILES]).encode(errors="replace")
            made.writestr(entry, random_.choice((target, bytes(LIMIT + 1))), random_.choice(METHODS))
    return buffer.getvalue()


def case(number: int) -> Case:
    """The case with this number, always the same."""
    random_ = random.Random(number)
    if random_.random() < 0.35:
        return _zip_case(random_, number)
    form = random_.choice(list(PACKERS))
    fault = random_.choice(("none", "member", "member", "members", "header", "two", "zeros", "links", "sparse", "cut"))
    data = tar(random_, {"member": 1, "members": 3}.get(fault, 0))
    whole = fault == "none"
    if fault == "header":
        data = extended_header(random_.choice(RECORDS), random_.choice((b"x", b"g", b"X", b"L", b"K"))) + data
    elif fault == "two":
        data += tar(random_, 0)
    elif fault == "zeros":
        data = bytes(random_.choice((512, 1024, 10240)))
    elif fault == "links":
        data = link_bomb(random_.choice((3, 20, 400)))
    elif fault == "sparse":
        data = endless_sparse(random_) + data
    elif fault == "cut":
        data = data[: random_.randrange(len(data))]
    packed = PACKERS[form](data)
    if form == "tar.xz" and random_.random() < 0.2:
        packed, whole, fault = huge_dictionary(packed), False, f"{fault}, dictionary"
    if random_.random() < 0.3:
        packed, whole, fault = damaged(packed, random_), False, f"{fault}, damaged"
    return Case(f"{number}: {form}, {fault}", packed, whole)


def _zip_case(random_: random.Random, number: int) -> Case:
    faults = random_.choice((0, 1, 1, 3))
    data = zipped(random_, faults)
    fault = random_.choice(("none", "none", "none", "size", "method", "count", "damaged"))
    if fault == "size":
        data = replaced(data, 24, random_.choice((0, 10, 100_000, 2**32 - 2)).to_bytes(4, "little"), random_)
    elif fault == "method":
        data = replaced(data, 10, random_.choice((1, 9, 14, 12, 93, 99)).to_bytes(2, "little"), random_)
    elif fault == "count":
        data = data[:-12] + b"\xff" * random_.choice((2, 4)) + data[-10:]
    elif fault == "damaged":
        data = damaged(data, random_)
    return Case(f"{number}: zip, {faults} members, {fault}", data, fault == "none" and not faults)


def replaced(data: bytes, place: int, value: bytes, random_: random.Random) -> bytes:
    """The archive with ``value`` written into one entry of the zip directory, ``place`` bytes after its start."""
    starts = [start for start in range(len(data)) if data.startswith(b"PK\1\2", start)]
    start = random_.choice(starts) + place
    return data[:start] + value + data[start + len(value) :]


def damaged(data: bytes, random_: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(random_.choice((1, 1, 3))):
        place = random_.randrange(max(1, len(made)))
        kind = random_.choice(("flip", "cut", "end", "put"))
        if kind == "flip" and made:
            made[place] ^= random_.randrange(1, 256)
        elif kind == "cut":
            del made[place : place + random_.randrange(600)]
        elif kind == "end":
            del made[place:]
        else:
            made[place:place] = random_.randbytes(random_.randrange(600))
    return bytes(made)


def extended_header(data: bytes, kind: bytes) -> bytes:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = kind, len(data)
    return header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def link_bomb(links: int) -> bytes:
    """Links that each add a tenth of the allowed size, because a link counts as the file that it points to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        made.addfile(_tar_member("file", tarfile.REGTYPE, "", LIMIT // 10), io.BytesIO(bytes(LIMIT // 10)))
        for number in range(links):
            made.addfile(_tar_member(f"{number}", random.Random(number).choice((b"1", b"2")), "file", 0))
    return buffer.getvalue()


def endless_sparse(random_: random.Random) -> bytes:
    """A sparse file in the old GNU format whose map continues for many blocks."""
    block = bytearray(_tar_member("sparse", tarfile.GNUTYPE_SPARSE, "", 0).tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    more = bytearray(random_.randbytes(512)) if random_.random() < 0.5 else bytearray(512)
    more[504] = 1
    return bytes(block) + bytes(more) * random_.choice((1, 100, 3000))


def huge_dictionary(packed: bytes) -> bytes:
    """The same xz stream with a header that asks for a dictionary of 3 GiB."""
    made = bytearray(packed)
    made[16] = 39
    made[20:24] = zlib.crc32(made[12:20]).to_bytes(4, "little")
    return bytes(made)
