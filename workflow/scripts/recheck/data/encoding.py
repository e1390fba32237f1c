"""Images of a pack in fewer bytes than their pixels, from which exactly the same pixels are decoded.

Which encoding is the smallest follows from the resize:

- ``source``: without a resize, the image file itself;
- ``jpeg``: if the protocol saves its resized images as JPEG, that JPEG file;
- ``webp``: else, lossless WebP. On photographs it is smaller than PNG and zlib, and decodes as fast
  (``benchmarks/packs.py``).
"""

import io
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, features

from recheck.data.images import Reading, decode, jpeg, opened, resized_image
from recheck.resize import Resize

SOURCE, JPEG, WEBP = ENCODINGS = ("source", "jpeg", "webp")
LONGEST_WEBP = 16383
"""Pixels of the longest side that a WebP file may have; longer images are PNG files."""


def encoding_of(resize: Resize) -> str:
    """The encoding of images with this resize."""
    if not resize:
        return SOURCE
    return JPEG if "jpeg" in resize else WEBP


def encode(path: str | Path, resize: Resize, reading: Reading) -> tuple[bytes, np.ndarray]:
    """The encoded form of an image file after the resize, and its pixels."""
    encoding = encoding_of(resize)
    if encoding == SOURCE:
        data = Path(path).read_bytes()
        return data, decoded(data, encoding, reading)
    image = resized_image(path, resize, reading)
    data = jpeg(image, resize["jpeg"]) if encoding == JPEG else lossless(image)
    pixels = decoded(data, encoding, reading)
    if encoding == WEBP and not np.array_equal(pixels, np.asarray(image)):
        raise ValueError(f"{decoder()} does not restore its pixels")
    return data, pixels


def lossless(image: Image.Image) -> bytes:
    """An image as a lossless WebP file, or as a PNG file if a side is too long for WebP.

    Higher methods of WebP save a tenth of the bytes, and take ten times as long to encode.
    """
    buffer = io.BytesIO()
    if max(image.size) > LONGEST_WEBP:
        image.save(buffer, "PNG", compress_level=1)
    else:
        image.save(buffer, "WEBP", lossless=True, quality=20, method=0)
    return buffer.getvalue()


def decoded(data: bytes, encoding: str, reading: Reading) -> np.ndarray:
    """The pixels of an encoded image, (height, width, 3) uint8."""
    if encoding == SOURCE:
        return decode(io.BytesIO(data), None, reading)
    return np.asarray(opened(io.BytesIO(data), ("JPEG", "PNG", "WEBP")).convert("RGB"))


def decoder() -> str:
    """The libraries that decode. Other versions might decode a JPEG file to slightly different pixels."""
    libraries = ("libjpeg_turbo", "jpg", "webp")
    return ", ".join([f"Pillow {PIL.__version__}", *(f"{name} {features.version(name)}" for name in libraries)])
