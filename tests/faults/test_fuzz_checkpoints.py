"""Garbage in checkpoints is detected and never used, and code inside a checkpoint is never run."""

import hashlib
import io
import logging
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from safetensors.torch import save_file

from recheck import seal
from recheck.data.packed import PackedImages
from recheck.errors import UserError
from recheck.evaluation.embeddings import read_embeddings, write_embeddings
from recheck.models.backbones import build_backbone
from recheck.models.embedding import load_any, load_model, save_model
from recheck.models.released import convert, convert_mlrc
from recheck.models.tensors import read_tensors
from recheck.report import toy
from recheck.training.checkpoint import StateFile
from support.datasets import original_layouts
from support.faults import hostile_pickles
from support.faults.fuzz import MORE, Outcomes, answer, check_examples, damaged, only_below

SPEC = {
    "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"},
    "head": {"class": "Linear", "dim": 4},
}
DATA = {"split": "s", "pixels": "p"}
CPU = torch.device("cpu")
TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.int64)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from recheck.models.embedding import EmbeddingModel

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_model(path, EmbeddingModel(SPEC).state_dict(), SPEC, DATA)
    return path


def test_a_damaged_model_is_refused(model, tmp_path, record_property):
    """Cut, flipped or zeroed anywhere: in a tensor, a name, a shape, the metadata."""
    whole, path = model.read_bytes(), tmp_path / "model.safetensors"

    def check(content):
        path.write_bytes(content)
        result = answer(load_model, path, SPEC, DATA, CPU)
        assert isinstance(result, UserError) == (content != whole)
        if content != whole:
            assert f"{path} is damaged" in str(result) and "delete it and run again" in str(result)

    check(whole)
    check_examples(60, damaged(whole), record_property, check)


def test_every_flipped_byte_of_embeddings_is_detected(tmp_path, record_property):
    path = tmp_path / "embeddings.safetensors"
    write_embeddings(path, {"test": np.arange(8, dtype=np.float32).reshape(4, 2)})
    whole = path.read_bytes()
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"embeddings\.safetensors is damaged"):
            read_embeddings(path)
        path.write_bytes(whole[:place])
        with pytest.raises(UserError, match="is damaged"):
            read_embeddings(path)
    path.write_bytes(whole)
    assert read_embeddings(path)["test"].sum() == 28
    record_property("tried", 2 * len(whole))


def test_sealed_files_are_bit_identical_each_time(tmp_path):
    for name in "ab":
        save_model(tmp_path / name, TENSORS, SPEC, DATA)
        write_embeddings(tmp_path / f"{name}.e", {"query": np.ones((2, 2)), "gallery": np.zeros((1, 2))})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.e").read_bytes() == (tmp_path / "b.e").read_bytes()


def test_an_unsealed_file_and_a_missing_file_are_refused(tmp_path):
    save_file(TENSORS, tmp_path / "plain.safetensors")
    with pytest.raises(UserError, match=r"plain\.safetensors is damaged"):
        read_embeddings(tmp_path / "plain.safetensors")
    with pytest.raises(UserError, match=r"gone\.safetensors is missing: run again"):
        load_model(tmp_path / "gone.safetensors", SPEC, DATA, CPU)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("head.weight", None, "do not fit the network: its tensor 'head.weight' is missing from the file"),
        ("head.weight", torch.ones(4, 3), "'head.weight' must have shape (4, 32), found (4, 3)"),
        (
            "head.weight",
            torch.ones(4, 32, dtype=torch.bool),
            "'head.weight' must have floating-point numbers, found bool",
        ),
        ("head.weight", torch.ones(4, 32, dtype=torch.int64), "must have floating-point numbers, found int64"),
        ("head.weight", torch.ones(4, 32, dtype=torch.complex64), "must have floating-point numbers, found complex64"),
        ("head.weight", torch.full((4, 32), torch.nan), "'head.weight' contains NaN or infinite values"),
        (
            "head.weight",
            torch.full((4, 32), 1e300, dtype=torch.float64),
            "'head.weight' contains NaN or infinite values",
        ),
        ("head.bias", torch.full((4,), -torch.inf), "'head.bias' contains NaN or infinite values"),
        ("module.head.bias", torch.ones(4), "contain both 'module.head.bias' and 'head.bias'"),
        ("head.scale", torch.ones(4), "it has no tensor 'head.scale'"),
        ("\x1b[31m", torch.ones(4), "it has no tensor"),
    ],
)
def test_wrong_tensors_with_a_valid_seal(tmp_path, name, value, sentence):
    from recheck.models.embedding import EmbeddingModel

    weights = dict(EmbeddingModel(SPEC).state_dict())
    assert weights["head.weight"].shape == (4, 32)
    weights.pop(name, None)
    save_model(tmp_path / "model", weights | ({} if value is None else {name: value}), SPEC, DATA)
    for load in (
        lambda: load_model(tmp_path / "model", SPEC, DATA, CPU),
        lambda: load_any(tmp_path / "model", CPU, True),
    ):
        result = answer(load)
        assert isinstance(result, UserError) and sentence in str(result) and str(result).isprintable()


@pytest.mark.parametrize("rows", [np.ones(3), np.ones((2, 2, 2)), np.ones((2, 2), np.float64), np.ones((2, 2), bool)])
def test_wrong_embeddings_with_a_valid_seal(tmp_path, rows):
    from safetensors.numpy import save_file as save_arrays

    seal.write(tmp_path / "e", {"test": rows}, save_arrays)
    with pytest.raises(UserError, match=r"'test' must be a matrix of float32, found .* run again to recreate it"):
        read_embeddings(tmp_path / "e")


@pytest.mark.parametrize("kind", ["flipped", "cut"])
def test_states_damaged_at_fifty_places(tmp_path, kind, record_property, caplog):
    """A damaged state falls back to the previous one; if both are damaged, the run starts from the beginning."""
    caplog.set_level(logging.CRITICAL, "recheck")
    file = StateFile(tmp_path, "a")
    for number in (1, 2):
        file.save({"number": number, "tensors": TENSORS})
    whole = {path: path.read_bytes() for path in (file.current, file.previous)}
    generator = np.random.default_rng(7)
    for place in generator.integers(0, min(map(len, whole.values())), 50):
        expected = iter([{"number": 1}, None])  # first the previous state is read, then none
        for path, content in whole.items():
            damage = bytearray(content)
            damage[place] ^= int(generator.integers(1, 256))
            path.write_bytes(damage if kind == "flipped" else content[:place])
            result = file.load()
            assert (result and {"number": result["number"]}) == next(expected)
        for path, content in whole.items():
            path.write_bytes(content)
        assert file.load()["number"] == 2
    record_property("tried", 100)


def test_states_with_a_valid_hash_and_any_content(tmp_path, record_property):
    file = StateFile(tmp_path, "a")
    buffer = io.BytesIO()
    torch.save({"fingerprint": "a", "state": TENSORS}, buffer)

    def check(payload):
        file.current.write_bytes(hashlib.sha256(payload).digest() + payload)
        with only_below(tmp_path):
            answer(file.load)

    objects = st.sampled_from([None, 1, [], {}, {"fingerprint": "a"}, {"state": 1}, "x"]).map(_saved)
    check_examples(60, st.one_of(damaged(buffer.getvalue()), st.binary(max_size=80), objects), record_property, check)


def _saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".pth", ".pt", ".safetensors"])
def test_damaged_weights_files_give_an_error_or_tensors(tmp_path, suffix, record_property):
    whole = tmp_path / f"whole{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(TENSORS, whole)
    path = tmp_path / f"weights{suffix}"

    def check(content):
        path.write_bytes(content)
        with only_below(tmp_path):
            result = answer(read_tensors, path, "Backbone weights")
        if not isinstance(result, UserError):
            assert all(isinstance(tensor, torch.Tensor) for tensor in result.values())

    check_examples(60, st.one_of(damaged(whole.read_bytes()), st.binary(max_size=100)), record_property, check)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, place: Path):
        self.place = str(place)

    def __reduce__(self):
        return open, (self.place, "w")


def bombs(place: Path) -> dict[str, bytes]:
    """Ways in which a torch file can contain code."""
    bomb = Bomb(place)
    zipped = io.BytesIO()
    torch.save({"a": bomb}, zipped)
    legacy = io.BytesIO()
    torch.save({"a": torch.ones(2), "b": bomb}, legacy, _use_new_zipfile_serialization=False)
    script = io.BytesIO()
    with zipfile.ZipFile(script, "w") as archive:
        for name in ("archive/data.pkl", "archive/constants.pkl"):
            archive.writestr(name, pickle.dumps({"a": bomb}))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/code/__torch__.py", "import os")
    return {
        "zip": zipped.getvalue(),
        "legacy": legacy.getvalue(),
        "script": script.getvalue(),
        "pickle": pickle.dumps({"a": bomb}),
        "protocol 0": pickle.dumps(bomb, protocol=0),
    }


KINDS = sorted(bombs(Path("x")))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_no_code_of_a_checkpoint_is_run(tmp_path, kind):
    exploded = tmp_path / "exploded"
    content = bombs(exploded)[kind]
    if kind == "pickle":
        pickle.loads(content)["a"].close()  # noqa: S301 (the bomb works)
        assert exploded.exists()
        exploded.unlink()
    for name in ("a.pth", "a.pt", "trunk_best1.pth", "embedder_best1.pth", "a.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError):
            read_tensors(tmp_path / name, "Backbone weights")
        with pytest.raises(UserError):
            build_backbone({"name": "support.project.small_net:SmallNet", "weights": str(tmp_path / name)})
    with pytest.raises(UserError):
        convert_mlrc(SPEC, tmp_path / "trunk_best1.pth", tmp_path / "embedder_best1.pth")
    for reader in (lambda path: load_model(path, SPEC, DATA, CPU), read_embeddings):
        with pytest.raises(UserError):
            reader(tmp_path / "a.safetensors")
    state = StateFile(tmp_path, "a")
    for path in (state.current, state.previous):
        path.write_bytes(hashlib.sha256(content).digest() + content)
    assert state.load() is None
    assert not exploded.exists()


SLOW = ("too many steps", "deep", "many marks", "repeated pairs", "deflated bomb")
CONTEXTUAL = {
    "backbone": {"name": "resnet50", "weights": "none"},
    "pooling": {"class": "Max"},
    "head": {"class": "LayerNormLinear", "dim": 512},
}


def harmless(exploded):
    """Whether the result is one printable sentence or tensors, and no code was run."""

    def right(result):
        return not exploded.exists() and (
            str(result).isprintable()
            if isinstance(result, UserError)
            else all(isinstance(tensor, torch.Tensor) for tensor in result.values())
        )

    return right


@pytest.mark.filterwarnings("ignore")
def test_no_hostile_file_is_run_or_used(tmp_path, record_property):
    """Each file with code is refused with one sentence; odd data beside a good module is not used."""
    exploded, path, outcomes = tmp_path / "exploded", tmp_path / "a.pt", Outcomes("checkpoints")
    code, accepted = set(hostile_pickles.calls(exploded)), []
    readers = (
        lambda: read_tensors(path, "Weights"),
        lambda: convert("contextual", CONTEXTUAL, {"model": path}),
    )
    for name, content in hostile_pickles.files(exploded):
        if MORE or not any(word in name for word in SLOW):
            path.write_bytes(content)
            for reader in readers:
                before = outcomes.harmless
                with only_below(tmp_path):
                    outcomes.add(name, reader, harmless(exploded))
                accepted += [name] * (outcomes.harmless - before)
    assert not [name for name in accepted if name.split(": ")[-1] in code]
    assert {name.split(": ")[0] for name in accepted} == {"two folders", "beside", "legacy beside"}
    outcomes.record(record_property)


FRAGMENTS = [
    *(bytes([opcode]) for opcode in b"().0125NR}]abdelostu2\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94Qq"),
    b"q\x00", b"h\x00", b"q\x01", b"h\x01", b"K\x01", b"K\x04", b"M\x01\x01", b"J\xff\xff\xff\xff",
    hostile_pickles.text("a"), hostile_pickles.text("storage"), hostile_pickles.text("_modules"),
    hostile_pickles.text("_parameters"), hostile_pickles.name("torch", "FloatStorage"),
    hostile_pickles.name("torch._utils", "_rebuild_tensor_v2"), hostile_pickles.name("torch.nn", "Module"),
    hostile_pickles.name("collections", "OrderedDict"), hostile_pickles.name("copyreg", "_reconstructor"),
    hostile_pickles.storage(), hostile_pickles.tensor(), hostile_pickles.table(("a", hostile_pickles.tensor())),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_random_pickles_are_refused_or_harmless(tmp_path, record_property):
    """Opcodes, tensors, modules and calls in any order, in both formats."""
    exploded, path, outcomes = tmp_path / "exploded", tmp_path / "a.pt", Outcomes("checkpoints")
    pieces = [*FRAGMENTS, *hostile_pickles.calls(exploded).values()]
    forms = st.sampled_from([hostile_pickles.in_zip, hostile_pickles.in_legacy])

    def check(example):
        form, body = example
        path.write_bytes(form(b"".join(body)))
        with only_below(tmp_path):
            outcomes.add(str(body), lambda: read_tensors(path, "Weights"), harmless(exploded))

    check_examples(60, st.tuples(forms, st.lists(st.sampled_from(pieces), max_size=12)), lambda *counted: None, check)
    outcomes.record(record_property)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_modules_are_refused_or_harmless(tmp_path, legacy, record_property):
    """A checkpoint in the layout of contextual similarity, with bytes flipped, cut or added anywhere."""
    exploded, path, outcomes = tmp_path / "exploded", tmp_path / "a.pt", Outcomes("checkpoints")
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    original_layouts.save_contextual(tmp_path / "whole.pt", network, legacy)

    def check(content):
        path.write_bytes(content)
        with only_below(tmp_path):
            outcomes.add("damaged", lambda: read_tensors(path, "Weights"), harmless(exploded))

    check_examples(40, damaged((tmp_path / "whole.pt").read_bytes()), lambda *counted: None, check)
    outcomes.record(record_property)


def test_no_code_of_an_array_is_run(tmp_path):
    """NumPy files, as in packs and toy experiments, can contain objects too."""
    exploded = tmp_path / "exploded"
    array = np.array([Bomb(exploded)], dtype=object)
    (tmp_path / "pack.json").write_text('{"count": 1, "bytes": 3, "sha256": "x"}')
    for name in ("shapes.npy", "hashes.npy"):
        np.save(tmp_path / name, array, allow_pickle=True)
    with pytest.raises(UserError):
        PackedImages(tmp_path)
    np.savez(tmp_path / "a.npz", data=array)
    with pytest.raises(UserError):
        toy.read(tmp_path / "a.npz")
    assert not exploded.exists()
