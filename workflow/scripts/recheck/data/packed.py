"""Packs: all images of a dataset, decoded once into one file that every run reads through a memory map.

A pack is a folder with ``pixels.bin`` (the RGB bytes of one image after another), ``shapes.npy`` (height and width of
each image), ``hashes.npy`` (SHA-256 of each image's pixels) and ``pack.json`` (what the pack was made from). It is made
in a temporary folder and then renamed, so a pack that exists is complete.

A pack whose pixels would exceed a limit is *encoded*: ``pixels.bin`` has the encoded images (:mod:`.encoding`), which
readers decode, and ``shapes.npy`` has a third column, their sizes in bytes. Pixels and hashes are those of the plain
pack, so runs have the same fingerprints and the same bits.

*Writing* survives interruption. The headers of the images determine where each image goes in the file. Several
processes decode blocks of images, write them and sync them to the disk; then the block is recorded in a journal. After
a kill at any moment, the same command resumes with the missing blocks and produces bit-identical results. The place of
an encoded image depends on all images before it, so one process writes the blocks in order.

*Reading* verifies every image that is used. Hashing a whole pack (166 GB for iNaturalist) in every job would take
minutes, and comparing size and time would miss a damaged disk. So every image has its own hash: ``pack.json`` has the
hash of shapes and hashes, which is compared when the pack is opened, and each image is compared with its hash when a
job first reads it. This costs about a quarter of a millisecond per image. It also detects a library that decodes
encoded images to different pixels.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import math
import mmap
import operator
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import PIL

from recheck.data.encoding import ENCODINGS, decoded, decoder, encode, encoding_of
from recheck.data.images import DEFAULTS, Reading, check_narrow, decode, reason, resized, shape_of
from recheck.data.parallel import ordered_map
from recheck.errors import UserError
from recheck.files import atomic, check_space, disk_errors, fingerprint, read_json, write_json
from recheck.resize import Resize

if TYPE_CHECKING:  # reading a pack does not need pandas
    import pandas as pd

log = logging.getLogger("recheck")
BLOCK = 64  # images that are written, synced and recorded together
DIGEST = 32
SIZE = 8  # bytes of an encoded image's size
FILES = ("pack.json", "shapes.npy", "hashes.npy", "pixels.bin")
IN_THE_MAKING = ("journal", "hashes.bin", "plan.json")


class Block(NamedTuple):
    """A unit of work: consecutive images."""

    number: int
    first: int
    paths: list[Path]
    shapes: np.ndarray
    start: int
    sources: str


class Done(NamedTuple):
    """The outcome of a block; it is recorded only if none of its images is broken."""

    number: int
    images: int
    sources: str
    records: str
    broken: list[tuple[Path, str]]


class Encoded(NamedTuple):
    """The images of a block, encoded, with the hash of each image's pixels."""

    block: Block
    images: list[bytes]
    hashes: list[bytes]
    broken: list[tuple[Path, str]]


def pack(
    index: pd.DataFrame,
    image_root: str | Path,
    resize: Resize,
    destination: str | Path,
    index_sha256: str,
    workers: int = 1,
    reading: Reading | None = None,
    plain_limit: float = math.inf,
) -> dict:
    """Decode and resize every image of an index into a pack; return the content of ``pack.json``.

    Headers are read first, so the size of the pixels is known before anything is written; if it exceeds
    ``plain_limit`` bytes, the pack is encoded. Every image is fully decoded, and one message lists all missing or
    broken images.
    """
    root, destination = Path(image_root), Path(destination)
    reading = reading or DEFAULTS
    paths = [root / path for path in index["path"]]
    shapes = _shapes(paths, resize, reading, workers)
    plan = {
        "index_sha256": index_sha256,
        "resize": resize,
        "reading": reading,
        "decoder": f"Pillow {PIL.__version__}",
    }
    if encoded := _plain_sizes(shapes).sum() > plain_limit:
        plan |= {"decoder": decoder(), "encoding": encoding_of(resize)}
    with disk_errors(destination):
        work = _prepare(destination, plan, shapes)
        (_write_encoded if encoded else _write)(work, paths, shapes, resize, reading, workers)
        records = _records(work, len(paths))
        hashes = np.ascontiguousarray(records[:, :DIGEST])
        sizes = _encoded_sizes(records) if encoded else _plain_sizes(shapes)
        table = np.column_stack([shapes, sizes]) if encoded else shapes
        for name, array in (("shapes.npy", table), ("hashes.npy", hashes)):
            with atomic(work / name) as temporary:
                np.save(temporary, array)
        about = {"count": len(paths), "bytes": int(sizes.sum()), "sha256": _root(shapes, hashes), **plan}
        write_json(work / "pack.json", about)
        _finish(work, destination)
    return about


class PackedImages:
    """The images of a pack by their number in the index. Cheap to pickle: every process maps the same file."""

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        self.about = read_about(self.directory / "pack.json")
        self._encoding = self.about.get("encoding")
        table = self._open(np.load, "shapes.npy")
        self._hashes = self._open(np.load, "hashes.npy")
        if table.ndim != 2 or table.shape[1] != (3 if self._encoding else 2) or table.dtype.kind != "i":
            raise self._changed("shapes.npy")
        self.shapes = table[:, :2]
        self._starts = _starts(table[:, 2] if self._encoding else _plain_sizes(self.shapes))
        path = self.directory / "pixels.bin"
        size = path.stat().st_size if path.exists() else 0
        if len(self.shapes) != self.about["count"] or not size == self.about["bytes"] == self._starts[-1]:
            raise self._broken(f"pixels.bin has {size} bytes, expected {self.about['bytes']}")
        if _root(self.shapes, self._hashes) != self.about["sha256"]:
            raise self._changed("shapes.npy or hashes.npy")
        # a plain array, because slicing it is faster than slicing a memmap
        self._pixels = np.asarray(np.memmap(path, dtype=np.uint8, mode="r")) if size else np.empty(0, np.uint8)
        # shared with forked processes, so that each image is hashed once per job
        self._verified = np.frombuffer(mmap.mmap(-1, max(1, len(self.shapes))), np.uint8)

    def _open(self, reader: Callable, name: str) -> Any:
        try:
            return reader(self.directory / name)
        except Exception as error:  # numpy's reader raises almost anything on damaged files
            raise self._broken(f"{name}: {error}") from None

    def _broken(self, why: str) -> UserError:
        return _incomplete(self.directory, why)

    def _changed(self, content: str) -> UserError:
        return UserError(
            f"The packed images in {self.directory} have changed since they were made (checksum of {content}): delete "
            "that folder and run again."
        )

    def verify(self) -> None:
        """Read all images again and compare their checksums."""
        self._verified[:] = 0
        for number in range(len(self)):
            self.image(number)

    def __len__(self) -> int:
        return len(self.shapes)

    def image(self, number: int) -> np.ndarray:
        """One read-only image, (height, width, 3) uint8, verified when first read: a view into the file, or decoded."""
        if not 0 <= number < len(self.shapes):
            raise IndexError(f"image {number} of {len(self.shapes)}")
        height, width = self.shapes[number]
        stored = self._pixels[self._starts[number] : self._starts[number + 1]]
        pixels = self._decoded(number, stored) if self._encoding else stored
        if not self._verified[number]:
            if hashlib.sha256(pixels).digest() != self._hashes[number].tobytes():
                raise self._other_pixels(number)
            self._verified[number] = 1
        return pixels.reshape(height, width, 3)

    def _decoded(self, number: int, data: np.ndarray) -> np.ndarray:
        try:
            return decoded(data.tobytes(), self._encoding, self.about["reading"])
        except Exception:  # Pillow's readers raise almost anything on damaged files
            raise self._other_pixels(number) from None

    def _other_pixels(self, number: int) -> UserError:
        made, here = self.about.get("decoder"), decoder()
        if not self._encoding or made == here:
            return self._changed(f"image {number}")
        return UserError(
            f"Image {number} of the packed images in {self.directory} was packed with {made}, but {here} "
            "decodes it to different pixels: install the pinned packages, or delete that folder and run again."
        )

    def __getstate__(self) -> dict:
        return {"directory": self.directory}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state["directory"])


def read_about(path: str | Path) -> dict[str, Any]:
    """The content of ``pack.json``, checked."""
    try:
        about = read_json(path)
    except (OSError, UserError) as error:
        raise _incomplete(Path(path).parent, f"pack.json: {error}") from None
    if not isinstance(about, dict) or not all(key in about for key in ("count", "bytes", "sha256", "index_sha256")):
        raise _incomplete(Path(path).parent, "pack.json is missing some of its keys")
    if about.get("encoding") not in (None, *ENCODINGS) or ("encoding" in about and "reading" not in about):
        raise _incomplete(Path(path).parent, f"pack.json has the unknown encoding {about['encoding']!r}")
    return about


def _incomplete(directory: Path, why: str) -> UserError:
    return UserError(f"The packed images in {directory} are incomplete ({why}): delete that folder and run again.")


def _plain_sizes(shapes: np.ndarray) -> np.ndarray:
    """The bytes of each image's pixels."""
    return shapes.astype(np.int64).prod(axis=1) * 3


def _starts(sizes: np.ndarray) -> np.ndarray:
    """The start of each image in pixels.bin, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])


def _root(shapes: np.ndarray, hashes: np.ndarray) -> str:
    return hashlib.sha256(shapes.astype("<i4").tobytes() + hashes.tobytes()).hexdigest()


# Inspecting the images


def _look(path: Path, resize: Resize, reading: Reading) -> tuple[int, int] | str:
    """Height and width of an image before the resize, or why it cannot be read or resized."""
    try:
        shape = shape_of(path, reading=reading)
        check_narrow(*shape, resize)
        return shape
    except Exception as error:  # Pillow's readers raise almost anything on damaged files
        return reason(error)


def _read(path: Path, resize: Resize, reading: Reading) -> np.ndarray | str:
    try:
        return decode(path, resize, reading)
    except Exception as error:
        return reason(error)


def _shapes(paths: list[Path], resize: Resize, reading: Reading, workers: int) -> np.ndarray:
    look = functools.partial(_look, resize=resize, reading=reading)
    shapes = list(ordered_map(look, paths, workers, total=len(paths), description="Reading image sizes"))
    if any(isinstance(shape, str) for shape in shapes):
        _refuse_broken(_unreadable(paths, resize, reading, workers))
    tiny = [path for path, shape in zip(paths, shapes, strict=True) if min(shape) == 1]
    if tiny:
        log.warning(
            "Images only 1 pixel high or wide, which may be placeholders: %d of %d (the first is %s).",
            len(tiny), len(paths), tiny[0],
        )  # fmt: skip
    return np.array([resized(*shape, resize) for shape in shapes], dtype=np.int32).reshape(-1, 2)


def _unreadable(paths: list[Path], resize: Resize, reading: Reading, workers: int) -> list[tuple[Path, str]]:
    """Every image that can't be decoded, with the reason: users want to fix all of them at once."""
    read = functools.partial(_problem, resize=resize, reading=reading)
    problems = ordered_map(read, paths, workers, total=len(paths), description="Looking for broken images")
    return [(path, problem) for path, problem in zip(paths, problems, strict=True) if problem]


def _problem(path: Path, resize: Resize, reading: Reading) -> str | None:
    pixels = _read(path, resize, reading)
    return pixels if isinstance(pixels, str) else None


def _refuse_broken(broken: list[tuple[Path, str]]) -> None:
    if broken:
        shown = "\n".join(f"  {path}: {why}" for path, why in broken)
        images = "1 image" if len(broken) == 1 else f"{len(broken)} images"
        raise UserError(f"{images} cannot be read; restore or remove the following and run again:\n{shown}")


# Writing a pack, block by block


def _prepare(destination: Path, plan: dict, shapes: np.ndarray) -> Path:
    """The temporary folder of the pack: left by an interrupted job with the same plan, or new."""
    work = destination.parent / f".{destination.name}.partial"
    plan = {**plan, "shapes": hashlib.sha256(shapes.tobytes()).hexdigest()}
    if not _can_resume(work, plan):
        shutil.rmtree(work, ignore_errors=True)
    # the size of an encoded pack is not known before it is made
    needed = 0 if "encoding" in plan else int(_plain_sizes(shapes).sum())
    width = DIGEST + SIZE if "encoding" in plan else DIGEST
    check_space(needed - _on_disk(work / "pixels.bin"), destination, f"Packing into {destination}")
    if not work.exists():
        work.mkdir(parents=True)
        for name, size in (("pixels.bin", needed), ("hashes.bin", width * len(shapes))):
            with (work / name).open("wb") as file:
                file.truncate(size)
        (work / "journal").touch()
        write_json(work / "plan.json", plan)  # last, because a folder without a plan is not resumed
    return work


def _can_resume(work: Path, plan: dict) -> bool:
    try:
        return read_json(work / "plan.json") == json.loads(json.dumps(plan))
    except (OSError, UserError):
        return False


def _on_disk(path: Path) -> int:
    """Bytes that a sparse file occupies so far: parts not yet written take no space."""
    return path.stat().st_blocks * 512 if path.exists() else 0


def _blocks(paths: list[Path], shapes: np.ndarray) -> Iterator[Block]:
    starts = _starts(_plain_sizes(shapes))
    for number, first in enumerate(range(0, len(paths), BLOCK)):
        chosen = slice(first, first + BLOCK)
        yield Block(number, first, paths[chosen], shapes[chosen], int(starts[first]), _sources(paths[chosen]))


def _sources(paths: list[Path]) -> str:
    """A hash of image names, sizes and times, to notice images that were replaced after their block was written."""
    stats = [path.stat() for path in paths]
    return fingerprint(
        [[path.name, about.st_size, about.st_mtime_ns] for path, about in zip(paths, stats, strict=True)]
    )


def _write(work: Path, paths: list[Path], shapes: np.ndarray, resize: Resize, reading: Reading, workers: int) -> None:
    noted = _noted(work, len(paths))
    open_blocks = [block for block in _blocks(paths, shapes) if noted.get(block.number) != block.sources]
    broken = []
    work_on = functools.partial(_write_block, work=work, resize=resize, reading=reading)
    with (work / "journal").open("a", encoding="ascii") as journal:
        for result in _in_blocks(work_on, open_blocks, len(paths), workers, lambda result: result.images):
            broken += result.broken
            if not result.broken:
                _note(journal, result.number, result.sources, result.records)
    _refuse_broken(broken)


def _in_blocks(function: Callable, blocks: list[Block], total: int, workers: int, size: Callable) -> Iterator[Any]:
    """The results of the blocks that are left, in order, with a progress bar."""
    finished = total - sum(len(block.paths) for block in blocks)
    if finished:
        log.info("Resuming: %d of %d images are already packed", finished, total)
    return ordered_map(
        function, blocks, workers, total=total, description="Packing images", chunk=1, done=finished, size=size
    )


def _note(journal: IO[str], number: int, sources: str, records: str) -> None:
    journal.write(f"{number} {sources} {records}\n")
    journal.flush()


def _records(work: Path, count: int) -> np.ndarray:
    """One row of bytes per image: the hash of its pixels and, in an encoded pack, its size."""
    return np.fromfile(work / "hashes.bin", np.uint8).reshape(count, -1 if count else DIGEST)


def _encoded_sizes(records: np.ndarray) -> np.ndarray:
    return records[:, DIGEST:].copy().view("<i8")[:, 0]


def _noted(work: Path, count: int) -> dict[int, str]:
    """The blocks recorded in the journal, with the hash of their source images at that time."""
    records = _records(work, count)
    noted = {}
    for line in (work / "journal").read_text(encoding="ascii").splitlines():
        parts = line.split()
        if len(parts) != 3 or not parts[0].isdecimal():
            continue  # an unfinished line of a job that was killed
        first = int(parts[0]) * BLOCK
        if hashlib.sha256(records[first : first + BLOCK]).hexdigest() == parts[2]:
            noted[int(parts[0])] = parts[1]
    return noted


def _write_block(block: Block, work: Path, resize: Resize, reading: Reading) -> Done:
    """Decode the images of a block and write them; the bytes are synced to the disk when this returns."""
    broken, digests, position = [], [], block.start
    with (work / "pixels.bin").open("r+b", buffering=0) as out:
        for path, shape in zip(block.paths, block.shapes, strict=True):
            pixels = _read(path, resize, reading)
            if isinstance(pixels, str):
                broken.append((path, pixels))
            elif pixels.shape != (*shape, 3):
                broken.append((path, "its size differs from its header"))
            else:
                data = pixels.tobytes()
                digests.append(hashlib.sha256(data).digest())
                _put(out.fileno(), data, position)
            position += 3 * int(shape[0]) * int(shape[1])
        os.fsync(out.fileno())
    hashes = b"".join(digests)
    if not broken:
        _put_records(work, block.first, hashes, DIGEST)
    return Done(block.number, len(block.paths), block.sources, hashlib.sha256(hashes).hexdigest(), broken)


def _write_encoded(
    work: Path, paths: list[Path], shapes: np.ndarray, resize: Resize, reading: Reading, workers: int
) -> None:
    """Encode the images in several processes, and append them to the file in order."""
    noted = _noted(work, len(paths))
    blocks = list(_blocks(paths, shapes))
    done = list(itertools.takewhile(lambda block: noted.get(block.number) == block.sources, blocks))
    kept = sum(len(block.paths) for block in done)
    position = int(_encoded_sizes(_records(work, len(paths)))[:kept].sum())
    broken = []
    work_on = functools.partial(_encode_block, resize=resize, reading=reading)
    with (work / "journal").open("a", encoding="ascii") as journal, (work / "pixels.bin").open("r+b") as out:
        out.truncate(position)
        out.seek(position)
        for block, images, hashes, bad in _in_blocks(
            work_on, blocks[len(done) :], len(paths), workers, lambda result: len(result.block.paths)
        ):
            broken += bad
            if broken:
                continue  # only look for more broken images: no later image has a place in the file
            out.writelines(images)
            out.flush()
            os.fsync(out.fileno())
            sizes = (len(data).to_bytes(SIZE, "little") for data in images)
            records = b"".join(map(operator.add, hashes, sizes))
            _put_records(work, block.first, records, DIGEST + SIZE)
            _note(journal, block.number, block.sources, hashlib.sha256(records).hexdigest())
    _refuse_broken(broken)


def _encode_block(block: Block, resize: Resize, reading: Reading) -> Encoded:
    encoded = Encoded(block, [], [], [])
    for path, shape in zip(block.paths, block.shapes, strict=True):
        try:
            data, pixels = encode(path, resize, reading)
        except Exception as error:  # Pillow's readers raise almost anything on damaged files
            encoded.broken.append((path, reason(error)))
            continue
        if pixels.shape != (*shape, 3):
            encoded.broken.append((path, "its size differs from its header"))
        encoded.images.append(data)
        encoded.hashes.append(hashlib.sha256(pixels).digest())
    return encoded


def _put_records(work: Path, first: int, records: bytes, width: int) -> None:
    """Write the records of a block and sync them to the disk."""
    with (work / "hashes.bin").open("r+b", buffering=0) as out:
        _put(out.fileno(), records, width * first)
        os.fsync(out.fileno())


def _put(file: int, data: bytes, position: int) -> None:
    """Write all bytes; a single call of ``pwrite`` may write fewer."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written


def _finish(work: Path, destination: Path) -> None:
    """Move the complete pack to its destination, replacing an older one."""
    old = destination.with_name(f".{destination.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if destination.exists():
        destination.rename(old)
    work.rename(destination)
    shutil.rmtree(old, ignore_errors=True)
    for name in IN_THE_MAKING:
        (destination / name).unlink(missing_ok=True)
