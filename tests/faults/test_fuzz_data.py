"""Garbage in a dataset's files (index, split, images, archives, packs): a UserError, and no write elsewhere."""

import io
import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from recheck.data.archives import extract
from recheck.data.fold import FoldData
from recheck.data.folder import parse_csv, parse_folder
from recheck.data.images import decode, shape_of
from recheck.data.index import read_index, write_index
from recheck.data.packed import PackedImages, pack
from recheck.data.released import collect
from recheck.data.splits import make_split, read_split
from recheck.errors import UserError
from recheck.files import sha256, write_json
from recheck.training.record import data_hashes
from support.datasets.glyphs import make_glyphs
from support.faults.fuzz import answer, check_examples, damaged, only_below

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A dataset of twelve letters, packed and split."""
    folder = tmp_path_factory.mktemp("data")
    root = make_glyphs(folder / "glyphs", classes=8, per_class=2, size=8)
    index = parse_folder({"name": "glyphs"}, folder, root)
    write_index(folder / "images.csv", index)
    known = sha256(folder / "images.csv")
    split = make_split(index["label"], {"scheme": "class_disjoint_folds", "folds": 2})
    write_json(folder / "split.json", {"dataset": "glyphs", "index_sha256": known, **split})
    pack(index, root, None, folder / "packed", index_sha256=known)
    pack(index, root, {"exact": [12, 9]}, folder / "encoded", index_sha256=known, plain_limit=0)
    return folder


def test_index(data, tmp_path, record_property):
    path, whole = tmp_path / "images.csv", (data / "images.csv").read_bytes()
    cells = st.sampled_from(["", "a", "0", "1.5", "-1", "9" * 30, '"', ",", "\n", "nan", "../x", "\0", "é"])
    rows = st.lists(cells, max_size=40).map(lambda parts: "path,label,class_name,super_label,role\n" + ",".join(parts))

    def check(content):
        path.write_bytes(content)
        answer(read_index, path)
        answer(parse_csv, {"name": "x", "csv": str(path)}, tmp_path, tmp_path)

    check_examples(80, st.one_of(damaged(whole), rows.map(str.encode), st.binary(max_size=200)), record_property, check)


def test_split(data, tmp_path, record_property):
    """A damaged split is never used: it reads back as written or is refused."""
    path, whole = tmp_path / "split.json", (data / "split.json").read_bytes()
    right = {role: images.tolist() for role, images in read_split(data / "split.json", 0).items()}
    trees = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        max_leaves=12,
    )

    def check(content):
        path.write_bytes(content)
        result = answer(read_split, path, 0)
        if not isinstance(result, UserError) and b'"sha256"' in content and content != whole:
            assert {role: images.tolist() for role, images in result.items()}.items() <= right.items()
        answer(FoldData.load, data / "images.csv", path, data / "packed", 0)

    values = st.one_of(damaged(whole), trees.map(json.dumps).map(str.encode), st.binary(max_size=100))
    check_examples(80, values, record_property, check)


KEYS = ["folds", "sha256", "train", "val", "test", "scheme", "index_sha256", "classes"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_images(data, tmp_path, kind, record_property):
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    path = tmp_path / f"a.{kind.lower()}"
    index = parse_folder({"name": "x"}, tmp_path, data / "glyphs").head(1).assign(path=path.name)

    def check(content):
        path.write_bytes(content)
        result = answer(pack, index, tmp_path, None, tmp_path / "packed", "abc")
        if not isinstance(result, UserError):
            assert decode(path).shape == (*shape_of(path), 3)
            PackedImages(tmp_path / "packed").verify()

    check_examples(15, damaged(buffer.getvalue()), record_property, check)


@pytest.mark.parametrize("kind", ["packed", "encoded"])
def test_packs(data, tmp_path, record_property, kind):
    """Every image of a damaged pack is unchanged or refused."""
    whole = {path.name: path.read_bytes() for path in (data / kind).iterdir()}
    right = PackedImages(data / kind)
    images = [right.image(number).tobytes() for number in range(len(right))]

    def check(changed):
        name, content = changed
        for file, bytes_ in whole.items():
            (tmp_path / file).write_bytes(content if file == name else bytes_)
        answer(data_hashes, data / "split.json", tmp_path / "pack.json")
        result = answer(PackedImages, tmp_path)
        if not isinstance(result, UserError):
            for number in range(len(images)):
                pixels = answer(result.image, number)
                assert isinstance(pixels, UserError) or pixels.tobytes() == images[number]

    for about in (
        b"{}",
        b"[]",
        b"null",
        b'{"count": 1}',
        b'"x"',
        whole["pack.json"].replace(b'"reading": {', b'"reading": {"a": 1, '),
    ):
        check(("pack.json", about))
    files = st.sampled_from(sorted(whole))
    changed = files.flatmap(lambda name: st.tuples(st.just(name), damaged(whole[name])))
    check_examples(80, changed, record_property, check)


NAMES = [
    "a",
    "a/b",
    "../x",
    "/tmp/x",
    "a/../../x",
    "",
    ".",
    "a\\b",
    "C:x",
    "é",
    "a\0b",
    "x" * 300,
    "a/",
    ".extracted.json",
]


def tar_of(members) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as made:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            content = b"content" if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(members) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, kind, target in members:
            entry = zipfile.ZipInfo("x")
            entry.filename = name
            entry.external_attr = (0o120777 if kind == tarfile.SYMTYPE else 0o100644) << 16
            made.writestr(entry, target if kind == tarfile.SYMTYPE else "content")
    return buffer.getvalue()


KINDS = [tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]
MEMBERS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(KINDS), st.sampled_from(NAMES)), max_size=4)
GOOD = [(f"{number}/x.png", tarfile.REGTYPE, "") for number in range(3)]


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_archives(tmp_path, make, record_property):
    """Whatever the archive contains, the folder is complete or absent, and nothing is written elsewhere."""
    archives, verified = [{"path": "a.bin", "extract": "."}], {"a.bin": {"sha256": "x"}}
    downloads, root = tmp_path / "downloads", tmp_path / "data" / "images"
    downloads.mkdir()

    def check(content):
        (downloads / "a.bin").write_bytes(content)
        with only_below(root.parent):
            result = answer(extract, archives, downloads, verified, root)
        if isinstance(result, UserError):
            assert not root.exists()
            assert not root.parent.exists() or not list(root.parent.iterdir())
        else:
            assert not [path for path in root.rglob("*") if path.is_symlink()]
            with only_below(root.parent):
                extract(archives, downloads, {"a.bin": {"sha256": "y"}}, root)
            shutil.rmtree(root)

    values = st.one_of(damaged(make(GOOD)), MEMBERS.map(make), st.binary(max_size=600))
    check_examples(60, values, record_property, check)


def test_dropped_archives_of_checkpoints(tmp_path, record_property):
    folder = "e/Test50_50_Partitions4_{}/saved_models/{}_best3.pth"
    good = [(folder.format(fold, module), tarfile.REGTYPE, "") for fold in range(4) for module in ("trunk", "embedder")]
    drop = tmp_path / "drop"
    drop.mkdir()

    def check(content):
        (drop / "a.zip").write_bytes(content)
        with only_below(tmp_path / "released", drop):
            answer(collect, {"layout": "mlrc"}, 4, tmp_path / "released", drop)

    check_examples(60, st.one_of(damaged(zip_of(good)), MEMBERS.map(zip_of)), record_property, check)
