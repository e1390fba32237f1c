"""All images of a dataset decoded once into one file that every run reads through a memory map.

A pack is a folder: ``pixels.bin`` (height × width × 3 bytes of RGB, image after image), ``shapes.npy``
(height and width of each) and ``pack.json`` (what it was made from). It is written beside and renamed, so
a pack that exists is complete.
"""

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, UnidentifiedImageError

from recheck.data.parallel import ordered_map
from recheck.data.resize import Resize
from recheck.errors import UserError
from recheck.files import disk_errors, read_json, sha256, write_json

MEBIBYTE = 1 << 20


def resized(height: int, width: int, resize: Resize) -> tuple[int, int]:
    """Height and width after the resize, rounded as torchvision's ``Resize`` does."""
    if not resize:
        return height, width
    if "exact" in resize:
        return tuple(resize["exact"])
    shorter = resize["shorter"]
    if height <= width:
        return shorter, int(shorter * width / height)
    return int(shorter * height / width), shorter


def decode(path: str | Path, resize: Resize = None) -> np.ndarray:
    """The pixels of an image file as the pack holds them: RGB, transparent parts on white, resized bilinearly."""
    with Image.open(path) as image:
        image = to_rgb(image)
    height, width = resized(image.height, image.width, resize)
    if (height, width) != (image.height, image.width):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of any mode; where an image is transparent, white is behind it."""
    if image.mode == "RGB" and "transparency" not in image.info:
        image.load()
        return image
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def pack(
    index: pd.DataFrame,
    image_root: str | Path,
    resize: Resize,
    destination: str | Path,
    index_sha256: str,
    workers: int = 1,
) -> dict:
    """Decode and resize every image of an index into a pack; return what ``pack.json`` says.

    Headers are read first: the space that is needed is known before anything is written, and files that are
    missing or are no images are all named in one message.
    """
    root, destination = Path(image_root), Path(destination)
    paths = [root / path for path in index["path"]]
    shapes = _shapes(paths, resize, workers)
    needed = int(shapes.astype(np.int64).prod(axis=1).sum()) * 3
    with disk_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        for stale in destination.parent.glob(f".{destination.name}.*"):
            shutil.rmtree(stale, ignore_errors=True)  # left by a job that was killed
        _check_space(needed, destination)
        temporary = Path(tempfile.mkdtemp(dir=destination.parent, prefix=f".{destination.name}."))
        try:
            made = temporary / "pack"
            made.mkdir()
            digest = _write_pixels(paths, resize, shapes, made / "pixels.bin", workers)
            np.save(made / "shapes.npy", shapes)
            about = {
                "count": len(paths),
                "bytes": needed,
                "sha256": digest,
                "index_sha256": index_sha256,
                "resize": resize,
            }
            write_json(made / "pack.json", about)
            if destination.exists():
                destination.rename(temporary / "old")
            made.rename(destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return about


class PackedImages:
    """The images of a pack, by their number in the index. Cheap to hand to other processes: they map the same file."""

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        self.about = self._open(read_json, "pack.json")
        self.shapes = self._open(np.load, "shapes.npy")
        lengths = self.shapes.astype(np.int64).prod(axis=1) * 3
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._map()

    def _open(self, reader: Callable, name: str) -> Any:
        try:
            return reader(self.directory / name)
        except (OSError, ValueError, EOFError) as error:
            raise self._broken(f"{name}: {error}") from None

    def _map(self) -> None:
        path = self.directory / "pixels.bin"
        size = path.stat().st_size if path.exists() else 0
        if len(self.shapes) != self.about["count"] or not size == self.about["bytes"] == self._starts[-1]:
            raise self._broken(f"pixels.bin has {size} bytes, {self.about['bytes']} are expected")
        self._pixels = np.memmap(path, dtype=np.uint8, mode="r")

    def _broken(self, why: str) -> UserError:
        return UserError(
            f"The packed images in {self.directory} are incomplete ({why}): delete that folder and run again."
        )

    def verify(self) -> None:
        """Read all pixels and compare their checksum."""
        if sha256(self.directory / "pixels.bin") != self.about["sha256"]:
            raise UserError(
                f"The packed images in {self.directory} have changed (checksum): delete that folder and run again."
            )

    def __len__(self) -> int:
        return len(self.shapes)

    def image(self, number: int) -> np.ndarray:
        """One image, (height, width, 3) uint8, read-only: a view into the file."""
        if not 0 <= number < len(self.shapes):
            raise IndexError(f"image {number} of {len(self.shapes)}")
        height, width = self.shapes[number]
        return self._pixels[self._starts[number] : self._starts[number + 1]].reshape(height, width, 3)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_pixels"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._map()


def _shape(path: Path, resize: Resize) -> tuple[int, int] | str:
    try:
        with Image.open(path) as image:
            return resized(image.height, image.width, resize)
    except FileNotFoundError:
        return "missing"
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return _reason(error)


def _pixels(path: Path, resize: Resize) -> np.ndarray | str:
    try:
        return decode(path, resize)
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error) or type(error).__name__


def _shapes(paths: list[Path], resize: Resize, workers: int) -> np.ndarray:
    look = functools.partial(_shape, resize=resize)
    found = list(ordered_map(look, paths, workers, total=len(paths), description="Reading image sizes"))
    if any(isinstance(shape, str) for shape in found):
        _refuse_broken(_unreadable(paths, resize, workers))
    return np.array(found, dtype=np.int32).reshape(-1, 2)


def _unreadable(paths: list[Path], resize: Resize, workers: int) -> list[tuple[Path, str]]:
    """Every image that can't be decoded: when one header is bad, a user wants to hear of all that is."""
    read = functools.partial(_problem, resize=resize)
    problems = ordered_map(read, paths, workers, total=len(paths), description="Looking for broken images")
    return [(path, problem) for path, problem in zip(paths, problems, strict=True) if problem]


def _problem(path: Path, resize: Resize) -> str | None:
    pixels = _pixels(path, resize)
    return pixels if isinstance(pixels, str) else None


def _write_pixels(paths: list[Path], resize: Resize, shapes: np.ndarray, target: Path, workers: int) -> str:
    digest, broken = hashlib.sha256(), []
    read = functools.partial(_pixels, resize=resize)
    with target.open("wb") as out:
        images = ordered_map(read, paths, workers, total=len(paths), description="Packing images")
        for path, shape, pixels in zip(paths, shapes, images, strict=True):
            if isinstance(pixels, str):
                broken.append((path, pixels))
            elif pixels.shape != (*shape, 3):
                broken.append((path, "its size is not the one in its header"))
            elif not broken:
                data = pixels.tobytes()
                out.write(data)
                digest.update(data)
        out.flush()
        os.fsync(out.fileno())
    _refuse_broken(broken)
    return digest.hexdigest()


def _refuse_broken(broken: list[tuple[Path, str]]) -> None:
    if broken:
        shown = "\n".join(f"  {path}: {reason}" for path, reason in broken)
        raise UserError(f"{len(broken)} images cannot be read; restore or remove them and run again:\n{shown}")


def _check_space(needed: int, destination: Path) -> None:
    free = shutil.disk_usage(destination.parent).free
    if needed > free:
        raise UserError(
            f"Packing into {destination} needs {needed / MEBIBYTE:.0f} MB, but only {free / MEBIBYTE:.0f} MB are free "
            "there: free some space, or choose another folder (config key 'pathvars')."
        )
