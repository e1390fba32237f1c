"""Hostile checkpoints: every way in which a pickle can name, call or become code, or exhaust the machine.

Each pickle is written by hand, opcode by opcode, and put into torch's formats. ``files(place)`` gives their names and
bytes; what is executed would create the file ``place``.
"""

import io
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

PROTO = b"\x80\x02"
STOP = b"."


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def call(module: str, attribute: str, *arguments: bytes) -> bytes:
    """REDUCE of a global."""
    return name(module, attribute) + b"(" + b"".join(arguments) + b"tR"


def table(*pairs: tuple[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in pairs) + b"u"


def storage(kind: str = "FloatStorage", key: str = "0", numel: bytes = b"K\x04") -> bytes:
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + numel + b"tQ"


def tensor(
    values: bytes = b"", offset: bytes = b"K\x00", shape: bytes = b"K\x04\x85", stride: bytes = b"K\x01\x85"
) -> bytes:
    hooks = name("collections", "OrderedDict") + b")R"
    called = name("torch._utils", "_rebuild_tensor_v2")
    return called + b"(" + (values or storage()) + offset + shape + stride + b"\x89" + hooks + b"tR"


def module(**state: bytes) -> bytes:
    """A pickled module with this state."""
    empty = {"_parameters": b"}", "_buffers": b"}", "_modules": b"}"}
    return name("torch.nn", "Module") + b")\x81" + table(*{**empty, **state}.items()) + b"b"


def beside(body: bytes) -> bytes:
    """A tuple of a module with a tensor, the body, and the module once more, with the body as an attribute."""
    attributes = {"_parameters": table(("w", tensor())), "attribute": body}
    return b"(" + module(_parameters=attributes["_parameters"]) + body + module(**attributes) + b"0t"


def calls(place: Path) -> dict[str, bytes]:
    """Pickles that would run code in Python's unpickler."""
    path = text(str(place))
    writes = call("builtins", "open", path, text("w"))
    command = text(f"touch {place}")
    return {
        "open": writes,
        "exec": call("builtins", "exec", text(f"open({str(place)!r}, 'w')")),
        "eval": call("builtins", "eval", text(f"open({str(place)!r}, 'w')")),
        "python 2": call("__builtin__", "open", path, text("w")),
        "os.system": call("os", "system", command),
        "posix.system": call("posix", "system", command),
        "subprocess": call("subprocess", "check_output", b"(" + text("touch") + path + b"l"),
        "import": call("importlib", "import_module", text("antigravity")),
        "getattr": call("builtins", "getattr", name("os", "path"), text("join")),
        "call of getattr": call("builtins", "getattr", name("torch.serialization", "os"), text("system"))
        + command
        + b"\x85R",
        "runpy": call("runpy", "run_path", path),
        "torch.load": call("torch", "load", path),
        "torch.hub": call("torch.hub", "load", path, path),
        "torch.save": call("torch", "save", b"K\x01", path),
        "numpy.save": call("numpy", "save", path, b"K\x01"),
        "pathlib": call("pathlib", "Path.touch", path),
        "partial": call("functools", "partial", name("os", "system"), command),
        "own class": call("networks", "explode", path),
        "dotted": call("torch", "serialization.os.system", command),
        "dotted data": call("collections", "OrderedDict.__init__.__globals__", path),
        "from_type": call(
            "torch._tensor",
            "_rebuild_from_type_v2",
            name("os", "system"),
            name("torch", "Tensor"),
            command + b"\x85",
            b"}",
        ),
        "inst": b"(" + command + b"ios\nsystem\n",
        "obj": b"(" + name("os", "system") + command + b"o",
        "newobj": name("subprocess", "Popen") + command + b"\x85\x81",
        "newobj_ex": name("subprocess", "Popen") + command + b"\x85}\x92",
        "stack_global": text("os") + text("system") + b"\x93" + command + b"\x85R",
        "setstate": name("torch.nn", "Module")
        + b")\x81"
        + table(("__setstate__", name("os", "system")))
        + b"b"
        + command
        + b"b",
        "build on a class": name("torch.nn", "Module") + b"}(" + text("forward") + name("os", "system") + b"ub",
        "defaultdict": call("collections", "defaultdict", name("os", "system")),
        "reconstructor": call("copyreg", "_reconstructor", name("os", "system"), name("builtins", "object"), b"N"),
        "nested": b"(" + b"(" * 50 + writes + b"t" * 50 + b"t",
    }


def bombs() -> dict[str, bytes]:
    """Pickles that would exhaust memory, time or the interpreter's stack."""
    doubling = b"(K\x01K\x02tq\x00" + b"".join(b"0(h\x00h\x00tq\x00" for _ in range(60))
    return {
        "deep tuples": b")" + b"\x85" * 200_000,
        "deep lists": b"]" * 100_000 + b"a" * 99_999,
        "deep key": b"}" + b")" + b"\x85" * 200_000 + b"K\x01s",
        "doubling key": b"}" + doubling + b"K\x01s",
        "doubling set": b"\x8f(" + doubling + b"\x90",
        "cycle": b"]q\x00h\x00a",
        "memo index": b"K\x01r\xff\xff\xff\xff",
        "many marks": b"(" * 500_000 + b"N",
        "too many steps": b"(" + b"N" * 2_100_000 + b"l",
        "repeated pairs": b"]q\x00("
        + b"(K\x01K\x02t" * 5000
        + b"e0"
        + (name("collections", "OrderedDict") + b"(h\x00tR0") * 5000
        + b"N",
        "long text": b"X\xff\xff\xff\xffabc",
        "long bytes": b"\x8e" + b"\xff" * 7 + b"\x7fabc",
        "long number": b"\x8b\xff\xff\xff\x7f\x01",
        "many digits": b"I" + b"9" * 5000 + b"\n",
        "frame": b"\x95" + b"\xff" * 7 + b"\x7fN",
        "colliding keys": b"}("
        + b"".join(b"\x8a\x0c" + ((2**61 - 1) * number).to_bytes(12, "little") + b"N" for number in range(50_000))
        + b"u",
    }


def damage() -> dict[str, bytes]:
    """Pickles that are wrong in some other way, most of them with tensors."""
    big = b"\x8a\x08" + (2**62).to_bytes(8, "little")
    return {
        "extension 1": b"\x82\x01",
        "extension 2": b"\x83\x01\x00",
        "extension 4": b"\x84\x01\x00\x00\x00",
        "persistent text": b"Psome\n",
        "persistent number": b"K\x01Q",
        "persistent tuple": b"(" + text("os") + text("system") + b"tQ",
        "persistent module": b"(" + text("module") + name("os", "system") + text("x") + text("y") + b"tQ",
        "names that are numbers": b"K\x01K\x02\x93",
        "buffer": b"\x97",
        "unknown opcode": b"\xff",
        "no value": b"",
        "empty stack": b"R",
        "no mark": b"K\x01t",
        "no memo": b"h\x07",
        "append to a number": b"K\x01K\x02a",
        "item of a list": b"]K\x01K\x02s",
        "odd items": b"}(K\x01u",
        "attributes of a number": b"K\x01}b",
        "call of a text": text("os.system") + b")R",
        "offset outside": table(("a", tensor(offset=b"K\x05"))),
        "shape outside": table(("a", tensor(shape=b"K\x05\x85"))),
        "stride outside": table(("a", tensor(stride=b"K\x02\x85"))),
        "huge shape": table(("a", tensor(shape=big + b"\x85", stride=b"K\x00\x85"))),
        "huge product": table(("a", tensor(shape=big + big + b"\x86", stride=b"K\x00K\x00\x86"))),
        "huge and empty": table(("a", tensor(shape=big + big + b"K\x00\x87", stride=b"K\x00K\x00K\x00\x87"))),
        "negative offset": table(("a", tensor(offset=b"J\xff\xff\xff\xff"))),
        "negative shape": table(("a", tensor(shape=b"J\xff\xff\xff\xff\x85"))),
        "negative stride": table(("a", tensor(offset=b"K\x03", stride=b"J\xff\xff\xff\xff\x85"))),
        "dimensions": table(("a", tensor(shape=b"(" + b"K\x01" * 90 + b"t", stride=b"(" + b"K\x01" * 90 + b"t"))),
        "shape of texts": table(("a", tensor(shape=text("4") + b"\x85"))),
        "shape and stride": table(("a", tensor(stride=b")"))),
        "storage too long": table(("a", tensor(storage(numel=b"K\x05")))),
        "storage too short": table(("a", tensor(storage(numel=b"K\x03")))),
        "storage of huge length": table(("a", tensor(storage(numel=b"\x8a\x0a" + b"\xff" * 9 + b"\x7f")))),
        "storage of another type": table(("a", tensor(storage("DoubleStorage")))),
        "storage of no type": table(("a", tensor(storage("os")))),
        "storage elsewhere": table(("a", tensor(storage(key="../../data.pkl")))),
        "tensor without values": table(("a", tensor(b"N"))),
        "parameter without values": table(("a", call("torch._utils", "_rebuild_parameter", b"K\x01", b"\x88", b"N"))),
        "number as a key": b"}" + b"K\x01" + tensor() + b"s",
        "nothing as a key": b"}" + b"N" + tensor() + b"s",
        "a number": b"K\x01",
        "a class": name("networks", "CUB_Network"),
    }


def in_zip(body: bytes, **members: bytes) -> bytes:
    """A pickle in torch's zip format, beside one storage of four numbers."""
    out = io.BytesIO()
    content = {
        "data.pkl": PROTO + body + STOP,
        "byteorder": b"little",
        "data/0": bytes(16),
        "version": b"3\n",
        **members,
    }
    with zipfile.ZipFile(out, "w") as archive:
        for member, data in content.items():
            archive.writestr(f"archive/{member}", data)
    return out.getvalue()


def in_legacy(body: bytes) -> bytes:
    """A pickle in torch's format before version 1.6; its storages, if any, follow."""
    head = b"".join(
        pickle.dumps(value, 2)
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001})
    )
    keys = ["0"] if b"storage" in body else []
    tail = pickle.dumps(keys, 2) + (struct.pack("<q", 4) + bytes(16) if keys else b"")
    # persistent ids of this format have one more part
    return head + PROTO + body.replace(text("cpu") + b"K\x04tQ", text("cpu") + b"K\x04NtQ") + STOP + tail


FORMATS: dict[str, Callable[[bytes], bytes]] = {
    "zip": in_zip,
    "legacy": in_legacy,
    "bare": lambda body: PROTO + body + STOP,
    "weight": lambda body: in_zip(table(("a", body))),
    "legacy weight": lambda body: in_legacy(table(("a", body))),
    "beside": lambda body: in_zip(beside(body)),
    "legacy beside": lambda body: in_legacy(beside(body)),
}


def archives() -> dict[str, bytes]:
    """Archives whose members are not what ``torch.save`` writes."""
    good = table(("a", tensor()))
    whole = in_zip(good)
    deflated, bomb, twice, locked = io.BytesIO(), io.BytesIO(), io.BytesIO(), bytearray(whole)
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", PROTO + good + STOP)
        archive.writestr("archive/data/0", bytes(16))
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("archive/data.pkl", "w") as member:
        member.write(PROTO + b"(")
        for _ in range(64):
            member.write(b"]" * (1 << 20))
        member.write(b"l.")
    with zipfile.ZipFile(twice, "w") as archive:
        for body in (good, call("os", "system", text("true"))):
            archive.writestr("archive/data.pkl", PROTO + body + STOP)
    for place in range(len(locked) - 4):
        if locked[place : place + 4] == b"PK\x01\x02":
            locked[place + 8] |= 1
    return {
        "deflated": deflated.getvalue(),
        "deflated bomb": bomb.getvalue(),
        "two pickles": twice.getvalue(),
        "two folders": in_zip(good, **{"../other/data.pkl": b"N."}),
        "encrypted": bytes(locked),
        "program": in_zip(good, **{"constants.pkl": PROTO + b")" + STOP}),
        "big-endian": in_zip(good, byteorder=b"big"),
        "odd byte order": in_zip(good, byteorder=b"\xff\xfe"),
        "two objects": in_zip(good + STOP + PROTO + good),
        "trailing legacy": in_legacy(good) + b"more",
        "truncated legacy": in_legacy(good)[:-1],
        "truncated zip": whole[:-30],
        "wrong checksum": whole.replace(bytes(16), b"\x01" + bytes(15), 1),
        "no pickle": in_zip(good).replace(b"data.pkl", b"data.pkx"),
        "empty": b"",
        "page": b"<!DOCTYPE html><html></html>",
        "tar": b"storages\0" + bytes(600),
        "overlapping": _overlapping(whole),
    }


def _overlapping(whole: bytes) -> bytes:
    """Many members that share the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", PROTO + table(("a", tensor())) + STOP)
        archive.writestr("archive/data/0", bytes(16))
        archive.writestr("archive/big", bytes(1 << 16))
        big = archive.infolist()[-1]
        for number in range(100):
            again = zipfile.ZipInfo(f"archive/big{number}")
            again.header_offset, again.CRC = big.header_offset, big.CRC
            again.file_size = again.compress_size = big.file_size
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    return out.getvalue()


def unusual_tensors() -> dict[str, torch.Tensor]:
    """Tensors that torch saves, but that cannot be weights."""
    return {
        "sparse": torch.eye(2).to_sparse(),
        "csr": torch.eye(2).to_sparse_csr(),
        "meta": torch.empty(2, 2, device="meta"),
        "quantised": torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8),
    }


def files(place: Path) -> Iterator[tuple[str, bytes]]:
    """Every hostile file: its name and its bytes."""
    for form, put in FORMATS.items():
        for kind, body in {**calls(place), **damage()}.items():
            yield f"{form}: {kind}", put(body)
    for kind, body in bombs().items():
        for form in ("zip", "legacy"):
            yield f"{form}: {kind}", FORMATS[form](body)
    yield from archives().items()
