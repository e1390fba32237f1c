"""Read any image file as RGB with 8 bits per channel, or say why that is impossible.

The published benchmarks read their images with Pillow's ``Image.open(path).convert("RGB")`` and nothing else; their
datasets reproduce that with ``exif: ignore`` and ``alpha: drop``. The defaults, for a user's photos, give what a person
sees: rotated as the EXIF orientation says, and on white where they are transparent.

``convert`` is avoided where it would destroy an image: it clips 16-bit grey at 255, which turns a photo white. Such an
image keeps its upper eight bits, which is what Pillow itself does with 16-bit colour.
"""

import io
from pathlib import Path
from typing import IO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from recheck.errors import UserError, nearest
from recheck.resize import Resize

Reading = dict[str, str]
CHOICES = {"exif": ("apply", "ignore"), "alpha": ("white", "drop")}
DEFAULTS: Reading = {"exif": "apply", "alpha": "white"}
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that are read, whatever a file's name: Pillow knows others, and starts Ghostscript for PostScript."""
TURNED = (5, 6, 7, 8)  # orientations that swap height and width


def opened(file: str | Path | IO[bytes], formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an image of one of these formats. No other function of the package may call Pillow's ``Image.open``."""
    return Image.open(file, formats=formats)


def reading_of(options: dict | None) -> Reading:
    """How to read a dataset's images: ``exif`` and ``alpha`` of its ``options``, with defaults."""
    chosen = {**DEFAULTS, **{key: value for key, value in (options or {}).items() if key in CHOICES}}
    for key, value in chosen.items():
        if value not in CHOICES[key]:
            raise UserError(f"'options.{key}' of a dataset is {value!r}; {nearest(str(value), CHOICES[key])}.")
    return chosen


def resized(height: int, width: int, resize: Resize) -> tuple[int, int]:
    """Height and width after the resize, rounded as torchvision's ``Resize`` does."""
    if not resize:
        return height, width
    if "shorter" not in resize:
        return tuple(resize.get("exact") or resize["fit"])
    shorter = resize["shorter"]
    if height <= width:
        return shorter, int(shorter * width / height)
    return int(shorter * height / width), shorter


def check_narrow(height: int, width: int, resize: Resize) -> None:
    """Refuse a strip whose resize would give more pixels than Pillow opens; one row of pixels could become 12 GB."""
    new_height, new_width = resized(height, width, resize)
    if resize and "shorter" in resize and new_height * new_width > 2 * Image.MAX_IMAGE_PIXELS:
        raise ValueError(
            f"its {width:,} × {height:,} pixels would become {new_width:,} × {new_height:,}, more than {_most()}: "
            "crop its longer side"
        )


def shape_of(path: str | Path, resize: Resize = None, reading: Reading | None = None) -> tuple[int, int]:
    """Height and width of what :func:`decode` will return, read from the file's header only."""
    with opened(path) as image:
        height, width = image.height, image.width
        if _applies_exif(reading) and _orientation(image) in TURNED:
            height, width = width, height
    return resized(height, width, resize)


def decode(path: str | Path | IO[bytes], resize: Resize = None, reading: Reading | None = None) -> np.ndarray:
    """The pixels of an image file as stored in a pack: (height, width, 3) uint8, resized bilinearly."""
    return _stored(resized_image(path, resize, reading), resize)


def decode_pixels(pixels: np.ndarray, resize: Resize = None) -> np.ndarray:
    """What :func:`decode` returns for an image that has been read already: (height, width, 3) uint8 in RGB."""
    return _stored(_resized(Image.fromarray(pixels), resize), resize)


def _stored(image: Image.Image, resize: Resize) -> np.ndarray:
    """The pixels of a resized image, after the protocol's JPEG compression, if any."""
    if resize and "jpeg" in resize:
        # some protocols save their resized images as JPEG and read them again
        image = opened(io.BytesIO(jpeg(image, resize["jpeg"])), ("JPEG",)).convert("RGB")
    return np.asarray(image)


def resized_image(path: str | Path | IO[bytes], resize: Resize, reading: Reading | None) -> Image.Image:
    """An image file as RGB, resized bilinearly, before the protocol's JPEG compression."""
    with opened(path) as file:
        image = to_rgb(file, (reading or DEFAULTS)["alpha"])
        if _applies_exif(reading):
            image = _upright(image, _orientation(file))
    return _resized(image, resize)


def _resized(image: Image.Image, resize: Resize) -> Image.Image:
    check_narrow(image.height, image.width, resize)
    height, width = resized(image.height, image.width, resize)
    if resize and "fit" in resize:
        image = _fitted(image, height, width)
    elif (height, width) != (image.height, image.width):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image


def _fitted(image: Image.Image, height: int, width: int) -> Image.Image:
    """Scaled to fit (bilinear), centred and padded with black; rounding as in TensorFlow's resize_with_pad."""
    ratio = max(image.height / height, image.width / width)
    sides = [side / ratio for side in (image.width, image.height)]
    left, top = (int(max(0.0, (whole - side) / 2)) for whole, side in zip((width, height), sides, strict=True))
    canvas = Image.new("RGB", (width, height))
    size = (max(1, int(sides[0])), max(1, int(sides[1])))
    canvas.paste(image if image.size == size else image.resize(size, Image.Resampling.BILINEAR), (left, top))
    return canvas


def to_rgb(image: Image.Image, alpha: str = DEFAULTS["alpha"]) -> Image.Image:
    """An image of any mode as RGB; transparent pixels become white, or (``alpha="drop"``) keep their stored colour."""
    if image.mode.startswith("I"):
        return _upper_bits(image).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no defined range: save it with 8 or 16 bits")
    if alpha == "white" and image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def reason(error: Exception) -> str:
    """Why an image can't be read, as an entry of a list of unreadable images."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {_most()} pixels, Pillow's limit against decompression bombs: make it smaller"
    return str(error) or type(error).__name__


def _most() -> str:
    return f"{2 * Image.MAX_IMAGE_PIXELS / 1e6:.0f} million"


def jpeg(image: Image.Image, quality: int) -> bytes:
    """The JPEG file of an image."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _applies_exif(reading: Reading | None) -> bool:
    return (reading or DEFAULTS)["exif"] == "apply"


def _orientation(image: Image.Image) -> int | None:
    """The EXIF orientation; None for a TIFF, which Pillow already rotates when it opens it."""
    try:
        return None if image.format == "TIFF" else image.getexif().get(ExifTags.Base.Orientation)
    except Exception:
        return None  # damaged metadata does not make the image unreadable


def _upright(image: Image.Image, orientation: int | None) -> Image.Image:
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _upper_bits(image: Image.Image) -> Image.Image:
    """The upper eight bits of a 16-bit grey image, which may be stored with 32 bits."""
    values = np.asarray(image)
    if values.size and (values.min() < 0 or values.max() > 0xFFFF):
        raise ValueError("grey values beyond 16 bits: save it with 8 or 16 bits")
    return Image.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))
