"""A trained model with a calibrated distance threshold, for use on any images.

    model = CalibratedModel.load("results/calibration/cars196/circle_loss/seed0")
    model.compare("a.jpg", "b.jpg")                      # Comparison(distance=0.12, threshold=0.21, same=True)
    model.nearest("a.jpg", Path("photos").glob("*.jpg"))  # five Match(path, distance, accepted), nearest first

**Meaning of a threshold.** It was calibrated on the *nearest* image in an index. ``precision`` is the share of accepted
nearest neighbours that have the query's class. It therefore applies to the first result of a search, in an index about
as dense as the study's, which contained images of every query's class. Precision and recall do not apply to

- two arbitrary images, because most such pairs are of different classes;
- later results of a search;
- queries whose class is missing from the searched images (how many of these are accepted was not measured).

**Choice of the threshold.** The default is ``unseen_queries``, because the model was not trained on the user's classes.
``seen_queries`` is for images of the training classes. A number is used as the distance itself.

**Embeddings.** Files are decoded, resized and cropped by the same functions as in the study. The network always gets
batches of one size, with the last one filled up, because the last bits of a matrix product depend on its size. So an
embedding depends only on the image, and copies of an image have identical embeddings.
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
    """Best threshold of a query set, with the set's name and number of queries."""

    queries: int
    name: str


class Comparison(NamedTuple):
    """Whether two images are considered the same class: ``same`` if the distance is at most the threshold."""

    distance: float
    threshold: float
    same: bool


class Match(NamedTuple):
    """One of the nearest images, and whether its distance is at most the threshold."""

    path: Path
    distance: float
    accepted: bool


@dataclass(frozen=True)
class Preparation:
    """Steps from an image file to the network's input, as in the study."""

    reading: Reading
    resize: Resize
    transform: transforms.Transform


class CalibratedModel:
    """Model and thresholds described by a ``calibration.json``; create it with :meth:`load`."""

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
        """Calibrated model from a run's folder or its calibration.json; refuses a model that has changed since.

        No code in the files is run, except a ``module:name`` of model or transform if ``own_code`` allows it.
        """
        path, device = Path(path), _device(device)
        source = path / NAME if path.is_dir() else path
        if not source.is_file() or source.suffix != ".json":
            raise UserError(
                f"Found no {NAME} at {path}: pass the folder of a calibrated run, such as "
                "results/calibration/cars196/circle_loss/seed0."
            )
        about = _Entries(read_json(source), source)
        thresholds = _thresholds(about)
        preparation = _preparation(about, own_code)
        file = source.parent / about.take("model", str)
        expected = about.take("model_sha256", str)
        if not file.is_file():
            raise UserError(f"{source} describes the model {file}, which does not exist: run the study again.")
        if sha256(file) != expected:
            raise UserError(f"{file} is not the model that {source} describes (sha256 differs): run the study again.")
        return cls(load_any(file, device, own_code), preparation, thresholds, device, about.values)

    def embed(self, paths: Iterable[Pathlike]) -> np.ndarray:
        """Embeddings of image files, (files, dim) float32 of length 1; the error names every unreadable file."""
        return self._embed(paths)[0]

    def compare(self, a: Pathlike, b: Pathlike, threshold: str | float = UNSEEN) -> Comparison:
        """Whether two images are near enough to be the same class; the module's docstring states the limits of this."""
        limit = self.distance(threshold)
        first, second = self.embed([a, b])
        distance = neighbours(first[None], second[None], np.zeros(1), 1).distances[0, 0]
        return Comparison(float(distance), limit, bool(is_accepted(distance, limit)))

    def nearest(
        self,
        query: Pathlike,
        paths: Iterable[Pathlike],
        count: int = 5,
        threshold: str | float = UNSEEN,
        skipped: Skipped | None = None,
    ) -> list[Match]:
        """``count`` nearest images by exact search, nearest first; ties keep the order of ``paths``.

        An unreadable file is an error, unless ``skipped`` is given: it is then called with the file and the reason.
        """
        limit = self.distance(threshold)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise UserError(f"'count', the number of nearest images, must be a whole number from 1, found {count!r}.")
        embedding = self.embed([query])
        index, files = self._embed(paths, skipped)
        if not files:
            return []
        places, distances = neighbours(embedding, index, np.arange(len(files)), count)
        accepted = is_accepted(distances, limit)
        return [
            Match(files[place], float(distance), bool(near))
            for place, distance, near in zip(places[0], distances[0], accepted[0], strict=True)
        ]

    def threshold(self, name: str) -> Threshold:
        """Calibrated threshold by name; ``seen`` and ``unseen`` are short forms."""
        full = SHORT.get(name, name)
        if full not in self.thresholds:
            known = {short for short, long in SHORT.items() if long in self.thresholds} | {*self.thresholds}
            raise UserError(f"Unknown threshold '{name}'; {nearest(name, known)}, or a distance such as 0.3.")
        return self.thresholds[full]

    def distance(self, threshold: str | float) -> float:
        """Distance of a threshold, given by name or as a number."""
        if isinstance(threshold, str):
            return self.threshold(threshold).distance
        if not _is_number(threshold) or not 0 <= threshold <= FARTHEST:
            raise UserError(f"'threshold' must be a cosine distance from 0 to 2, found {threshold!r}.")
        return float(threshold)

    @torch.inference_mode()
    def _embed(self, paths: Iterable[Pathlike], skipped: Skipped | None = None) -> tuple[np.ndarray, list[Path]]:
        """Embeddings of the readable files, and these files."""
        paths = [Path(path) for path in paths]
        generator = torch.Generator()  # same as for the study's embeddings
        rows, files, batch, broken = [np.empty((0, self.model.dim), np.float32)], [], [], []
        with Progress(total=len(paths), desc="embed", unit="img", disable=len(paths) <= BATCH) as bar:
            for path in paths:
                bar.update()
                try:
                    image = decode(path, self.preparation.resize, self.preparation.reading)
                except Exception as error:  # Pillow raises almost anything for damaged files
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
    """Entries of calibration.json; a missing entry or one of the wrong type is a UserError."""

    def __init__(self, values: Any, source: Path, where: str = ""):
        self.source, self.where = source, where
        if not isinstance(values, dict):
            raise UserError(f"{self._name(where)} must be a mapping of keys to values: run the study again.")
        self.values = values

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:
        if key not in self.values:
            raise UserError(f"{self.source} has no '{self.where}{key}': run the study again.")
        value = self.values[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{self._name(self.where + key)} has the invalid value {value!r}: run the study again.")
        return value

    def below(self, key: str) -> "_Entries":
        return _Entries(self.take(key, dict), self.source, f"{self.where}{key}.")

    def _name(self, where: str) -> str:
        return f"'{where.rstrip('.')}' of {self.source}" if where else str(self.source)


def _thresholds(about: _Entries) -> dict[str, Threshold]:
    """Thresholds of all query sets in the file."""
    sets = about.below("thresholds")
    thresholds = {}
    for name in sets.values:
        entries = sets.below(name)
        values = {
            field.name: entries.take(field.name, (int, float)) for field in fields(Threshold) if field.name != "name"
        }
        for key, value in values.items():
            if not _is_number(value) or value < 0:
                raise UserError(
                    f"'thresholds.{name}.{key}' of {about.source} has the invalid value {value!r}: run the study again."
                )
        thresholds[name] = Threshold(**values, name=name)
    return thresholds


def _preparation(about: _Entries, own_code: bool) -> Preparation:
    steps = about.below("transforms")
    resize = steps.take("resize", (dict, type(None)))
    try:
        understood = not resize or parse_resize(resize_slug(resize)) == resize
    except (KeyError, TypeError, ValueError):
        understood = False
    if not understood:
        raise UserError(f"'transforms.resize' of {about.source} has the invalid value {resize!r}: run the study again.")
    transform = transforms.build(steps.take("eval", list), own_code)
    return Preparation(reading_of(about.below("images").values), resize, transform)


def _device(name: str | torch.device) -> torch.device:
    """Device by name; on a GPU, TF32 is switched off as in training."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"Unknown device '{name}': use 'cpu' or 'cuda'.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(f"Device '{name}' needs a GPU, but PyTorch sees none: use 'cpu'.")
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
