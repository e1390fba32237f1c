"""Opening an image file: whatever kind of picture it is, it becomes RGB with 8 bits a channel, or there is a reason.

The published benchmarks read their images with Pillow's ``Image.open(path).convert("RGB")`` and nothing else, so the
datasets of the benchmarks say ``exif: ignore`` and ``alpha: drop``, which is exactly that. For a user's own photos the
defaults are what a person sees: turned as the camera says, and on white where they are transparent.

Where ``convert`` would destroy an image, it is not used: it clips 16-bit grey at 255, which turns a photo white. Such
an image keeps its upper eight bits, as Pillow itself does with 16-bit colour.
"""

import io
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from recheck.errors import UserError, nearest
from recheck.resize import Resize

Reading = dict[str, str]
CHOICES = {"exif": ("apply", "ignore"), "alpha": ("white", "drop")}
DEFAULTS: Reading = {"exif": "apply", "alpha": "white"}
TURNED = (5, 6, 7, 8)  # orientations in which height and width are exchanged


def reading_of(options: dict | None) -> Reading:
    """How a dataset's images are read: ``exif`` and ``alpha`` of its ``options``, or the defaults."""
    chosen = {**DEFAULTS, **{key: value for key, value in (options or {}).items() if key in CHOICES}}
    for key, value in chosen.items():
        if value not in CHOICES[key]:
            raise UserError(f"`options.{key}` of a dataset is {value!r}: {nearest(str(value), CHOICES[key])}.")
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


def shape_of(path: str | Path, resize: Resize = None, reading: Reading | None = None) -> tuple[int, int]:
    """Height and width that :func:`decode` will give, from the file's header alone."""
    with Image.open(path) as image:
        height, width = image.height, image.width
        if _applies_exif(reading) and _orientation(image) in TURNED:
            height, width = width, height
    return resized(height, width, resize)


def decode(path: str | Path, resize: Resize = None, reading: Reading | None = None) -> np.ndarray:
    """The pixels of an image file as a pack holds them, (height, width, 3) uint8, resized bilinearly."""
    with Image.open(path) as opened:
        image = to_rgb(opened, (reading or DEFAULTS)["alpha"])
        if _applies_exif(reading):
            image = _upright(image, _orientation(opened))
    height, width = resized(image.height, image.width, resize)
    if resize and "fit" in resize:
        image = _fitted(image, height, width)
    elif (height, width) != (image.height, image.width):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    if resize and "jpeg" in resize:
        image = _through_jpeg(image, resize["jpeg"])
    return np.asarray(image)


def _fitted(image: Image.Image, height: int, width: int) -> Image.Image:
    """As large as fits, bilinearly, in the middle of black; sides and place rounded as TensorFlow's resize_with_pad."""
    ratio = max(image.height / height, image.width / width)
    sides = [side / ratio for side in (image.width, image.height)]
    left, top = (int(max(0.0, (whole - side) / 2)) for whole, side in zip((width, height), sides, strict=True))
    canvas = Image.new("RGB", (width, height))
    size = (max(1, int(sides[0])), max(1, int(sides[1])))
    canvas.paste(image if image.size == size else image.resize(size, Image.Resampling.BILINEAR), (left, top))
    return canvas


def to_rgb(image: Image.Image, alpha: str = DEFAULTS["alpha"]) -> Image.Image:
    """RGB of any mode; ``alpha`` says what is where an image is transparent: white, or the colour beneath."""
    if image.mode.startswith("I"):
        return _upper_bits(image).convert("RGB")
    if image.mode == "F":
        raise ValueError("it has floating-point pixels, whose range is not defined: save it with 8 or 16 bits")
    if alpha == "white" and image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def reason(error: Exception) -> str:
    """Why an image can't be read, for a list of such images."""
    if isinstance(error, FileNotFoundError):
        return "missing"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError):
        most = 2 * Image.MAX_IMAGE_PIXELS / 1e6
        return (
            f"it has more than {most:.0f} million pixels, Pillow's limit against decompression bombs: make it smaller"
        )
    return str(error) or type(error).__name__


def _applies_exif(reading: Reading | None) -> bool:
    return (reading or DEFAULTS)["exif"] == "apply"


def _orientation(image: Image.Image) -> int | None:
    """How a camera was held; of a TIFF nothing is left to do, because Pillow turns it itself."""
    try:
        return None if image.format == "TIFF" else image.getexif().get(ExifTags.Base.Orientation)
    except Exception:
        return None  # a damaged note about the picture does not make the picture unreadable


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
    """Grey with 16 bits, or with 32 of which 16 are used, to its upper eight."""
    values = np.asarray(image)
    if values.size and (values.min() < 0 or values.max() > 0xFFFF):
        raise ValueError("it has grey values beyond 16 bits: save it with 8 or 16 bits")
    return Image.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))


def _through_jpeg(image: Image.Image, quality: int) -> Image.Image:
    """What is left of an image that was saved as JPEG, as some protocols did after resizing."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")
