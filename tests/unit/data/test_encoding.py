"""Encoded packs: fewer bytes, the same pixels and runs, complete or absent."""

import json
import logging

import numpy as np
import pytest
from PIL import Image

from recheck.data import packed as packing
from recheck.data.encoding import LONGEST_WEBP, lossless
from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.images import decode, opened
from recheck.data.packed import FILES, PackedImages, pack
from recheck.errors import UserError
from support.datasets.glyphs import make_glyphs
from support.faults.crashes import crash
from support.project.runs import make_run, same

KINDS = {"source": None, "jpeg": {"shorter": 24, "jpeg": 75}, "webp": {"exact": [30, 34]}}


@pytest.fixture
def images(tmp_path):
    """Letters, photos that are turned, and an image with transparency, with their index."""
    root = make_glyphs(tmp_path / "images", classes=3, per_class=3)
    noise = np.random.default_rng(0).integers(0, 256, (17, 31, 4), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise[..., :3]).save(root / "B" / "turned.jpg", quality=95, exif=exif)
    Image.fromarray(noise).save(root / "B" / "transparent.png")
    return root, parse_folder({"name": "glyphs"}, tmp_path, root)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_of_the_plain_pack(tmp_path, images, kind):
    root, index = images
    folders = [tmp_path / name for name in ("plain", "one", "two")]
    for folder, workers, limit in zip(folders, (1, 1, 2), (1e9, 0, 0), strict=True):
        pack(index, root, KINDS[kind], folder, "abc", workers, plain_limit=limit)
    plain, encoded = PackedImages(folders[0]), PackedImages(folders[1])
    assert contents(folders[1]) == contents(folders[2]), "the number of processes must not matter"
    assert encoded.about["encoding"] == kind and "encoding" not in plain.about
    made = {key: encoded.about[key] for key in plain.about if key not in ("bytes", "decoder")}
    assert made == {key: plain.about[key] for key in made}, "the hash decides a run's fingerprint"
    assert np.array_equal(encoded.shapes, plain.shapes)
    for number, path in enumerate(index["path"]):
        pixels = encoded.image(number)
        assert not pixels.flags.writeable
        assert np.array_equal(pixels, plain.image(number)) and np.array_equal(pixels, decode(root / path, KINDS[kind]))


def test_only_packs_beyond_the_limit_are_encoded(tmp_path, images):
    root, index = images
    size = pack(index, root, {"exact": [8, 8]}, tmp_path / "packed", "abc")["bytes"]
    assert size == 8 * 8 * 3 * len(index)
    for limit, encoded in ((size, False), (size - 1, True), (size, False)):
        assert (
            "encoding" in pack(index, root, {"exact": [8, 8]}, tmp_path / "packed", "abc", 1, None, limit)
        ) == encoded
        PackedImages(tmp_path / "packed").verify()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jpeg", "webp"])
def test_a_run_has_the_same_bits(tmp_path, images, kind):
    root, index = images
    outcomes = []
    labels = index["label"].to_numpy()
    roles = {"train": np.flatnonzero(labels < 2), "val": np.flatnonzero(labels > 0)}
    for name, limit, workers in (("plain", 1e9, 0), ("encoded", 0, 2)):
        pack(index, root, KINDS[kind], tmp_path / name, "abc", plain_limit=limit)
        data = FoldData(PackedImages(tmp_path / name), labels, roles)
        outcomes.append(make_run(data, tmp_path / f"run_{name}", workers=workers).train())
    same(*outcomes)


def test_images_longer_than_webp_allows():
    pixels = np.random.default_rng(0).integers(0, 256, (1, LONGEST_WEBP + 1, 3), dtype=np.uint8)
    path = lossless(Image.fromarray(pixels))
    assert path.startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_images_are_refused(tmp_path, images, kind):
    root, index = images
    folder = tmp_path / "packed"
    about = pack(index, root, KINDS[kind], folder, "abc", plain_limit=0)
    last, middle = len(index) - 1, about["bytes"] - np.load(folder / "shapes.npy")[-1, 2] // 2
    with (folder / "pixels.bin").open("r+b") as file:
        file.seek(middle)
        file.write(b"damaged")
    with pytest.raises(UserError, match=rf"have changed since they were made \(checksum of image {last}\): delete"):
        PackedImages(folder).image(last)
    (folder / "pack.json").write_text(json.dumps(about | {"decoder": "Pillow 1.0"}))
    with pytest.raises(
        UserError,
        match=r"packed with Pillow 1\.0, but Pillow .* decodes it to different pixels: install the pinned packages",
    ):
        PackedImages(folder).image(last)
    (folder / "pack.json").write_text(json.dumps(about | {"encoding": "xyz"}))
    with pytest.raises(UserError, match=r"unknown encoding 'xyz'\): delete that folder"):
        PackedImages(folder)


@pytest.mark.parametrize("workers", [1, 2])
def test_broken_images_are_all_named_and_no_pack_is_left(tmp_path, images, monkeypatch, workers):
    root, index = images
    monkeypatch.setattr(packing, "BLOCK", 2)
    whole = {}
    for name in ("A/DejaVuSans.png", "C/DejaVuSans.png"):
        whole[name] = (root / name).read_bytes()
        (root / name).write_bytes(whole[name][: len(whole[name]) // 2])
    with pytest.raises(UserError, match="2 images cannot be read") as raised:
        pack(index, root, KINDS["webp"], tmp_path / "packed", "abc", workers, plain_limit=0)
    assert all(f"{root}/{name}: " in str(raised.value) for name in whole)
    assert not (tmp_path / "packed").exists()
    for name, content in whole.items():
        (root / name).write_bytes(content)
    pack(index, root, KINDS["webp"], tmp_path / "packed", "abc", workers, plain_limit=0)
    PackedImages(tmp_path / "packed").verify()


@pytest.mark.slow
def test_an_image_that_is_replaced_between_two_attempts(tmp_path, images, monkeypatch, caplog):
    """What was packed before it is kept, what comes after it is packed again."""
    root, index = images
    monkeypatch.setattr(packing, "BLOCK", 2)
    caplog.set_level(logging.INFO, logger="recheck")
    partial = tmp_path / ".packed.partial"

    def work():
        pack(index, root, KINDS["webp"], tmp_path / "packed", "abc", plain_limit=0)

    changes, journal = 5, partial / "journal"
    while not journal.exists() or len(journal.read_text().splitlines()) < 4:
        crash(work, changes := changes + 1)
        assert not (tmp_path / "packed").exists()
    Image.new("RGB", (20, 20), "red").save(root / index["path"][3])
    work()
    assert "Resuming: 2 of 11 images are already packed" in caplog.text
    red = PackedImages(tmp_path / "packed")
    red.verify()
    assert (red.image(3) == [255, 0, 0]).all()
    work_again = tmp_path / "again"
    pack(index, root, KINDS["webp"], work_again, "abc", plain_limit=0)
    assert contents(work_again) == contents(tmp_path / "packed")


def test_the_formats_are_those_that_an_image_may_have(tmp_path, images):
    root, index = images
    pack(index, root, KINDS["webp"], tmp_path / "packed", "abc", plain_limit=0)
    sizes = np.load(tmp_path / "packed" / "shapes.npy")[:, 2]
    data = (tmp_path / "packed" / "pixels.bin").read_bytes()
    (tmp_path / "first.webp").write_bytes(data[: sizes[0]])
    assert opened(tmp_path / "first.webp").format == "WEBP" and sizes.sum() == len(data)
