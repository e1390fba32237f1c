"""Generated photographs to measure with: textured JPEG files of 500 × 375 pixels, like most of CUB-200-2011."""

from pathlib import Path

import numpy as np
from PIL import Image

SIZE = (500, 375)


def make_photos(root: Path, classes: int, per_class: int, size: tuple[int, int] = SIZE) -> Path:
    """A folder with one folder per class, which any program can read. The files are the same each time."""
    for label in range(classes):
        folder = root / f"class{label:03d}"
        folder.mkdir(parents=True)
        for number in range(per_class):
            photo(label, number, size).save(folder / f"{number:03d}.jpg", quality=90)
    return root


def photo(label: int, number: int, size: tuple[int, int]) -> Image.Image:
    """Noise at several scales around the colour of the class: as hard to compress as a photograph."""
    generator = np.random.default_rng([label, number])
    width, height = size
    image = np.full((height, width, 3), generator.integers(64, 192, 3), np.float32)
    for scale, weight in ((4, 60), (16, 40), (64, 25), (128, 12)):
        noise = generator.normal(0, weight, (max(2, height * scale // 256), max(2, width * scale // 256), 3))
        layer = Image.fromarray(np.clip(noise + 128, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        image += np.asarray(layer, np.float32) - 128
    return Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
