"""Write the embeddings of images to a file, one row per image.

IMAGE is an image file, or a folder, including its subfolders. Only one batch of images is in memory at a time, so a
folder may be of any size. Images that cannot be read are listed on standard error and skipped.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from recheck.cli.text import YES, Skipped, add_model, check_output, found_images, load
from recheck.errors import UserError, nearest
from recheck.files import atomic, write_text

if TYPE_CHECKING:
    import numpy as np

HELP = "write the embeddings of images to a file"
EXAMPLES = """\
  recheck embed results/quickstart/emoji/triplet/seed0 photos -o embeddings.safetensors
  recheck embed results/quickstart/emoji/triplet/seed0/fold0 one.png other.png -o embeddings.csv --raw
"""
NOTES = """\
formats, chosen by the suffix of the output:
  .safetensors  tensor `embeddings`; the paths are in the metadata
  .npy          matrix for numpy.load; the paths are in a text file beside it, one per line
  .csv          columns path, e0, e1, …
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("images", metavar="IMAGE", nargs="+", help="image files, or folders of images")
    command.add_argument("-o", "--output", required=True, help="file to write: .safetensors, .npy or .csv")
    command.add_argument(
        "--raw", action="store_true", help="write the network's outputs without scaling them to length 1"
    )


def run(options: argparse.Namespace) -> int:
    import numpy as np

    output = Path(options.output)
    if output.suffix not in WRITERS:
        raise UserError(f"'{output}' has an unknown suffix '{output.suffix}'; {nearest(output.suffix, WRITERS)}.")
    if output.is_dir():
        raise UserError(f"{output} is a folder, but --output must be a file: choose another name.")
    check_output(output)
    images, others = found_images(options.images)
    if not images:
        raise UserError(f"There are no images in {', '.join(options.images)}: pass image files or folders of images.")
    model, skipped = load(options), Skipped(others)
    paths, rows = [], []
    for positions, batch in model.stream(images, normalise=not options.raw, skipped=skipped):
        paths += [str(images[position]) for position in positions]
        rows.append(batch)
    skipped.report()
    if not rows:
        raise UserError("None of the given images can be read: see the reasons above, and pass other images.")
    embeddings = np.concatenate(rows)
    WRITERS[output.suffix](output, paths, embeddings)
    noun = "embedding" if len(paths) == 1 else "embeddings"
    print(f"{len(paths):,} {noun} with {embeddings.shape[1]} dimensions: {output}", file=sys.stderr)
    return YES


def _safetensors(output: Path, paths: list[str], embeddings: "np.ndarray") -> None:
    from safetensors.numpy import save_file

    from recheck import seal

    seal.write(output, {"embeddings": embeddings}, save_file, {"paths": paths})


def _npy(output: Path, paths: list[str], embeddings: "np.ndarray") -> None:
    import numpy as np

    write_text(output.with_suffix(".txt"), "".join(f"{path}\n" for path in paths))
    with atomic(output) as temporary:
        np.save(temporary, embeddings)


def _csv(output: Path, paths: list[str], embeddings: "np.ndarray") -> None:
    with atomic(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", *(f"e{number}" for number in range(embeddings.shape[1]))])
        for path, row in zip(paths, embeddings, strict=True):
            writer.writerow([path, *(repr(float(value)) for value in row)])


WRITERS = {".safetensors": _safetensors, ".npy": _npy, ".csv": _csv}
