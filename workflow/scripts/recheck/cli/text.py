"""What several commands share: options, images, warnings and exit codes."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.errors import UserError

if TYPE_CHECKING:  # importing the networks takes seconds; --help and mistyped options should not wait
    from recheck.api.model import Model

YES, NO, ERROR, INTERRUPTED = 0, 1, 2, 130

THRESHOLDS = """\
what the threshold means:
  Thresholds are calibrated for the nearest image of an index to each query.
    precision  of the queries whose nearest neighbour is within the threshold, the share whose neighbour has the
               right class
    recall     of the queries whose nearest neighbour has the right class, the share whose neighbour is within the
               threshold
  Expect these values for the first result of `search`, in a folder that resembles the study's index in size and in
  images per class, and that contains images of the query's class, as the index always did. Precision and recall were
  not measured for arbitrary pairs (`same`), later results of `search`, or queries whose class is not in the folder.

  unseen  calibrated on classes that the model was not trained on, like yours (default)
  seen    calibrated on new images of classes that the model was trained on
  0.3     a cosine distance of your choice, from 0 (same direction) to 2 (opposite direction)

  Only studies with the views seen_queries and unseen_queries calibrate their models. With any other model, `same`
  needs a number, and `search` without one lists distances only.

exit code:
  0  yes: same class, or the nearest image is near enough (`search` without a threshold: always)
  1  no
  2  error: one line on standard error describes it
"""


def add_model(command: argparse.ArgumentParser, **run: Any) -> None:
    """Add the arguments for the run folder and for loading its model."""
    described = "folder of a finished run, e.g. results/quickstart/emoji/triplet/seed0"
    command.add_argument("run_folder", **{"metavar": "RUN", "help": described, **run})
    command.add_argument("--device", default="cpu", help="cpu (default), cuda or mps")
    command.add_argument(
        "--own-code",
        action="store_true",
        help="import the model's own 'module:Class' from the working directory; this runs code named in the "
        "model's file, so use it only for models that you trust",
    )


def add_threshold(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--threshold",
        type=_threshold,
        metavar="seen|unseen|NUMBER",
        help="largest accepted distance (default: unseen, if calibrated)",
    )
    command.add_argument("--json", action="store_true", help="print JSON, with all digits")


def _threshold(text: str) -> str | float:
    """A threshold from the command line: a number, or the name of a calibrated threshold."""
    try:
        return float(text)
    except ValueError:
        return text


def load(options: argparse.Namespace, folder: str | None = None) -> "Model":
    from recheck.api.model import load as load_model

    return load_model(folder or options.run_folder, options.device, own_code=options.own_code)


def found_images(places: Iterable[str]) -> tuple[list[Path], int]:
    """The images of files and folders, in the given order, and the number of other files in the folders."""
    from recheck.data.found_images import images_below

    images: list[Path] = []
    others = 0
    for place in map(Path, places):
        if place.is_dir():
            below, skipped = images_below(place)
            images, others = images + below, others + skipped
        elif place.exists():
            images.append(place)
        else:
            raise UserError(f"{place} does not exist: pass image files or folders of images.")
    return images, others


def check_output(output: Path) -> None:
    """Refuse an unwritable output at the start, not after thousands of images."""
    existing = next(folder for folder in output.absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"{output} cannot be written ({existing}: {reason}): choose another --output.") from None


class Skipped:
    """Collects unreadable images, and reports them and other files on standard error."""

    def __init__(self, others: int = 0):
        self.others, self.lines = others, []

    def __call__(self, path: Path, why: str) -> None:
        self.lines.append(f"{path}: {why}")

    def report(self) -> None:
        if self.others:
            print(f"warning: skipped {self.others} file(s) without an image suffix", file=sys.stderr)
        if self.lines:
            print(f"warning: skipped {len(self.lines)} file(s) that cannot be read:", file=sys.stderr)
            for line in self.lines:
                print(f"warning:   {line}", file=sys.stderr)


def about_threshold(model: "Model", threshold: str | float | None) -> str:
    """A description of a threshold's origin."""
    if isinstance(threshold, float):
        return "your own threshold"
    at = model.threshold(threshold or "unseen")
    return (
        f"threshold of {at.name.replace('_', ' ')}: precision {100 * at.precision:.3g} %, "
        f"recall {100 * at.recall:.3g} % on {at.queries:,} queries"
    )


def calibration(model: "Model", threshold: str | float | None) -> dict[str, Any] | None:
    if isinstance(threshold, float) or not model.thresholds:
        return None
    return asdict(model.threshold(threshold or "unseen"))


def digits(limit: float, *distances: float) -> list[str]:
    """A threshold and distances as text, with at least three decimals and enough to tell each from the threshold."""
    for places in range(3, 9):
        shown = [f"{number:.{places}f}" for number in (limit, *distances)]
        if all(text != shown[0] or number == limit for text, number in zip(shown[1:], distances, strict=True)):
            break
    return shown


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return ERROR
