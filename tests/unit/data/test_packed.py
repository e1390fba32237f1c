"""Packed images: the same pixels as decoding, complete or absent, and clear errors for broken ones."""

import io
import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Resize

from recheck.data import packed as packing
from recheck.data.folder import parse_folder
from recheck.data.images import decode, resized
from recheck.data.packed import PackedImages, pack
from recheck.data.transforms import build
from recheck.errors import UserError
from recheck.resize import parse_resize, resize_slug
from recheck.training.loading import Batches, Loading, Task
from support.datasets.glyphs import make_glyphs
from support.faults import kills
from support.suite.hang import HANG_SECONDS, children_end, wait_until

pytestmark = pytest.mark.slow

SCRIPTS = Path(packing.__file__).parents[2]


@pytest.fixture
def images(tmp_path):
    """Images of many sizes and shapes, and their index."""
    root = make_glyphs(tmp_path / "images", classes=3, per_class=3, size=20)
    for number, size in enumerate([(31, 17), (16, 40), (9, 9)]):
        noise = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / "B" / f"noise{number}.jpg", quality=95)
    return root, parse_folder({"name": "glyphs"}, tmp_path, root)


@pytest.mark.parametrize("resize", [None, {"shorter": 24}, {"exact": [12, 18]}])
@pytest.mark.parametrize("workers", [1, 2])
def test_pixels_equal_decode_and_torchvision(tmp_path, images, resize, workers):
    root, index = images
    about = pack(index, root, resize, tmp_path / "packed", index_sha256="abc", workers=workers)
    packed = PackedImages(tmp_path / "packed")
    packed.verify()
    assert len(packed) == len(index) == about["count"]
    assert json.loads((tmp_path / "packed" / "pack.json").read_text()) == about
    assert (about["index_sha256"], about["resize"]) == ("abc", resize)
    for number, path in enumerate(index["path"]):
        image = Image.open(root / path).convert("RGB")
        if resize:
            image = Resize(resize["shorter"] if "shorter" in resize else resize["exact"])(image)
        assert np.array_equal(packed.image(number), np.asarray(image)), path
        assert np.array_equal(packed.image(number), decode(root / path, resize)), path


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 600))
def test_sizes_round_as_torchvision_does(height, width, shorter):
    from torchvision.transforms.functional import _compute_resized_output_size

    assert list(resized(height, width, {"shorter": shorter})) == _compute_resized_output_size(
        (height, width), [shorter]
    )


def test_broken_images_are_all_named(tmp_path, images):
    root, index = images
    (root / "A" / "DejaVuSans.png").write_bytes(b"no picture")
    (root / "C" / "DejaVuSans.png").unlink()
    with pytest.raises(UserError) as raised:
        pack(index, root, None, tmp_path / "packed", index_sha256="0")
    assert "2 images cannot be read" in str(raised.value)
    assert f"{root}/A/DejaVuSans.png: not an image" in str(raised.value)
    assert f"{root}/C/DejaVuSans.png: no such file" in str(raised.value)
    assert not (tmp_path / "packed").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_truncated_images_are_all_named_and_no_pack_is_left(tmp_path, images, workers):
    root, index = images
    whole = {}
    for name in ("B/noise0.jpg", "B/noise1.jpg"):
        whole[name] = (root / name).read_bytes()
        (root / name).write_bytes(whole[name][: len(whole[name]) // 2])
    with pytest.raises(UserError) as raised:
        pack(index, root, None, tmp_path / "packed", index_sha256="0", workers=workers)
    assert "2 images cannot be read" in str(raised.value)
    assert all(f"{root}/B/noise{number}.jpg" in str(raised.value) for number in (0, 1))
    assert not (tmp_path / "packed").exists()
    for name, content in whole.items():
        (root / name).write_bytes(content)
    pack(index, root, None, tmp_path / "packed", index_sha256="0", workers=workers)
    PackedImages(tmp_path / "packed").verify()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "packed"]


def test_a_new_pack_replaces_the_old_one(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    pack(index.iloc[:2], root, {"exact": [4, 4]}, tmp_path / "packed", index_sha256="0")
    assert len(PackedImages(tmp_path / "packed")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "packed"]


def test_too_little_space_is_reported_before_writing(tmp_path, images):
    root, index = images
    disk = shutil.disk_usage(tmp_path).total  # more than can become free while the test runs
    side = int((disk / 3 / len(index)) ** 0.5) + 1000
    with pytest.raises(UserError, match=r"needs [\d,.]+ MB in .*, but only [\d,.]+ MB are free"):
        pack(index, root, {"exact": [side, side]}, tmp_path / "packed", index_sha256="0")
    assert not (tmp_path / "packed").exists()


def test_packs_that_are_damaged(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    pixels = tmp_path / "packed" / "pixels.bin"
    data = pixels.read_bytes()
    pixels.write_bytes(data[:-1])
    with pytest.raises(UserError, match=r"has \d+ bytes, expected \d+\): delete that folder"):
        PackedImages(tmp_path / "packed")
    pixels.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    opened = PackedImages(tmp_path / "packed")
    opened.image(0)
    for read in (lambda: opened.image(len(index) - 1), opened.verify):
        with pytest.raises(UserError, match=r"have changed since they were made \(checksum of image 11\)"):
            read()
    pixels.unlink()
    with pytest.raises(UserError, match="delete that folder"):
        PackedImages(tmp_path / "packed")
    pixels.write_bytes(data)
    for name, change in (("shapes.npy", lambda rows: rows[:, ::-1]), ("hashes.npy", lambda rows: rows[::-1])):
        path = tmp_path / "packed" / name
        content = path.read_bytes()
        np.save(path, change(np.load(path)))
        with pytest.raises(UserError, match=r"checksum of shapes.npy or hashes.npy"):
            PackedImages(tmp_path / "packed")
        path.write_bytes(content)
    (tmp_path / "packed" / "shapes.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"shapes.npy.*delete that folder"):
        PackedImages(tmp_path / "packed")
    (tmp_path / "packed" / "pack.json").unlink()
    with pytest.raises(UserError, match=r"pack.json.*delete that folder"):
        PackedImages(tmp_path / "packed")


def test_invalid_numbers_and_views(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    packed = PackedImages(tmp_path / "packed")
    for number in (-1, len(packed)):
        with pytest.raises(IndexError):
            packed.image(number)
    with pytest.raises(ValueError, match="read-only"):
        packed.image(0)[0, 0, 0] = 1


class Rows(Dataset):
    def __init__(self, packed):
        self.packed = packed

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, number):
        return self.packed.image(number).astype(np.int64).sum()


def test_other_processes_read_the_same(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    packed = PackedImages(tmp_path / "packed")
    handed_over = pickle.dumps(packed)
    assert len(handed_over) < packed.about["bytes"] / 2
    assert np.array_equal(pickle.loads(handed_over).image(3), packed.image(3))  # noqa: S301
    expected = [packed.image(number).astype(np.int64).sum() for number in range(len(packed))]
    loader = DataLoader(Rows(packed), batch_size=3, num_workers=2)
    assert np.concatenate([batch.numpy() for batch in loader]).tolist() == expected


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_stops_training_with_one_sentence(tmp_path, images, workers):
    root, index = images
    pack(index, root, {"exact": [8, 8]}, tmp_path / "packed", index_sha256="0")
    with (tmp_path / "packed" / "pixels.bin").open("r+b") as file:
        file.seek(8 * 8 * 3 * 5)
        file.write(b"damaged")
    numbers = np.arange(len(index))
    transform = build([{"center_crop": {"size": 8}}])
    loading = Loading(PackedImages(tmp_path / "packed"), transform)
    tasks = [Task(numbers[[0, 1]]), Task(numbers[[5, 2]])]
    with Batches(loading, tasks, workers, torch.device("cpu")) as batches:
        next(batches)
        with pytest.raises(
            UserError, match=r"^The packed images in .* \(checksum of image 5\): delete that folder.*again.$"
        ):
            next(batches)
    assert children_end()


def test_verified_once_by_all_processes_of_a_job(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    packed = PackedImages(tmp_path / "packed")
    if not (child := os.fork()):
        try:
            packed.image(3)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert packed._verified.tolist() == [0, 0, 0, 1, *[0] * 8]


def test_the_same_images_make_the_same_bytes(tmp_path, images):
    root, index = images
    one = pack(index, root, {"shorter": 11}, tmp_path / "one", index_sha256="0", workers=1)
    two = pack(index, root, {"shorter": 11}, tmp_path / "two", index_sha256="0", workers=2)
    assert one == two


def test_an_image_larger_than_its_header_says(tmp_path):
    """An image that differs from its header must not shift the following images."""
    buffer = io.BytesIO()
    Image.new("RGB", (5, 4), "red").save(buffer, "PPM")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "short.png").write_bytes(buffer.getvalue()[:-7])
    index = pd.DataFrame({"path": ["x/short.png"]})
    with pytest.raises(UserError, match=r"short.png: "):
        pack(index, tmp_path, None, tmp_path / "packed", index_sha256="0")


KILLED = """
import os, resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from recheck.data import packed
from recheck.data.folder import parse_folder
from recheck.errors import UserError

root, destination, workers, stop, limit = Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:])
packed.BLOCK = 2
ordered_map = packed.ordered_map


def killed(function, items, *args, **options):
    for number, result in enumerate(ordered_map(function, items, *args, **options)):
        if options["description"] == "Packing images" and number == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        yield result


packed.ordered_map = killed
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    packed.pack(parse_folder({"name": "x"}, root, root), root, {"shorter": 24}, destination, "abc", workers)
except UserError as error:
    sys.exit(str(error))
"""


def run_and_kill(root, destination, workers=1, stop=3, limit=0):
    """Pack in another process that is killed after some blocks, or can't write beyond a limit."""
    arguments = [sys.executable, "-c", KILLED, SCRIPTS, root, destination, workers, stop, limit]
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False, timeout=HANG_SECONDS)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_resumed_gives_the_same_bits(tmp_path, images, monkeypatch, caplog, workers):
    root, index = images
    monkeypatch.setattr(packing, "BLOCK", 2)
    whole = pack(index, root, {"shorter": 24}, tmp_path / "whole", index_sha256="abc")
    assert run_and_kill(root, tmp_path / "packed", workers).returncode == -signal.SIGKILL
    assert not (tmp_path / "packed").exists()
    with caplog.at_level(logging.INFO, logger="recheck"):
        again = pack(index, root, {"shorter": 24}, tmp_path / "packed", index_sha256="abc", workers=workers)
    assert "Resuming: 6 of 12 images are already packed" in caplog.text
    assert again == whole
    for name in ("pixels.bin", "shapes.npy", "hashes.npy", "pack.json"):
        assert (tmp_path / "packed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == [
        "hashes.npy", "pack.json", "pixels.bin", "shapes.npy",
    ]  # fmt: skip
    PackedImages(tmp_path / "packed").verify()


def test_a_full_disk_is_reported_and_finished_work_is_kept(tmp_path, images, monkeypatch, caplog):
    """A limit on file sizes gives the same error as a full disk, on every machine."""
    root, index = images
    monkeypatch.setattr(packing, "BLOCK", 2)
    run_and_kill(root, tmp_path / "packed", stop=1)
    done = run_and_kill(root, tmp_path / "packed", workers=2, stop=99, limit=12_000)
    assert done.returncode == 1
    assert f"No space left while writing {tmp_path}/packed: free some space" in done.stderr
    assert not (tmp_path / "packed").exists()
    with caplog.at_level(logging.INFO, logger="recheck"):
        pack(index, root, {"shorter": 24}, tmp_path / "packed", index_sha256="abc")
    assert "Resuming: 6 of 12" in caplog.text
    PackedImages(tmp_path / "packed").verify()


def test_an_outdated_partial_pack_is_not_resumed(tmp_path, images, monkeypatch, caplog):
    root, index = images
    monkeypatch.setattr(packing, "BLOCK", 2)
    caplog.set_level(logging.INFO, logger="recheck")
    partial = tmp_path / ".packed.partial"

    def interrupted(stop=3):
        shutil.rmtree(partial, ignore_errors=True)
        run_and_kill(root, tmp_path / "packed", stop=stop)
        caplog.clear()

    interrupted()
    pack(index, root, {"shorter": 24}, tmp_path / "packed", index_sha256="another")
    assert "Resuming" not in caplog.text

    interrupted()
    pack(
        index,
        root,
        {"shorter": 24},
        tmp_path / "packed",
        index_sha256="abc",
        reading={"exif": "ignore", "alpha": "drop"},
    )
    assert "Resuming" not in caplog.text

    interrupted()
    journal = partial / "journal"
    journal.write_text(journal.read_text()[:-5])  # killed while its last line was written
    pack(index, root, {"shorter": 24}, tmp_path / "packed", index_sha256="abc")
    assert "Resuming: 4 of 12" in caplog.text

    interrupted()
    Image.new("RGB", (20, 20), "red").save(root / "A" / "DejaVuSans.png")  # replaced since then
    pack(index, root, {"shorter": 24}, tmp_path / "packed", index_sha256="abc")
    assert "Resuming: 4 of 12" in caplog.text
    place = index["path"].tolist().index("A/DejaVuSans.png")
    assert (PackedImages(tmp_path / "packed").image(place) == [255, 0, 0]).all()


def test_workers_end_with_a_parent_that_is_killed(tmp_path, images):
    root, _ = images
    arguments = [sys.executable, "-c", KILLED, SCRIPTS, root, tmp_path / "packed", 2, 1, 0]
    process = subprocess.Popen(list(map(str, arguments)), start_new_session=True)
    assert process.wait(timeout=HANG_SECONDS) == -signal.SIGKILL
    if not wait_until(lambda: not kills.members(process.pid), pause=0.1):
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("workers are still there")


def test_a_killed_worker_is_reported(tmp_path, images, monkeypatch):
    root, index = images
    monkeypatch.setattr(packing, "decode", lambda *args: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(UserError, match="most likely because memory ran out"):
        pack(index, root, None, tmp_path / "packed", index_sha256="0", workers=2)


@pytest.mark.parametrize(
    ("resize", "slug"),
    [
        (None, "original"),
        ({"shorter": 256}, "shorter256"),
        ({"exact": [288, 300]}, "exact288x300"),
        ({"fit": [360, 300]}, "fit360x300"),
        ({"shorter": 288, "jpeg": 75}, "shorter288jpeg75"),
    ],
)
def test_names_of_resizes(resize, slug):
    assert resize_slug(resize) == slug
    assert parse_resize(slug) == resize
