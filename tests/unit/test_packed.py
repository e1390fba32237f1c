"""Packed images: the same pixels as decoding, whole or not there, and words for what is broken."""

import io
import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
from glyphs import make_glyphs
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Resize

from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, decode, pack, resized
from recheck.errors import UserError


@pytest.fixture
def images(tmp_path):
    """Photographs' sizes and shapes, and a small index of them."""
    root = make_glyphs(tmp_path / "images", classes=3, per_class=3, size=20)
    for number, size in enumerate([(31, 17), (16, 40), (9, 9)]):
        noise = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / "B" / f"noise{number}.jpg", quality=95)
    return root, parse_folder({"name": "glyphs"}, tmp_path, root)


@pytest.mark.parametrize("resize", [None, {"shorter": 24}, {"exact": [12, 18]}])
@pytest.mark.parametrize("workers", [1, 2])
def test_pixels_are_those_of_decoding_and_torchvision(tmp_path, images, resize, workers):
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


def test_modes_become_rgb(tmp_path):
    (tmp_path / "x").mkdir()
    grey = Image.linear_gradient("L").resize((8, 8))
    grey.save(tmp_path / "x" / "grey.png")
    Image.merge("LA", (grey, Image.new("L", (8, 8), 0))).save(tmp_path / "x" / "clear.png")
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putpixel((0, 0), 0)
    palette.save(tmp_path / "x" / "palette.png", transparency=0)
    Image.new("RGBA", (8, 8), (0, 0, 0, 128)).save(tmp_path / "x" / "half.png")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / "x" / "key.png", transparency=(1, 2, 3))
    Image.new("1", (8, 8), 1).save(tmp_path / "x" / "bit.png")
    shown = {path.stem: decode(path) for path in (tmp_path / "x").iterdir()}
    assert all(pixels.shape == (8, 8, 3) and pixels.dtype == np.uint8 for pixels in shown.values())
    assert np.array_equal(shown["grey"], np.repeat(np.asarray(grey)[:, :, None], 3, axis=2))
    assert (shown["clear"] == 255).all()
    assert shown["palette"][0, 0].tolist() == [255, 255, 255]
    assert shown["palette"][1, 1].tolist() == [0, 0, 255]
    assert (abs(shown["half"].astype(int) - 127) <= 1).all()
    assert (shown["key"] == 255).all()
    assert (shown["bit"] == 255).all()


def test_broken_images_are_all_named(tmp_path, images):
    root, index = images
    (root / "A" / "DejaVuSans.png").write_bytes(b"no picture")
    (root / "C" / "DejaVuSans.png").unlink()
    with pytest.raises(UserError) as raised:
        pack(index, root, None, tmp_path / "packed", index_sha256="0")
    assert "2 images cannot be read" in str(raised.value)
    assert f"{root}/A/DejaVuSans.png: not an image" in str(raised.value)
    assert f"{root}/C/DejaVuSans.png: missing" in str(raised.value)
    assert not (tmp_path / "packed").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_images_cut_short_are_all_named_and_nothing_is_left(tmp_path, images, workers):
    root, index = images
    for name in ("B/noise0.jpg", "B/noise1.jpg"):
        data = (root / name).read_bytes()
        (root / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError) as raised:
        pack(index, root, None, tmp_path / "packed", index_sha256="0", workers=workers)
    assert "2 images cannot be read" in str(raised.value)
    assert all(f"{root}/B/noise{number}.jpg" in str(raised.value) for number in (0, 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]


def test_a_new_pack_replaces_the_old_one(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    pack(index.iloc[:2], root, {"exact": [4, 4]}, tmp_path / "packed", index_sha256="0")
    assert len(PackedImages(tmp_path / "packed")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "packed"]


def test_too_little_space_is_said_before_writing(tmp_path, images):
    root, index = images
    free = shutil.disk_usage(tmp_path).free
    side = int((free / 3 / len(index)) ** 0.5) + 1000
    with pytest.raises(UserError, match=r"needs \d+ MB, but only \d+ MB are free"):
        pack(index, root, {"exact": [side, side]}, tmp_path / "packed", index_sha256="0")
    assert not (tmp_path / "packed").exists()


def test_packs_that_are_damaged(tmp_path, images):
    root, index = images
    pack(index, root, None, tmp_path / "packed", index_sha256="0")
    pixels = tmp_path / "packed" / "pixels.bin"
    data = pixels.read_bytes()
    pixels.write_bytes(data[:-1])
    with pytest.raises(UserError, match=r"has \d+ bytes, \d+ are expected\): delete that folder"):
        PackedImages(tmp_path / "packed")
    pixels.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UserError, match=r"have changed \(checksum\)"):
        PackedImages(tmp_path / "packed").verify()
    pixels.unlink()
    with pytest.raises(UserError, match="delete that folder"):
        PackedImages(tmp_path / "packed")
    pixels.write_bytes(data)
    (tmp_path / "packed" / "shapes.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"shapes.npy.*delete that folder"):
        PackedImages(tmp_path / "packed")
    (tmp_path / "packed" / "pack.json").unlink()
    with pytest.raises(UserError, match=r"pack.json.*delete that folder"):
        PackedImages(tmp_path / "packed")


def test_numbers_outside_and_views(tmp_path, images):
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


def test_the_same_images_make_the_same_bytes(tmp_path, images):
    root, index = images
    one = pack(index, root, {"shorter": 11}, tmp_path / "one", index_sha256="0", workers=1)
    two = pack(index, root, {"shorter": 11}, tmp_path / "two", index_sha256="0", workers=2)
    assert one == two


def test_an_image_larger_than_it_says(tmp_path):
    """A header and pixels that disagree must not shift the images after it."""
    buffer = io.BytesIO()
    Image.new("RGB", (5, 4), "red").save(buffer, "PPM")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "short.png").write_bytes(buffer.getvalue()[:-7])
    index = pd.DataFrame({"path": ["x/short.png"]})
    with pytest.raises(UserError, match=r"short.png: "):
        pack(index, tmp_path, None, tmp_path / "packed", index_sha256="0")
