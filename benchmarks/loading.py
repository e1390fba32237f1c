"""Loading: augmented batches from packed images and from JPEG files, and the cost of packing before the first epoch."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from photos import make_photos
from timing import in_turn, main, processor, ratios, spread

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck.data import transforms
from recheck.data.folder import parse_folder
from recheck.data.images import decode
from recheck.data.packed import PackedImages, pack
from recheck.training.loading import Batches, Loading, Task

CPU = torch.device("cpu")
BATCH = 32
RESIZE = {"shorter": 256}
TRAIN = [
    {"random_resized_crop": {"size": 227, "scale": [0.16, 1.0], "ratio": [0.75, 1.333]}},
    {"horizontal_flip": {"p": 0.5}},
]
WORKERS = (0, 1, 2)


class Decoded:
    """Stands in for PackedImages: decodes and resizes an image whenever it is requested."""

    def __init__(self, paths: list[Path]):
        self.paths = paths

    def image(self, number: int) -> np.ndarray:
        return decode(self.paths[number], RESIZE)


def epoch(images: PackedImages | Decoded, count: int, workers: int) -> None:
    order = np.random.RandomState(0).permutation(count).tolist()
    tasks = [
        Task(np.array(order[start : start + BATCH]), step=step) for step, start in enumerate(range(0, count, BATCH))
    ]
    with Batches(Loading(images, augmented=transforms.build(TRAIN)), tasks, workers, CPU) as batches:
        for _ in batches:
            pass


def section(quick: bool) -> str:
    torch.set_num_threads(1)
    classes, per_class, repeats = (4, 8, 1) if quick else (40, 16, 5)
    count, lines = classes * per_class, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = make_photos(folder / "photos", classes, per_class)
        index = parse_folder({"name": "photos"}, folder, root)
        paths = [root / path for path in index["path"]]
        for workers in WORKERS:
            destination = folder / f"packed{workers}"

            def packing(destination: Path = destination, workers: int = workers) -> None:
                pack(index, root, RESIZE, destination, index_sha256="0", workers=max(1, workers))

            packing_seconds = in_turn({"pack": packing}, 1)["pack"][0]
            verified = PackedImages(destination)
            verified.verify()
            functions = {
                "first": lambda destination=destination, workers=workers: epoch(
                    PackedImages(destination), count, workers
                ),
                "packed": lambda verified=verified, workers=workers: epoch(verified, count, workers),
                "decoded": lambda workers=workers: epoch(Decoded(paths), count, workers),
            }
            both = in_turn(functions, repeats, clock=lambda: np.array([time.perf_counter(), processor()]))
            wall = {name: [pair[0] for pair in pairs] for name, pairs in both.items()}
            busy = {name: [pair[1] for pair in pairs] for name, pairs in both.items()}
            lines.append(
                f"| {workers} | {count / statistics.median(wall['packed']):.0f} "
                f"| {spread(ratios(wall['decoded'], wall['packed']))} "
                f"| {spread(ratios(busy['decoded'], busy['packed']))} "
                f"| {spread(ratios(wall['first'], wall['packed']))} "
                f"| {spread(ratios([packing_seconds + first for first in wall['first']], wall['decoded']))} |"
            )
    return f"""## Loading

{count} JPEG files of 500 × 375 pixels, resized to a shorter side of 256 and augmented to 227 × 227; {repeats} turns.

- *Packed* reads the memory map. *Decoded* opens, decodes and resizes the file each time, with the same augmentation.
  The *speed-up* is that of packed over decoded.
- The first epoch of a job compares every packed image with its checksum; *first ÷ later epoch* shows the cost.
- Packing happens once, for all runs of all studies. The last column is the time of packing plus the first epoch,
  relative to one decoded epoch.

| loader processes | packed, images/s | speed-up | speed-up, CPU time | first ÷ later epoch | packing + first epoch |
|---:|---:|---:|---:|---:|---:|
{chr(10).join(lines)}
"""


if __name__ == "__main__":
    main(section, __doc__)
