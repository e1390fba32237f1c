"""Packs: bytes and images/s of plain and encoded packs, and lossless encodings of resized photographs."""

import io
import statistics
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from timing import in_turn, main, processor, ratios, spread

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck.data import transforms
from recheck.data.encoding import lossless
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack

TRAIN = [
    {"random_resized_crop": {"size": 224, "scale": [0.16, 1.0], "ratio": [0.75, 1.33]}},
    {"horizontal_flip": {"p": 0.5}},
]
RESIZES = {"jpeg": {"shorter": 288, "jpeg": 75}, "webp": {"shorter": 288}, "source": None}
SIDES = (400, 300)
"""Width and height of the photographs, which are cut from the two that scikit-learn ships."""


def photographs(folder: Path, count: int) -> Path:
    """JPEG files in one folder per class; the same each time."""
    generator = np.random.default_rng(0)
    for number in range(count):
        whole = load_sample_images().images[number % 2]
        top, left = (generator.integers(0, whole.shape[axis] - SIDES[1 - axis]) for axis in (0, 1))
        cut = Image.fromarray(whole[top : top + SIDES[1], left : left + SIDES[0]])
        path = folder / f"class{number % 2}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cut.save(path, quality=90)
    return folder


def read(images: PackedImages, transform: Callable | None) -> None:
    """All images of a pack in random order, as a loader process reads them."""
    generator = torch.Generator().manual_seed(0)
    for number in np.random.default_rng(0).permutation(len(images)):
        pixels = images.image(int(number))
        if transform:
            transform(pixels, generator)


def compared(folder: Path, root: Path, repeats: int) -> list[str]:
    index = parse_folder({"name": "photographs"}, folder, root)
    transform, lines = transforms.build(TRAIN), []
    for name, resize in RESIZES.items():
        packs = {}
        for kind, limit in (("plain", float("inf")), ("encoded", 0)):
            pack(index, root, resize, folder / name / kind, "0", plain_limit=limit)
            packs[kind] = PackedImages(folder / name / kind)
            packs[kind].verify()
        functions = {
            f"{kind} {what}": lambda images=images, then=then: read(images, then)
            for kind, images in packs.items()
            for what, then in (("read", None), ("augmented", transform))
        }
        seconds = in_turn(functions, repeats, processor)
        per_second = {
            kind: len(index) / statistics.median(seconds[f"{kind} augmented"]) for kind in ("plain", "encoded")
        }
        extra = [
            1e3 * (encoded - plain) / len(index)
            for encoded, plain in zip(seconds["encoded read"], seconds["plain read"], strict=True)
        ]
        lines.append(
            f"| {name} | {packs['plain'].about['bytes'] / len(index) / 1e3:.0f} "
            f"| {packs['encoded'].about['bytes'] / len(index) / 1e3:.0f} "
            f"| {packs['encoded'].about['bytes'] / packs['plain'].about['bytes']:.3f} "
            f"| {spread(extra)} | {per_second['plain']:.0f} | {per_second['encoded']:.0f} "
            f"| {spread(ratios(seconds['encoded augmented'], seconds['plain augmented']))} |"
        )
    return lines


def _saved(form: str, **options: object) -> Callable[[Image.Image], bytes]:
    def save(image: Image.Image) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, form, **options)
        return buffer.getvalue()

    return save


def _opened(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


ENCODERS = {
    "**WebP, as in packs**": (lossless, _opened),
    "WebP, quality 20, method 3": (_saved("WEBP", lossless=True, quality=20, method=3), _opened),
    "PNG, level 1": (_saved("PNG", compress_level=1), _opened),
    "PNG, level 6": (_saved("PNG", compress_level=6), _opened),
    "zlib of the pixels, level 1": (
        lambda image: zlib.compress(image.tobytes(), 1),
        lambda data: np.frombuffer(zlib.decompress(data), np.uint8),
    ),
}


def encoders(root: Path, count: int, repeats: int) -> list[str]:
    lines = []
    size = RESIZES["webp"]["shorter"]
    files = sorted(root.rglob("*.jpg"))[:count]
    images = [Image.open(path).resize((size * SIDES[0] // SIDES[1], size), Image.Resampling.BILINEAR) for path in files]
    encoded = {name: [encode(image) for image in images] for name, (encode, _) in ENCODERS.items()}
    writing = in_turn(
        {name: lambda encode=encode: [encode(image) for image in images] for name, (encode, _) in ENCODERS.items()},
        repeats,
        processor,
    )
    reading = in_turn(
        {
            name: lambda decode=decode, data=encoded[name]: [decode(one) for one in data]
            for name, (_, decode) in ENCODERS.items()
        },
        repeats,
        processor,
    )
    plain = sum(np.asarray(image).nbytes for image in images)
    for name, data in encoded.items():
        milliseconds = [spread([1e3 * value / count for value in times[name]], 1) for times in (writing, reading)]
        lines.append(f"| {name} | {sum(map(len, data)) / plain:.3f} | {' | '.join(milliseconds)} |")
    return lines


def section(quick: bool) -> str:
    torch.set_num_threads(1)
    count, some, repeats = (8, 2, 1) if quick else (200, 20, 5)
    with tempfile.TemporaryDirectory() as temporary:
        root = photographs(Path(temporary, "photographs"), count)
        packs, codecs = compared(Path(temporary), root, repeats), encoders(root, some, repeats)
    return f"""## Packs

{count} photographs of {SIDES[0]} × {SIDES[1]} pixels, cut from two photographs; one process, {repeats} turns.

- All times are CPU times of files in the page cache. They do not include slow disks, for which encoded packs are meant.
- *jpeg* has a shorter side of 288 and is saved as JPEG by the protocol, as iNaturalist is in `contextual_256`; *webp*
  has a shorter side of 288; *source* has the original size.
- *Decoding* is the extra time for reading an encoded image instead of a plain one.
- *Images/s* are read, cropped to 224 × 224 pixels and flipped. *Slowdown* is the ratio of these times.

| encoding | kB/image, plain | encoded | encoded ÷ plain | decoding, ms | images/s, plain | encoded | slowdown |
|---|---:|---:|---:|---:|---:|---:|---:|
{chr(10).join(packs)}

Lossless encodings of {some} photographs with a shorter side of 288:

| encoding | bytes ÷ pixels | encoding, ms/image | decoding, ms/image |
|---|---:|---:|---:|
{chr(10).join(codecs)}
"""


if __name__ == "__main__":
    main(section, __doc__)
