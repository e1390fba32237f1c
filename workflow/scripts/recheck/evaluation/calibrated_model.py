"""A trained model with the distance up to which its nearest neighbours are believed, for images of any origin.

    model = CalibratedModel.load("results/calibration/cars196/circle_loss/seed0")
    model.compare("a.jpg", "b.jpg")                      # Comparison(distance=0.12, threshold=0.21, same=True)
    model.nearest("a.jpg", Path("photos").glob("*.jpg"))  # five of Match(path, distance, accepted), nearest first

**What a threshold means.** It was calibrated on the *nearest* image of an index: of the queries whose nearest
neighbour was accepted, ``precision`` is the share for which that neighbour was of the right class. So it speaks of the
first place of a search, in an index about as dense as the study's, which had images of every query's class. Two
arbitrary images are another question: most such pairs are of different classes, and the share of right ones among the
accepted is not the precision, nor is the share of accepted ones among the right the recall. The same holds for later
places of a search, and for queries whose class the searched images do not have: how many of these are accepted was not
measured.

**Which threshold.** A user's classes were not trained on, so ``unseen_queries`` is the default; ``seen_queries`` is
for images of the training classes, and a number is a distance of one's own.

**Which embedding.** Files are decoded, resized and cropped by the functions that made the study's packs and batches.
The network always gets batches of one size, the last filled up, because the last bits of a product depend on the size
of the matrices: so an embedding is a function of the image alone, and copies of an image have the same one.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from recheck.data import transforms
from recheck.data.images import Reading, decode, reading_of, reason
from recheck.errors import UserError, nearest
from recheck.evaluation.calibration import CutPoint, is_accepted, neighbours
from recheck.evaluation.views import normalise
from recheck.files import read_json, sha256
from recheck.models.embedding import EmbeddingModel, load_any
from recheck.progress import Progress
from recheck.resize import Resize, parse_resize, resize_slug

NAME = "calibration.json"
SEEN, UNSEEN = "seen_queries", "unseen_queries"
SHORT = {"seen": SEEN, "unseen": UNSEEN}
FARTHEST = 2.0  # cosine distance of opposite directions
BATCH = 16
Pathlike = str | Path
Skipped = Callable[[Path, str], None]


@dataclass(frozen=True)
class Threshold(CutPoint):
    """The best threshold of a set of queries: what the set is called, and how many they were."""

    queries: int
    name: str


class Comparison(NamedTuple):
    """Whether two images are taken to be of the same class: if their distance is at most the threshold."""

    distance: float
    threshold: float
    same: bool


class Match(NamedTuple):
    """One of the nearest images, and whether it is near enough."""

    path: Path
    distance: float
    accepted: bool


@dataclass(frozen=True)
class Preparation:
    """From an image file to the pixels that the network sees, as in the study."""

    reading: Reading
    resize: Resize
    transform: transforms.Transform


class CalibratedModel:
    """What ``calibration.json`` describes; made by :meth:`load`."""

    def __init__(
        self,
        model: EmbeddingModel,
        preparation: Preparation,
        thresholds: Mapping[str, Threshold],
        device: torch.device,
        about: Mapping[str, Any],
    ):
        self.model, self.preparation, self.thresholds, self.device = model, preparation, dict(thresholds), device
        self.about = dict(about)

    @classmethod
    def load(cls, path: Pathlike, device: str | torch.device = "cpu", own_code: bool = False) -> "CalibratedModel":
        """From a run's folder, or its calibration.json; the model is refused unless it is the one calibrated.

        Nothing of the files is run, except, if ``own_code`` allows it, the ``module:name`` that the model names.
        """
        path, device = Path(path), _device(device)
        source = path / NAME if path.is_dir() else path
        if not source.is_file() or source.suffix != ".json":
            raise UserError(
                f"There is no {NAME} at {path}: give the folder of a calibrated run, such as "
                "results/calibration/cars196/circle_loss/seed0."
            )
        about = _Entries(read_json(source), source)
        thresholds = _thresholds(about)
        preparation = _preparation(about)
        file = source.parent / about.take("model", str)
        expected = about.take("model_sha256", str)
        if not file.is_file():
            raise UserError(f"{source} is about the model {file}, and there is no such file.")
        if sha256(file) != expected:
            raise UserError(f"{file} is not the model that {source} was made with (sha256): run the study again.")
        return cls(load_any(file, device, own_code), preparation, thresholds, device, about.values)

    def embed(self, paths: Iterable[Pathlike]) -> np.ndarray:
        """Embeddings of image files, (files, dim) float32 of length 1; all files that can't be read are named."""
        return self._embed(paths)[0]

    def compare(self, a: Pathlike, b: Pathlike, threshold: str | float = UNSEEN) -> Comparison:
        """Whether two images are near enough to be of the same class; see above what that can be relied on for."""
        limit = self.distance(threshold)
        first, second = self.embed([a, b])
        found = neighbours(first[None], second[None], np.zeros(1), 1).distances[0, 0]
        return Comparison(float(found), limit, bool(is_accepted(found, limit)))

    def nearest(
        self,
        query: Pathlike,
        paths: Iterable[Pathlike],
        count: int = 5,
        threshold: str | float = UNSEEN,
        skipped: Skipped | None = None,
    ) -> list[Match]:
        """The ``count`` nearest images by exact search, nearest first, ties in the order of ``paths``.

        A file that can't be read is an error, or, if ``skipped`` is given, reported to it and left out.
        """
        limit = self.distance(threshold)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise UserError(f"The number of nearest images is a whole number above 0, not {count!r}.")
        asked = self.embed([query])
        index, files = self._embed(paths, skipped)
        if not files:
            return []
        places, distances = neighbours(asked, index, np.arange(len(files)), count)
        accepted = is_accepted(distances, limit)
        return [
            Match(files[place], float(distance), bool(near))
            for place, distance, near in zip(places[0], distances[0], accepted[0], strict=True)
        ]

    def threshold(self, name: str) -> Threshold:
        """The calibrated threshold of that name; ``seen`` and ``unseen`` are enough."""
        full = SHORT.get(name, name)
        if full not in self.thresholds:
            known = {short for short, long in SHORT.items() if long in self.thresholds} | {*self.thresholds}
            raise UserError(f"There is no threshold '{name}'; {nearest(name, known)}, or a distance such as 0.3.")
        return self.thresholds[full]

    def distance(self, threshold: str | float) -> float:
        """The distance of a threshold by its name, or of one's own."""
        if isinstance(threshold, str):
            return self.threshold(threshold).distance
        if not _is_number(threshold) or not 0 <= threshold <= FARTHEST:
            raise UserError(f"A threshold is a cosine distance from 0 to 2, not {threshold!r}.")
        return float(threshold)

    @torch.inference_mode()
    def _embed(self, paths: Iterable[Pathlike], skipped: Skipped | None = None) -> tuple[np.ndarray, list[Path]]:
        """Embeddings of the files that can be read, and these files."""
        paths = [Path(path) for path in paths]
        generator = torch.Generator()  # as for the study's embeddings
        rows, files, batch, broken = [np.empty((0, self.model.dim), np.float32)], [], [], []
        with Progress(total=len(paths), desc="embed", unit="img", disable=len(paths) <= BATCH) as bar:
            for path in paths:
                bar.update()
                try:
                    image = decode(path, self.preparation.resize, self.preparation.reading)
                except Exception as error:  # Pillow's readers raise almost anything on files that are damaged
                    broken.append((path, reason(error)))
                    continue
                pixels = self.preparation.transform(image, generator)
                if batch and (len(batch) == BATCH or pixels.shape != batch[0].shape):
                    rows.append(self._forward(batch))
                    batch = []
                batch.append(pixels)
                files.append(path)
            if batch:
                rows.append(self._forward(batch))
        if skipped is None:
            _refuse(broken)
        for path, why in broken:
            skipped(path, why)
        return normalise(np.concatenate(rows)), files

    def _forward(self, images: list[torch.Tensor]) -> np.ndarray:
        batch = torch.stack(images + images[-1:] * (BATCH - len(images)))
        return self.model(batch.to(self.device)).float().cpu().numpy()[: len(images)]


class _Entries:
    """The entries of calibration.json, with a sentence for each that is missing or of another kind."""

    def __init__(self, values: Any, source: Path, where: str = ""):
        self.source, self.where = source, where
        if not isinstance(values, dict):
            raise UserError(f"{self._name(where)} is no list of keys and values: run the study again.")
        self.values = values

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:
        if key not in self.values:
            raise UserError(f"{self.source} has no '{self.where}{key}': run the study again.")
        value = self.values[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{self._name(self.where + key)} can't be {value!r}: run the study again.")
        return value

    def below(self, key: str) -> "_Entries":
        return _Entries(self.take(key, dict), self.source, f"{self.where}{key}.")

    def _name(self, where: str) -> str:
        return f"'{where.rstrip('.')}' of {self.source}" if where else str(self.source)


def _thresholds(about: _Entries) -> dict[str, Threshold]:
    """All sets of queries that have one; which of them is needed is not known yet."""
    sets = about.below("thresholds")
    found = {}
    for name in sets.values:
        entries = sets.below(name)
        values = {
            field.name: entries.take(field.name, (int, float)) for field in fields(Threshold) if field.name != "name"
        }
        for key, value in values.items():
            if not _is_number(value) or value < 0:
                raise UserError(f"'thresholds.{name}.{key}' of {about.source} can't be {value!r}: run the study again.")
        found[name] = Threshold(**values, name=name)
    return found


def _preparation(about: _Entries) -> Preparation:
    steps = about.below("transforms")
    resize = steps.take("resize", (dict, type(None)))
    try:
        understood = not resize or parse_resize(resize_slug(resize)) == resize
    except (KeyError, TypeError, ValueError):
        understood = False
    if not understood:
        raise UserError(f"'transforms.resize' of {about.source} can't be {resize!r}: run the study again.")
    return Preparation(reading_of(about.below("images").values), resize, transforms.build(steps.take("eval", list)))


def _device(name: str | torch.device) -> torch.device:
    """As in training, float32 means float32 on a GPU too."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"There is no device '{name}': use cpu or cuda.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError("PyTorch sees no GPU here: use the device cpu.")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return device


def _refuse(broken: list[tuple[Path, str]]) -> None:
    if len(broken) == 1:
        raise UserError(f"{broken[0][0]} cannot be read: {broken[0][1]}.")
    if broken:
        shown = "\n".join(f"  {path}: {why}" for path, why in broken)
        raise UserError(f"{len(broken)} images cannot be read:\n{shown}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
