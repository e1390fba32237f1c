"""Every kind of image becomes RGB with 8 bits per channel, as in the published protocols or as a person sees it."""

import os
import re
import struct
import warnings
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image, UnidentifiedImageError

from recheck.data.images import FORMATS, decode, reading_of, reason, shape_of
from recheck.data.packed import pack
from recheck.errors import UserError
from support.project import SCRIPTS

BENCHMARK = {"exif": "ignore", "alpha": "drop"}


@pytest.fixture
def corner():
    """A grey ramp with a red corner, so that a rotation is visible."""
    pixels = np.tile(np.linspace(40, 200, 8, dtype=np.uint8)[:, None, None], (1, 12, 3))
    pixels[:3, :4] = (200, 0, 0)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("L", "png"), ("L", "jpg"), ("1", "png"), ("P", "png"), ("CMYK", "jpg"), ("YCbCr", "jpg"), ("RGB", "bmp"),
     ("RGB", "webp"), ("RGB", "gif"), ("LA", "png"), ("RGBA", "png"), ("CMYK", "tiff")],
)  # fmt: skip
def test_benchmark_pixels_equal_pillows(tmp_path, corner, mode, kind):
    path = tmp_path / f"picture.{kind}"
    corner.convert(mode).save(path)
    pixels = decode(path, reading=BENCHMARK)
    assert pixels.dtype == np.uint8 and pixels.shape == (8, 12, 3)
    assert np.array_equal(pixels, np.asarray(Image.open(path).convert("RGB")))
    if mode not in ("LA", "RGBA"):
        assert np.array_equal(pixels, decode(path)), "without transparency the defaults are the same"


def test_grey_has_three_equal_channels(tmp_path, corner):
    corner.convert("L").save(tmp_path / "grey.png")
    pixels = decode(tmp_path / "grey.png")
    assert (pixels == pixels[:, :, :1]).all()
    assert np.array_equal(pixels[:, :, 0], np.asarray(corner.convert("L")))


def test_transparent_pixels_are_white_or_their_stored_colour(tmp_path):
    grey = Image.linear_gradient("L").resize((8, 8))
    Image.merge("LA", (grey, Image.new("L", (8, 8), 0))).save(tmp_path / "clear.png")
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putpixel((0, 0), 0)
    palette.save(tmp_path / "palette.png", transparency=0)
    Image.new("RGBA", (8, 8), (0, 0, 0, 128)).save(tmp_path / "half.png")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / "key.png", transparency=(1, 2, 3))
    shown = {path.stem: decode(path) for path in tmp_path.iterdir()}
    assert (shown["clear"] == 255).all()
    assert shown["palette"][0, 0].tolist() == [255, 255, 255]
    assert shown["palette"][1, 1].tolist() == [0, 0, 255]
    assert (abs(shown["half"].astype(int) - 127) <= 1).all()
    assert (shown["key"] == 255).all()
    dropped = {path.stem: decode(path, reading=BENCHMARK) for path in tmp_path.iterdir()}
    assert np.array_equal(dropped["clear"][:, :, 0], np.asarray(grey))
    assert dropped["palette"][0, 0].tolist() == [255, 0, 0]
    assert (dropped["half"] == 0).all()
    assert dropped["key"][0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpg", "png", "webp"])
def test_photos_are_rotated_by_exif_unless_ignored(tmp_path, corner, orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{kind}"
    corner.save(path, exif=exif, **({"lossless": True} if kind == "webp" else {"quality": 95} if kind == "jpg" else {}))
    stored = np.asarray(Image.open(path).convert("RGB"))
    upright = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: stored[::-1].transpose(1, 0, 2),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: stored[:, ::-1].transpose(1, 0, 2),
    }[orientation]
    assert np.array_equal(decode(path), upright)
    assert shape_of(path) == upright.shape[:2]
    assert np.array_equal(decode(path, reading=BENCHMARK), stored)
    assert shape_of(path, reading=BENCHMARK) == stored.shape[:2]
    assert decode(path, {"shorter": 4}).shape[:2] == shape_of(path, {"shorter": 4})


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_tiff_is_rotated_by_pillow(tmp_path, corner, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    corner.save(tmp_path / "scan.tiff", exif=exif)
    turned = np.rot90(np.asarray(corner), {1: 0, 3: 2, 6: 3}[orientation])
    for reading in (None, BENCHMARK):
        assert np.array_equal(decode(tmp_path / "scan.tiff", reading=reading), turned)
        assert shape_of(tmp_path / "scan.tiff", reading=reading) == turned.shape[:2]


def deep_png(values: np.ndarray) -> bytes:
    """A PNG with 16 bits per channel; Pillow reads these, but writes only grey ones."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)), (b"IDAT", zlib.compress(rows)))
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in (*chunks, (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return data


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_keep_the_upper_eight(tmp_path, channels):
    """Pillow's convert would clip grey at 255, which turns a photo white."""
    values = np.linspace(0, 65535, 6 * 5 * channels, dtype=np.uint16).reshape(6, 5, channels)
    (tmp_path / "deep.png").write_bytes(deep_png(values))
    expected = np.broadcast_to((values >> 8).astype(np.uint8), (6, 5, 3))
    for reading in (None, BENCHMARK):
        assert np.array_equal(decode(tmp_path / "deep.png", reading=reading), expected)


@pytest.mark.parametrize("dtype", [np.uint16, ">u2", np.int32])
def test_sixteen_bits_in_tiff(tmp_path, dtype):
    values = np.linspace(0, 65535, 30).astype(dtype).reshape(6, 5)
    Image.fromarray(values).save(tmp_path / "deep.tiff")
    expected = np.repeat((values.astype(np.uint32) >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    assert np.array_equal(decode(tmp_path / "deep.tiff"), expected)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.full((4, 4), 70000, np.int32), "beyond 16 bits"),
        (np.full((4, 4), -1, np.int32), "beyond 16 bits"),
        (np.full((4, 4), 0.5, np.float32), "floating-point pixels"),
    ],
)
def test_pixels_without_a_defined_range_are_refused(tmp_path, values, why):
    Image.fromarray(values).save(tmp_path / "odd.tiff")
    with pytest.raises(ValueError, match=why):
        decode(tmp_path / "odd.tiff")


@pytest.mark.parametrize("size", [(60_000, 1), (1, 60_000)])
def test_a_narrow_image_does_not_become_huge(tmp_path, size):
    """One row of 60,000 pixels would need 12 GB when its shorter side is resized to 256 pixels."""
    Image.new("L", size).save(tmp_path / "strip.png")
    with pytest.raises(ValueError, match=r"would become .*15,360,000.*, more than 179 million: crop it"):
        decode(tmp_path / "strip.png", {"shorter": 256})
    index = pd.DataFrame({"path": ["strip.png"]})
    with pytest.raises(UserError, match=r"1 image cannot be read.*\n.*strip\.png: .* would become .*15,360,000"):
        pack(index, tmp_path, {"shorter": 256}, tmp_path / "packed", "")
    assert decode(tmp_path / "strip.png", {"exact": [8, 8]}).shape == (8, 8, 3)


def test_a_bomb_is_not_decoded(tmp_path, monkeypatch):
    Image.new("L", (300, 300)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    with pytest.raises(Image.DecompressionBombError) as raised:
        decode(tmp_path / "bomb.png")
    assert "Pillow's limit against decompression bombs: make it smaller" in reason(raised.value)


def test_damaged_exif_does_not_hide_the_picture(tmp_path, corner):
    corner.save(tmp_path / "photo.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff\x12\x01")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert decode(tmp_path / "photo.jpg").shape == (8, 12, 3)
        assert shape_of(tmp_path / "photo.jpg") == (8, 12)


def test_resized_images_that_were_saved_as_jpeg(tmp_path, corner):
    """The protocol of "Contextual Similarity" on iNaturalist: shorter side 288 (here 6), JPEG of default quality."""
    corner.save(tmp_path / "photo.png")
    resized = decode(tmp_path / "photo.png", {"shorter": 6})
    Image.fromarray(resized).save(tmp_path / "again.jpg")
    assert np.array_equal(decode(tmp_path / "photo.png", {"shorter": 6, "jpeg": 75}), decode(tmp_path / "again.jpg"))
    assert not np.array_equal(decode(tmp_path / "again.jpg"), resized)


def test_how_images_are_read():
    assert reading_of(None) == reading_of({"size": 64}) == {"exif": "apply", "alpha": "white"}
    assert reading_of({"exif": "ignore"}) == {"exif": "ignore", "alpha": "white"}
    with pytest.raises(UserError, match=r"'options.exif' of a dataset is 'aply'; did you mean 'apply'"):
        reading_of({"exif": "aply"})


@pytest.mark.parametrize(("width", "height"), [(12, 8), (8, 12), (30, 30), (7, 3), (200, 1), (16, 12)])
def test_fit_scales_and_pads_with_black(tmp_path, width, height):
    """Scaled to fit 16 × 20, centred, complete, and surrounded by black only."""
    Image.new("RGB", (width, height), (250, 250, 250)).save(tmp_path / "picture.png")
    resize = {"fit": [16, 20]}
    pixels = decode(tmp_path / "picture.png", resize)
    assert pixels.shape == (*shape_of(tmp_path / "picture.png", resize), 3) == (16, 20, 3)
    ratio = max(height / 16, width / 20)
    inside_height, inside_width = max(1, int(height / ratio)), max(1, int(width / ratio))
    rows, columns = (np.flatnonzero((pixels[:, :, 0] > 0).any(axis=axis)) for axis in (1, 0))
    assert (len(rows), len(columns)) == (inside_height, inside_width)
    assert rows[0] == int((16 - height / ratio) / 2) and columns[0] == int((20 - width / ratio) / 2)
    assert (pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] == 250).all()


def test_fit_keeps_an_image_of_the_right_size(tmp_path, corner):
    corner.save(tmp_path / "picture.png")
    assert np.array_equal(decode(tmp_path / "picture.png", {"fit": [8, 12]}), np.asarray(corner))


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("start", [b"", b"\xc5\xd0\xd3\xc6\x20\0\0\0\x60\0\0\0" + bytes(20)])
def test_no_image_starts_a_program(tmp_path, monkeypatch, start):
    """Pillow gives PostScript to Ghostscript, here one that leaves a trace."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    path = tmp_path / "photo.jpg"
    path.write_bytes(start + POSTSCRIPT)
    with Image.open(path) as image:
        assert image.format == "EPS"
    for read in (decode, shape_of):
        with pytest.raises(UnidentifiedImageError) as raised:
            read(path)
        assert reason(raised.value) == "not an image"
    assert not (tmp_path / "started").exists()


def test_every_image_is_opened_in_one_place():
    """So that no call can forget the list of formats."""
    calls = [
        f"{path.name}: {line.strip()}"
        for path in SCRIPTS.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(?<!``)Image\.open\(|imread\(", line)
    ]
    assert calls == ["images.py: return Image.open(file, formats=formats)"]


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(tmp_path, kind):
    pixels = np.full((4, 5, 3), 200, np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", kind)
    assert np.abs(decode(tmp_path / "a.jpg").astype(int) - pixels).max() <= 3
