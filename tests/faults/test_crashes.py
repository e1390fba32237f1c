"""Writes are killed before each of their changes to the disk.

The old or the new file exists, and the next attempt leaves nothing else behind.
"""

import io
import math
import tarfile

import numpy as np
import pytest
import torch

from recheck.data import packed
from recheck.data.archives import extract
from recheck.data.folder import parse_folder
from recheck.data.index import write_index
from recheck.data.packed import PackedImages, pack
from recheck.data.sources import fetch
from recheck.evaluation.embeddings import write_embeddings
from recheck.files import write_json
from recheck.models.embedding import save_model
from recheck.report.style import note
from recheck.training.checkpoint import StateFile
from recheck.training.history import write_history
from support.datasets.glyphs import make_glyphs
from support.faults.crashes import crash_points
from support.faults.kills import slow_server
from support.services.servers import Answer

SPEC = {"backbone": {"name": "x"}, "head": {"class": "Linear", "dim": 2}}
WEIGHTS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3)}
ROWS = [{"epoch": 0, "step": 0, "loss": None}, {"epoch": 1, "step": 3, "loss": 0.5}]


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WRITES = {
    "json": ("a.json", lambda path: write_json(path, {"folds": [1, 2]})),
    "history": ("history.csv", lambda path: write_history(path, ROWS)),
    "embeddings": ("e.safetensors", lambda path: write_embeddings(path, {"test": np.ones((3, 2), np.float32)})),
    "model": ("model.safetensors", lambda path: save_model(path, WEIGHTS, SPEC, {"split": "s"})),
}


@pytest.mark.parametrize("kind", WRITES)
def test_one_file(tmp_path, kind, record_property):
    name, write = WRITES[kind]
    write(tmp_path / "new" / name)
    new, old = (tmp_path / "new" / name).read_bytes(), b"of an earlier run"
    for _ in crash_points(lambda: write(tmp_path / "folder" / name), record_property):
        present = files(tmp_path / "folder") if (tmp_path / "folder").exists() else {}
        assert present.get(name, old) in (old, new)
        write(tmp_path / "folder" / name)
        assert files(tmp_path / "folder") == {name: new}
        (tmp_path / "folder" / name).write_bytes(old)


def test_index_and_figure(tmp_path, record_property):
    index = parse_folder({"name": "glyphs"}, tmp_path, make_glyphs(tmp_path / "glyphs", 3, 2))
    folder = tmp_path / "folder"

    def write():
        write_index(folder / "images.csv", index)
        note("Nothing to draw.", folder / "a.png", folder / "a.svg")

    write()
    whole = files(folder)
    for path in folder.iterdir():
        path.unlink()
    for _ in crash_points(write, record_property):
        assert all(content == whole[name] for name, content in files(folder).items() if not name.startswith("."))
        write()
        assert files(folder) == whole


def test_a_state(tmp_path, record_property):
    """After every crash a complete state exists: the new one or the previous one."""
    file = StateFile(tmp_path, "a")
    file.save({"number": 1})
    for _ in crash_points(lambda: file.save({"number": 2}), record_property):
        assert file.load()["number"] in (1, 2)
        file.save({"number": 0})
        file.save({"number": 1})
        assert sorted(files(tmp_path)) == ["previous.bin", "state.bin"]


def test_unpacking(tmp_path, record_property):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as made:
        for number in range(4):
            member = tarfile.TarInfo(f"{number}/x.jpg")
            member.size = 1000
            made.addfile(member, io.BytesIO(bytes([number]) * 1000))
    archives, verified = [{"path": "a.tgz", "extract": "."}], {"a.tgz": {"sha256": "x"}}
    work = lambda root: extract(archives, tmp_path, verified, root)  # noqa: E731
    work(tmp_path / "whole" / "images")
    whole, root = files(tmp_path / "whole"), tmp_path / "data" / "images"
    old = {name: content for name, content in whole.items() if name != "images/0/x.jpg"}
    for _ in crash_points(lambda: work(root), record_property, least=10):
        present = {name: content for name, content in files(root.parent).items() if name.startswith("images")}
        assert present in ({}, old, whole)
        work(root)
        assert files(root.parent) == whole
        (root / "0" / "x.jpg").unlink()  # so that the tree must be replaced


@pytest.mark.parametrize("limit", [math.inf, 0], ids=["plain", "encoded"])
def test_packing(tmp_path, record_property, monkeypatch, limit):
    monkeypatch.setattr(packed, "BLOCK", 4)
    root = make_glyphs(tmp_path / "glyphs", 3, 3, size=8)
    index = parse_folder({"name": "glyphs"}, tmp_path, root)
    work = lambda folder: pack(index, root, None, folder, index_sha256="abc", plain_limit=limit)  # noqa: E731
    work(tmp_path / "whole" / "original")
    whole, destination = files(tmp_path / "whole"), tmp_path / "packed" / "original"
    for _ in crash_points(lambda: work(destination), record_property, least=15):
        if (destination / "pack.json").exists():
            PackedImages(destination).verify()
        work(destination)
        assert files(destination.parent) == whole
        for path in destination.iterdir():
            path.unlink()  # as Snakemake does before it runs a job again


def test_downloading(tmp_path, record_property, monkeypatch):
    """Killed once after a fresh start, and once after resuming a killed process."""
    content = np.random.default_rng(0).bytes(3000)
    with slow_server() as server:
        monkeypatch.setattr(server.RequestHandlerClass, "PAUSE", 0)
        url = server.give("/file.bin", Answer(content, headers={"ETag": '"1"'}))
        file = {"path": "file.bin", "size": len(content), "from": [{"url": url}]}
        target = tmp_path / "downloads" / "file.bin"
        for _ in crash_points(lambda: fetch(file, target), record_property):
            assert not target.exists() or target.read_bytes() == content
            fetch(file, target)
            assert files(target.parent) == {"file.bin": content}
            target.unlink()
        for _ in crash_points(lambda: fetch(file, target), record_property):
            assert not target.exists() or target.read_bytes() == content
        assert files(target.parent) == {"file.bin": content}
