"""Files written by ``torch.save``, in the zip format or the older one, read without running code in them.

The pickle inside is read by :mod:`recheck.models.pickled`. A tensor stays a description (``Stored``) until its values
are needed, and memory is bounded by the size of the file, because ``torch.save`` never compresses.
"""

import errno
import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch

from recheck.models import pickled
from recheck.models.pickled import AGAIN, Global, Refused, Table, Thing, shown

PICKLE_BYTES = 32 << 20
"""Largest pickle of a checkpoint. Tensors are stored beside it; a whole ResNet-50 has 100 kB."""
DIMENSIONS, NUMBERS = 16, 1 << 31
"""Maximum dimensions and numbers of a tensor; repeated numbers (stride 0) are stored once, so a file may be small."""
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
ZIP, MEMBER_BYTES = b"PK\x03\x04", 1 << 62
DAMAGED = "is damaged or has another format"
STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "UntypedStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "QInt8Storage": torch.qint8,
    "QUInt8Storage": torch.quint8,
    "QInt32Storage": torch.qint32,
}
STORAGE_MODULES = ("torch", "torch.cuda", "torch.storage")
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class Storage:
    """The numbers of one or more tensors; ``read`` gets their bytes from the file, once."""

    def __init__(self, dtype: torch.dtype, numel: int, read: Callable[[int], bytearray | memoryview]):
        self.dtype, self.bytes = dtype, numel * dtype.itemsize
        self._read, self._data = read, None

    def data(self) -> bytearray | memoryview:
        if self._data is None:
            self._data = self._read(self.bytes)
            if len(self._data) != self.bytes:
                raise Refused(f"is damaged (a tensor in it has {len(self._data):,} bytes, expected {self.bytes:,})")
        return self._data


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor in a file. ``kind`` is empty for an ordinary one; sparse, quantised and other tensors have no values."""

    kind: str = ""
    storage: Storage | None = None
    dtype: torch.dtype = torch.float32
    offset: int = 0
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()

    def tensor(self) -> torch.Tensor:
        """A view of the stored values."""
        try:
            if 0 in self.shape:
                return torch.empty(self.shape, dtype=self.dtype)
            flat = torch.frombuffer(self.storage.data(), dtype=self.dtype)
            return flat.as_strided(self.shape, self.stride, self.offset)
        except (RuntimeError, ValueError) as error:  # sizes that are too large even for an address
            raise Refused("is damaged (the shape of a tensor in it is wrong)") from error


def read(path: Path) -> Any:
    """The content of a file: dictionaries (``Table``), lists, tuples, tensors (``Stored``) and ``Thing``.

    Storages are read from the file when a tensor is used, so the file must stay in its place.
    """
    with path.open("rb") as file:
        start = file.read(len(ZIP))
        file.seek(0)
        try:
            return _read_zip(path) if start == ZIP else _read_legacy(path, file)
        except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, LookupError) as error:
            raise Refused(DAMAGED) from error
        except (NotImplementedError, RuntimeError, OSError, ValueError) as error:  # raised by zipfile for odd members
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a bad position
                raise
            raise Refused(DAMAGED) from error


# The zip format


def _read_zip(path: Path) -> Any:
    """A zip archive with one folder: ``data.pkl`` and a file ``data/<key>`` per storage, none of them compressed."""
    archive = zipfile.ZipFile(path)  # stays open, and is closed with the last tensor
    members = _members(archive, path.stat().st_size)
    pickles = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise Refused("has no 'data.pkl' in its top folder, so torch.save did not write it")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in members:
        raise Refused("is a TorchScript program, not a checkpoint")
    order = _read_member(archive, f"{folder}byteorder", 16).decode() if f"{folder}byteorder" in members else "little"
    if order != sys.byteorder:
        raise Refused(f"has {shown(order)}-endian numbers, but this machine is {sys.byteorder}-endian")
    known: dict[str, Storage] = {}

    def storage(identifier: Any) -> Storage:
        dtype, key, numel = _storage_id(identifier)
        name = f"{folder}data/{key}"
        if members.get(name) != numel * dtype.itemsize:
            raise Refused(
                f"is damaged (the values '{shown(key)}' of a tensor have {members.get(name, 0):,} bytes, expected "
                f"{numel * dtype.itemsize:,})"
            )
        made = known.setdefault(key, Storage(dtype, numel, partial(_read_member, archive, name)))
        if made.dtype != dtype:
            raise _twice(key)
        return made

    return _one(io.BytesIO(_read_member(archive, pickles[0], PICKLE_BYTES)), storage)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, int]:
    """Name → size of every member of an archive; refuses what would take more memory than the file has bytes."""
    members: dict[str, int] = {}
    for about in archive.infolist():
        if about.filename in members:
            raise Refused(f"is damaged (it has two members '{shown(about.filename)}')")
        if about.flag_bits & 1:
            raise Refused("is encrypted")
        if about.compress_type != zipfile.ZIP_STORED or about.compress_size != about.file_size:
            raise Refused(f"has a compressed member, '{shown(about.filename)}', but torch.save never compresses", AGAIN)
        members[about.filename] = about.file_size
    if sum(members.values()) > size:
        raise Refused("is damaged (its members overlap)")
    return members


def _read_member(archive: zipfile.ZipFile, name: str, most: int) -> bytearray:
    """The content of a member of at most ``most`` bytes; its checksum is verified."""
    try:
        with archive.open(name) as member:
            content = bytearray(member.read(most + 1))
    except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Refused(f"is damaged ('{shown(name)}' in it cannot be read)") from error
    if len(content) > most:
        raise Refused(f"has more than {most:,} bytes in '{shown(name)}'")
    return content


# The format before torch 1.6


def _read_legacy(path: Path, file: BinaryIO) -> Any:
    """Five pickles (a magic number, a version, the machine, the content, a list of keys), then the storages."""
    head = io.BytesIO(file.read(PICKLE_BYTES))
    if _plain(head) != MAGIC:
        raise Refused(DAMAGED)
    if _plain(head) != PROTOCOL:
        raise Refused("has an unknown version of torch's format")
    machine = _plain(head)
    if type(machine) is not Table or machine.get("little_endian", True) is not (sys.byteorder == "little"):
        raise Refused("was written on a machine with another byte order")
    roots: dict[str, Storage] = {}
    starts: dict[str, int] = {}

    def storage(identifier: Any) -> Any:
        if type(identifier) is tuple and len(identifier) == 4 and identifier[0] == "module":
            return identifier[1]  # a class with its source code, which is not used
        dtype, key, numel = _storage_id(identifier)

        def get(size: int) -> bytearray:
            with path.open("rb") as reopened:
                reopened.seek(starts[key])
                return bytearray(reopened.read(size))

        root = roots.setdefault(key, Storage(dtype, numel, get))
        if (root.dtype, root.bytes) != (dtype, numel * dtype.itemsize):
            raise _twice(key)
        if len(identifier) == 5 or identifier[5] is None:
            return root
        view = identifier[5]  # a part of another storage, whose values it shares
        if type(view) is not tuple or len(view) != 3 or not all(_natural(number) for number in view[1:]):
            raise Refused(DAMAGED)
        first, count = (number * dtype.itemsize for number in view[1:])
        if first + count > root.bytes:
            raise Refused("is damaged (a part of a tensor lies outside of it)")
        return Storage(dtype, view[2], lambda size: memoryview(root.data())[first : first + size])

    content = _one(head, storage, whole=False)
    keys = _plain(head)
    if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(roots):
        raise Refused("is damaged (its list of tensors does not match its content)")
    place, size = head.tell(), path.stat().st_size
    for key in keys:
        numel = roots[key].bytes // roots[key].dtype.itemsize
        file.seek(place)
        (count,) = struct.unpack("<q", file.read(8))
        if count != numel:
            raise Refused(f"is damaged (tensor '{shown(key)}' has {count:,} values, expected {numel:,})")
        starts[key] = place + 8
        place = starts[key] + roots[key].bytes
        if place > size:
            raise Refused("is damaged (it ends early)")
    if place != size:
        raise Refused(f"is damaged ({size - place:,} bytes follow its end)")
    return content


def _twice(key: str) -> Refused:
    return Refused(f"is damaged (it describes the values of tensor '{shown(key)}' twice)")


def _plain(file: io.BytesIO) -> Any:
    """The next pickle, which has no tensors."""
    return pickled.read(file, _no_storage)


def _no_storage(identifier: Any) -> Any:
    raise Refused(DAMAGED)


# Tensors


def _one(file: io.BytesIO, storage: Callable[[Any], Any], whole: bool = True) -> Any:
    content = pickled.read(file, storage, _rebuilt)
    if whole and file.read(1):
        raise Refused("is damaged (bytes follow the end of its pickle)")
    return content


def _storage_id(identifier: Any) -> tuple[torch.dtype, str, int]:
    """Type, key and length of a storage: ``("storage", type, key, location, length, …)``."""
    if type(identifier) is not tuple or not 5 <= len(identifier) <= 6 or identifier[0] != "storage":
        raise Refused("is damaged (it refers to something that is not a tensor's values)")
    kind, key, numel = identifier[1], identifier[2], identifier[4]
    if type(kind) is not Global or kind.module not in STORAGE_MODULES or kind.name not in STORAGES:
        raise Refused(f"has values of an unknown type, '{kind if type(kind) is Global else shown(kind)}'")
    if type(key) is not str or not _natural(numel) or numel > MEMBER_BYTES:
        raise Refused("is damaged (the description of a tensor's values is wrong)")
    return STORAGES[kind.name], key, numel


def _rebuilt(call: Thing) -> Any:
    """The tensor that a call of torch describes; other calls are returned unchanged."""
    module, name = call.kind
    arguments = call.arguments
    if call.kind == ("torch._tensor", "_rebuild_from_type_v2"):  # of a subclass of Tensor, or with attributes
        rebuild, arguments = (arguments[0], arguments[2]) if len(arguments) > 2 else (None, None)
        if type(rebuild) is not Global or type(arguments) is not tuple or rebuild == call.kind:
            raise Refused(DAMAGED)
        if rebuild not in pickled.CALLS:
            raise pickled.refused_call(rebuild)
        return _rebuilt(Thing(rebuild, arguments))
    if call.kind == ("torch", "Size"):
        # a longer one stays as it is: copying the same list again and again would take all memory
        sizes = arguments[0] if arguments else None
        return tuple(sizes) if isinstance(sizes, (tuple, list)) and len(sizes) <= DIMENSIONS else call
    if module != "torch._utils":
        return call
    if name in ("_rebuild_parameter", "_rebuild_parameter_with_state"):
        if not arguments or type(arguments[0]) is not Stored:
            raise Refused("is damaged (a parameter in it has no values)")
        return arguments[0]
    if name not in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        return Stored(name.removeprefix("_rebuild_").removesuffix("_no_storage").replace("_", " "))
    if len(arguments) < 4 or type(arguments[0]) is not Storage:
        raise Refused("is damaged (a tensor in it has no values)")
    dtype = arguments[0].dtype
    if name == "_rebuild_tensor_v3":
        named = arguments[6] if len(arguments) > 6 else None
        if type(named) is not Global or named.module != "torch" or named.name not in DTYPES:
            raise Refused("has a tensor of an unknown type")
        dtype = DTYPES[named.name]
    return _strided(arguments[0], dtype, *arguments[1:4])


def _strided(storage: Storage, dtype: torch.dtype, offset: Any, shape: Any, stride: Any) -> Stored:
    """A tensor, if all of its elements lie inside its storage."""
    sizes = (*shape, *stride, offset) if type(shape) is tuple and type(stride) is tuple else (None,)
    if not all(map(_natural, sizes)) or len(shape) != len(stride) or len(shape) > DIMENSIONS:
        raise Refused("is damaged (the shape of a tensor in it is wrong)")
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if 0 not in shape and (last + 1) * dtype.itemsize > storage.bytes:
        raise Refused("is damaged (a tensor in it lies outside of its values)")
    if math.prod(shape) > NUMBERS or max(sizes) > MEMBER_BYTES:
        raise Refused("is damaged (the shape of a tensor in it is wrong)")
    quantised = "quantised" if str(dtype).startswith(("torch.qint", "torch.quint")) else ""
    return Stored(quantised, storage, dtype, offset, shape, stride)


def _natural(number: Any) -> bool:
    return type(number) is int and number >= 0
