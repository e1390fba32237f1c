"""Files of torch.save, read as data: the same tensors as torch's own reader, and nothing else."""

import io
import pickle
import sys
import zipfile

import pytest
import torch
from torch import nn

from recheck.errors import UserError
from recheck.models import pickled, torch_file
from recheck.models.tensors import fit, read_tensors
from support.datasets import original_layouts
from support.faults import hostile_pickles

WHAT = "Weights"
FORMATS = [(False, 2), (False, 4), (True, 2), (True, 1)]


class Block(nn.Module):
    """A module with everything that a state_dict() knows: submodules, a shared one, buffers, and None."""

    def __init__(self, depth: int = 2):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3, bias=False)])
        self.again = self.layers[0]
        self.activation = torch.relu
        self.settings = {"depth": depth, (1, 2): {"a"}, None: slice(1, 2)}
        self.register_buffer("kept", torch.arange(4))
        self.register_buffer("forgotten", torch.ones(2), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("absent", None)
        self.inner = Block(depth - 1) if depth else None


Block.__module__ = "networks"


def same(actual, expected):
    return list(actual) == list(expected) and all(
        torch.equal(actual[name], tensor) and actual[name].dtype == tensor.dtype for name, tensor in expected.items()
    )


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
@pytest.mark.parametrize(("legacy", "protocol"), FORMATS)
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda module: module,
        nn.DataParallel,
        lambda module: (module, [0.5, 0.25], original_layouts.gradient_scaler()),
        lambda module: (nn.DataParallel(module), [], None),
        lambda module: {
            "epoch": 3,
            "model": module,
            "optimiser": torch.optim.Adam(module.parameters()),
            "loss": nn.ReLU(),
        },
        lambda module: module.state_dict(),
        lambda module: dict(module.state_dict()),
    ],
)
def test_a_module_gives_its_state_dict(tmp_path, wrapped, legacy, protocol):
    module = Block()
    content = wrapped(module)
    original_layouts.save(tmp_path / "a.pt", content, legacy, protocol)
    assert "networks" not in sys.modules
    assert same(read_tensors(tmp_path / "a.pt", WHAT), module.state_dict())
    assert "networks" not in sys.modules, "no module of a file is imported"


def test_a_module_that_was_trained_with_adam(tmp_path):
    """An optimiser's state has tensors as keys."""
    module = nn.Linear(2, 2)
    optimiser = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    torch.save([optimiser, module], tmp_path / "a.pt")
    assert same(read_tensors(tmp_path / "a.pt", WHAT), module.state_dict())


@pytest.mark.parametrize("legacy", [False, True])
def test_tensors_of_every_shape_and_type(tmp_path, legacy):
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "view": base[1:3, ::2],
        "transposed": base.T,
        "expanded": torch.ones(1).expand(3, 5),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 7),
        "parameter": nn.Parameter(base.clone()),
        "noted": nn.Parameter(base.clone()),
        **{
            str(dtype): torch.arange(5).to(dtype)
            for dtype in (
                torch.float16,
                torch.bfloat16,
                torch.float64,
                torch.int8,
                torch.uint8,
                torch.int64,
                torch.bool,
            )
        },
        "complex": torch.ones(2, dtype=torch.complex64),
    }
    tensors["noted"].attribute = "kept beside the values"
    if not legacy:
        tensors["uint16"] = torch.arange(5).to(torch.uint16)  # in an untyped storage
    torch.save(tensors, tmp_path / "a.pth", _use_new_zipfile_serialization=not legacy)
    assert same(read_tensors(tmp_path / "a.pth", WHAT), torch.load(tmp_path / "a.pth", weights_only=True))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ((nn.Linear(2, 2), nn.Linear(2, 2)), "contain 2 modules ('0', '1'), expected one"),
        ((nn.ReLU(), [0.5]), "must be a state_dict().*or a module, found a value of type tuple"),
        ({"model": {"a": torch.ones(1)}}, "must be a state_dict().*found something else at 'model'"),
        (torch.ones(1), "found a single tensor"),
        ({1: torch.ones(1)}, "must map names to tensors, found a key of type int"),
        ({("a", 1): torch.ones(1)}, "found a key of type tuple"),
        ({None: torch.ones(1), "a": torch.ones(1)}, "found a key of type NoneType"),
        (torch.optim.SGD([torch.ones(1)]), "found an object of class 'torch.optim.sgd.SGD'"),
    ],
)
def test_other_content_is_described(tmp_path, content, sentence):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(UserError) as caught:
        read_tensors(tmp_path / "a.pth", WHAT)
    assert all(words in str(caught.value) for words in sentence.split(".*")) and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sparse", "csr", "meta", "quantised"])
def test_tensors_without_ordinary_numbers_are_named(tmp_path, kind):
    torch.save({"fine": torch.ones(1), "odd": hostile_pickles.unusual_tensors()[kind]}, tmp_path / "a.pth")
    with pytest.raises(
        UserError, match=r"a\.pth' contain the tensor 'odd' \(.*\), expected a tensor of ordinary numbers"
    ):
        read_tensors(tmp_path / "a.pth", WHAT)


def test_odd_names_do_not_spoil_the_message(tmp_path):
    torch.save({"a\n\x1b[31m" + "b" * 5000: hostile_pickles.unusual_tensors()["meta"]}, tmp_path / "a.pth")
    with pytest.raises(UserError) as caught:
        read_tensors(tmp_path / "a.pth", WHAT)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        # a module that contains itself, and 60 modules that each contain the next one twice
        (
            hostile_pickles.name("torch.nn", "Module")
            + b")\x81q\x00"
            + hostile_pickles.table(("_parameters", b"}"), ("_modules", hostile_pickles.table(("a", b"h\x00"))))
            + b"b",
            "has too many modules, or modules that contain each other",
        ),
        (
            hostile_pickles.module(_parameters=hostile_pickles.table(("w", hostile_pickles.tensor())))
            + b"q\x00"
            + b"".join(
                hostile_pickles.module(_modules=hostile_pickles.table(("a", b"h\x00"), ("b", b"h\x00"))) + b"q\x00"
                for _ in range(60)
            ),
            "has too many modules, or modules that contain each other",
        ),
        # the same, with many entries without a tensor in the innermost module, or with a long name
        *(
            (
                hostile_pickles.module(**{name: many})
                + b"q\x00"
                + b"".join(
                    hostile_pickles.module(_modules=hostile_pickles.table(("a", b"h\x00"), ("b", b"h\x00"))) + b"q\x00"
                    for _ in range(12)
                ),
                "has too many modules, or modules that contain each other",
            )
            for name, many in (
                ("_parameters", hostile_pickles.table(*((f"{number}", b"N") for number in range(1000)))),
                ("_non_persistent_buffers_set", b"](" + hostile_pickles.text("a") * 1000 + b"e"),
            )
        ),
        (
            hostile_pickles.module(_parameters=hostile_pickles.table(("w" * 5000, hostile_pickles.tensor()))),
            "has a tensor with a name of 5,000 characters, 'www",
        ),
        (
            hostile_pickles.module(_parameters=hostile_pickles.table(("w", b"K\x01"))),
            "has no tensor at 'w', where its module should have one",
        ),
        (
            hostile_pickles.module(_modules=hostile_pickles.table(("w", b"K\x01"))),
            "has no module at 'w', where its module should have one",
        ),
    ],
)
def test_malformed_modules(tmp_path, body, sentence):
    (tmp_path / "a.pt").write_bytes(hostile_pickles.in_zip(body))
    with pytest.raises(UserError, match=f"cannot be read: the file {sentence}"):
        read_tensors(tmp_path / "a.pt", WHAT)


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path):
    """A few kilobytes of deflated opcodes would take gigabytes as Python objects."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02(" + b"]" * (1 << 24) + b"l.")
    (tmp_path / "a.pth").write_bytes(out.getvalue())
    with pytest.raises(
        UserError, match=r"has a compressed member, 'archive/data\.pkl', but torch\.save never compresses"
    ):
        read_tensors(tmp_path / "a.pth", WHAT)


def test_a_pickle_with_too_many_elements_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pickled, "STEPS", 1000)
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pth")
    assert list(read_tensors(tmp_path / "a.pth", WHAT)) == ["a"]
    torch.save({"a": list(range(1000))}, tmp_path / "a.pth")
    with pytest.raises(
        UserError, match=r"is too complex for a checkpoint \(more than 1,000 elements besides its tensors"
    ):
        read_tensors(tmp_path / "a.pth", WHAT)


def test_a_collection_of_many_modules_is_refused(tmp_path):
    """Walking through the same module a million times would take hours."""
    many = b"](" + hostile_pickles.module() + b"q\x00" + b"h\x00" * 100 + b"e"
    (tmp_path / "a.pt").write_bytes(hostile_pickles.in_zip(many))
    with pytest.raises(UserError, match=r"a\.pt' contain 101 modules, expected one\."):
        read_tensors(tmp_path / "a.pt", WHAT)


def test_a_long_size_is_not_copied():
    """A list that is copied by every mention of it would take all memory."""
    sizes = [1] * 17
    call = pickled.Thing(pickled.Global("torch", "Size"), (sizes,))
    assert torch_file._rebuilt(call) is call
    assert torch_file._rebuilt(pickled.Thing(call.kind, (sizes[:16],))) == (1,) * 16


def test_parts_of_a_storage_share_its_memory(tmp_path):
    """In the older format, a small file may describe any number of parts of the same values."""
    hooks = hostile_pickles.name("collections", "OrderedDict") + b")R"
    parts = {}
    for first in range(3):
        view = hostile_pickles.text("part") + bytes([ord("K"), first]) + bytes([ord("K"), 4 - first]) + b"\x87"
        values = hostile_pickles.storage()[:-2] + view + b"tQ"
        shape = bytes([ord("K"), 4 - first]) + b"\x85"
        called = hostile_pickles.name("torch._utils", "_rebuild_tensor_v2")
        parts[f"from {first}"] = called + b"(" + values + b"K\x00" + shape + b"K\x01\x85\x89" + hooks + b"tR"
    content = hostile_pickles.in_legacy(hostile_pickles.table(*parts.items()))
    (tmp_path / "a.pth").write_bytes(content[:-16] + torch.arange(4.0).numpy().tobytes())
    tensors = read_tensors(tmp_path / "a.pth", WHAT)
    assert [tensor.tolist() for tensor in tensors.values()] == [[0, 1, 2, 3], [1, 2, 3], [2, 3]]
    assert [tensor.data_ptr() - tensors["from 0"].data_ptr() for tensor in tensors.values()] == [0, 4, 8]


def test_values_of_two_types_are_refused(tmp_path):
    two = [
        hostile_pickles.tensor(hostile_pickles.storage(kind, numel=numel), shape=b"K\x01\x85")
        for kind, numel in (("FloatStorage", b"K\x04"), ("IntStorage", b"K\x04"))
    ]
    content = hostile_pickles.in_zip(hostile_pickles.table(("a", two[0]), ("b", two[1])))
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(UserError, match="describes the values of tensor '0' twice"):
        read_tensors(tmp_path / "a.pth", WHAT)


@pytest.mark.parametrize(("name", "dtype"), [("weight", "float4_e2m1fn_x2"), ("count", "uint4")])
def test_numbers_that_torch_cannot_convert_are_refused(name, dtype):
    network = nn.Module()
    network.register_buffer("weight", torch.ones(2))
    network.register_buffer("count", torch.ones(2, dtype=torch.int64))
    odd = torch.frombuffer(bytearray(2), dtype=getattr(torch, dtype))
    kind = "floating-point" if name == "weight" else "whole"
    with pytest.raises(UserError, match=f"'{name}' must have {kind} numbers, found {dtype}; use a file"):
        fit(network, {**network.state_dict(), name: odd}, WHAT)


def test_every_opcode_of_pickle_is_known_or_refused():
    """A new opcode of Python's pickle must be considered here."""
    machine = pickled._Machine(lambda identifier: identifier, lambda call: call)
    opcodes = {opcode.name for opcode in __import__("pickletools").opcodes}
    refused = set()
    for name in opcodes - {"STOP"}:
        machine.stack, machine.memo = [pickled.Mark, pickled.Table(), "a", "b"], {0: 1}
        try:
            machine.do(name, "0 x" if name in ("GLOBAL", "INST") else 0)
        except pickled.Refused as error:
            if "an operation that no checkpoint needs" in str(error):
                refused.add(name)
        except (IndexError, KeyError, TypeError, ValueError, AttributeError):
            pass
    assert refused == {"PERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}
    assert pickle.HIGHEST_PROTOCOL == 5, "read the changes of the new protocol"
