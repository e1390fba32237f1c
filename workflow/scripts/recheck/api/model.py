"""A trained model for use on any images.

**Embeddings.** Images are decoded, resized, cropped and normalised by the same functions as in the study. The last bits
of an embedding depend on the size of its batch, so the methods form batches in two ways:

- ``embed`` uses the batches of the workflow: for the test images of a run, in their order, it gives the same bits as
  ``embeddings.safetensors``, on the same machine with the same number of threads.
- ``same``, ``nearest`` and ``search`` fill every batch up to one size: an embedding then depends only on the image, and
  copies of an image have identical embeddings.

**Meaning of a threshold.** It was calibrated on each query's *nearest* image in an index. ``precision`` is the share of
accepted nearest neighbours that have the query's class. It therefore applies to the first result of a search, in an
index that resembles the study's in size and in images per class, and that contains images of every query's class.
Precision and recall do not apply to

- two arbitrary images, because most such pairs are of different classes;
- later results of a search;
- queries whose class is missing from the searched images (how many of these are accepted was not measured).

**Choice of the threshold.** The default is ``unseen_queries``, because the model was not trained on the user's classes.
``seen_queries`` is for images of the training classes. A number is used as the distance itself.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from recheck.api.runs import BATCH, Description, Threshold, describe, is_number
from recheck.data.images import decode, decode_pixels, reason
from recheck.errors import UserError, nearest
from recheck.evaluation.calibration import is_accepted, neighbours
from recheck.evaluation.views import concatenated
from recheck.evaluation.views import normalise as to_length_1
from recheck.models.embedding import EmbeddingModel, load_any
from recheck.progress import Progress
from recheck.training.device import autocast

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    Image = str | Path | np.ndarray | PillowImage
    """An image file, or pixels: (height, width, 3) uint8 in RGB."""

SEEN, UNSEEN = "seen_queries", "unseen_queries"
SHORT = {"seen": SEEN, "unseen": UNSEEN}
Skipped = Callable[[Any, str], None]
"""Called with an unreadable image (its path, or \"image 3\") and the reason."""
FARTHEST = 2.0  # cosine distance of opposite directions


class Comparison(NamedTuple):
    """Whether two images count as the same class: ``same`` is true if the distance is at most the threshold."""

    distance: float
    threshold: float
    same: bool


class Match(NamedTuple):
    """One of the nearest images, and whether its distance is at most the threshold (None without a threshold)."""

    image: "Image"
    distance: float
    accepted: bool | None


def load(run_folder: str | Path, device: str = "cpu", *, own_code: bool = False) -> "Model":
    """The trained model of a finished run, with the run's transforms and normalisation, in evaluation mode.

        model = recheck.load("results/quickstart/emoji/triplet/seed0")
        model.embed(["one.png", "other.png"])

    Args:
        run_folder: the folder of one seed (its folds become one ensemble, the view *concatenated* of the tables), of
            one fold, or of an exported model.
        device: ``cpu``, ``cuda`` or ``mps``.
        own_code: allow the model to import the ``module:Class`` that it was trained with. This runs code named
            in the model's file, so allow it only for models that you trust.

    Raises:
        UserError: if the folder is not a finished run, a file is damaged or has changed, or the model needs
            ``own_code``. Nothing is unpickled.
    """
    chosen = _device(device)
    description = describe(run_folder, own_code)
    return Model([load_any(file, chosen, own_code) for file in description.files], description, chosen)


class Model:
    """One or more trained networks and the preparation of their images; create it with :func:`recheck.load`.

    Attributes:
        dim: size of an embedding.
        networks: one ``torch.nn.Module`` per fold, uint8 RGB images in, embeddings out.
        thresholds: calibrated distance thresholds by name; empty if the study does not calibrate.
        about: study, dataset, method, seed and the other entries of ``run.json`` or ``calibration.json``.
    """

    def __init__(self, networks: list[EmbeddingModel], description: Description, device: torch.device):
        self.networks, self.description, self.device = networks, description, device
        self.dim: int = sum(network.dim for network in networks)
        self.thresholds: dict[str, Threshold] = dict(description.thresholds)
        self.about: dict[str, Any] = dict(description.about)

    def embed(
        self,
        images: "Iterable[Image]",
        *,
        normalise: bool = True,
        skipped: Skipped | None = None,
    ) -> np.ndarray:
        """Embeddings of images, (images, dim) float32.

        Args:
            images: paths of image files, (height, width, 3) uint8 arrays in RGB, or Pillow images. A generator is
                consumed as images are needed.
            normalise: scale embeddings to length 1, as the tables' metrics do; those of several folds are normalised,
                concatenated and normalised again. Otherwise return the raw outputs of the networks.
            skipped: called with each unreadable image and the reason; its row is left out. Without it, unreadable
                images raise an error that names all of them.
        """
        rows = [np.empty((0, self.dim), np.float32)]
        rows += [batch for _, batch in self.stream(images, normalise=normalise, skipped=skipped)]
        return np.concatenate(rows)

    def stream(
        self,
        images: "Iterable[Image]",
        *,
        normalise: bool = True,
        skipped: Skipped | None = None,
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Positions and embeddings of the images, batch by batch, so that memory does not grow with their number.

        The arguments are those of :meth:`embed`. Unless ``skipped`` is given, unreadable images raise an error after
        the last batch.
        """
        return self._stream(images, normalise, skipped, self.description.batch, filled=False)

    def prepare(self, image: "Image") -> torch.Tensor:
        """The input of the networks for one image: (3, height, width) uint8, resized and cropped as in the study."""
        pixels = self._pixels(image)
        # If the study's evaluation has a random step, its result depends only on the image.
        return self.description.preparation.transform(pixels, torch.Generator().manual_seed(0))

    def same(self, a: "Image", b: "Image", threshold: str | float | None = None) -> Comparison:
        """Whether two images are near enough to count as the same class.

        ``threshold`` is ``unseen`` (the default), ``seen`` or a cosine distance from 0 to 2; a model without calibrated
        thresholds needs a distance. The thresholds were not calibrated on pairs: the module's docstring explains
        what they mean.
        """
        limit = self.distance(threshold)
        if limit is None:
            raise UserError(
                "This model has no calibrated threshold: pass a cosine distance from 0 to 2 as 'threshold', or use a "
                "study with the views 'seen_queries' and 'unseen_queries', such as calibration_tiny."
            )
        first, second = self._embed_each([a, b])[0]
        distance = neighbours(first[None], second[None], np.zeros(1), 1).distances[0, 0]
        return Comparison(float(distance), limit, bool(is_accepted(distance, limit)))

    def nearest(
        self,
        query: "Image",
        images: "Iterable[Image]",
        count: int = 5,
        threshold: str | float | None = None,
        skipped: Skipped | None = None,
    ) -> list[Match]:
        """The ``count`` images nearest to the query by exact search, nearest first; ties keep the order of ``images``.

        Every match says whether its cosine distance is at most the ``threshold`` (see :meth:`same`). If the model has
        no calibrated thresholds and no distance is given, this is None. An unreadable image raises an error,
        unless ``skipped`` is given: it is then called with the image and the reason.
        """
        return self._search([query], images, count, threshold, None, skipped)[0]

    def search(
        self,
        queries: "Iterable[Image]",
        images: "Iterable[Image]",
        count: int = 5,
        threshold: str | float | None = None,
        skipped: Skipped | None = None,
    ) -> list[list[Match]]:
        """The result of :meth:`nearest` for each of several queries; ``images`` are embedded only once.

        With ``skipped``, an unreadable query has no matches.
        """
        return self._search(queries, images, count, threshold, skipped, skipped)

    def threshold(self, name: str) -> Threshold:
        """Calibrated threshold by name, with its precision and recall; ``seen`` and ``unseen`` are short forms."""
        full = SHORT.get(name, name)
        if full not in self.thresholds:
            known = {short for short, long in SHORT.items() if long in self.thresholds} | {*self.thresholds}
            raise UserError(f"Unknown threshold '{name}'; {nearest(name, known)}, or a distance such as 0.3.")
        return self.thresholds[full]

    def distance(self, threshold: str | float | None = None) -> float | None:
        """Distance of a threshold, given by name or as a number; None if there is no default threshold."""
        if threshold is None:
            if not self.thresholds:
                return None
            threshold = UNSEEN
        if isinstance(threshold, str):
            return self.threshold(threshold).distance
        if not is_number(threshold) or not 0 <= threshold <= FARTHEST:
            raise UserError(f"'threshold' must be a cosine distance from 0 to 2, found {threshold!r}.")
        return float(threshold)

    def _search(
        self,
        queries: "Iterable[Image]",
        images: "Iterable[Image]",
        count: int,
        threshold: str | float | None,
        skipped_query: Skipped | None,
        skipped: Skipped | None,
    ) -> list[list[Match]]:
        limit = self.distance(threshold)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise UserError(
                f"'count', the number of nearest images, must be a whole number of at least 1, found {count!r}."
            )
        queries, images = list(queries), list(images)
        query_embeddings, readable_queries = self._embed_each(queries, skipped_query)
        index, readable = self._embed_each(images, skipped)
        matches: list[list[Match]] = [[] for _ in queries]
        if not readable or not readable_queries:
            return matches
        places, distances = neighbours(query_embeddings, index, np.arange(len(readable)), count)
        accepted = np.full(places.shape, None) if limit is None else is_accepted(distances, limit)
        for query, *row in zip(readable_queries, places, distances, accepted.tolist(), strict=True):
            matches[query] = [
                Match(images[readable[place]], float(distance), near)
                for place, distance, near in zip(*row, strict=True)
            ]
        return matches

    def _embed_each(self, images: "Iterable[Image]", skipped: Skipped | None = None) -> tuple[np.ndarray, list[int]]:
        """Embeddings of length 1 that depend only on the image, and the positions of the readable images."""
        rows, readable = [np.empty((0, self.dim), np.float32)], []
        for positions, batch in self._stream(images, True, skipped, BATCH, filled=True):
            rows.append(batch)
            readable += positions
        return np.concatenate(rows), readable

    def _stream(
        self,
        images: "Iterable[Image]",
        normalise: bool,
        skipped: Skipped | None,
        size: int,
        filled: bool,
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        if isinstance(images, (str, Path)):
            raise UserError(f"'images' must be a list of images, found the path {str(images)!r}: write [{images!r}].")
        positions: list[int] = []
        batch: list[torch.Tensor] = []
        broken: list[tuple[Any, str]] = []
        total = len(images) if hasattr(images, "__len__") else None
        with Progress(total=total, desc="embed", unit="img", disable=total is not None and total <= size) as bar:
            for position, image in enumerate(images):
                bar.update()
                try:
                    ready = self.prepare(image)
                except UserError:
                    raise
                except Exception as error:  # Pillow raises almost anything for damaged files
                    broken.append((_name(image, position), reason(error)))
                    if skipped is not None:
                        skipped(*broken.pop())
                    continue
                if batch and (len(batch) == size or ready.shape != batch[0].shape):
                    yield positions, self._forward(batch, size if filled else len(batch), normalise)
                    positions, batch = [], []
                positions.append(position)
                batch.append(ready)
            if batch:
                yield positions, self._forward(batch, size if filled else len(batch), normalise)
        _refuse(broken)

    def _pixels(self, image: "Image") -> np.ndarray:
        """The pixels of an image as the study's packs store them."""
        preparation = self.description.preparation
        if isinstance(image, (str, Path)):
            return decode(image, preparation.resize, preparation.reading)
        if hasattr(image, "convert"):
            image = np.asarray(image.convert("RGB"))
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            kind = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise UserError(
                "An image must be a path, a Pillow image, or an RGB array of uint8 with shape (height, width, 3), "
                f"found {kind}."
            )
        return decode_pixels(image, preparation.resize)

    @torch.inference_mode()
    def _forward(self, images: list[torch.Tensor], size: int, normalise: bool) -> np.ndarray:
        batch = torch.stack(images + images[-1:] * (size - len(images))).to(self.device)
        with autocast(self.device, self.description.precision):
            outputs = [network(batch).float().cpu().numpy()[: len(images)] for network in self.networks]
        if len(outputs) > 1:
            return concatenated(outputs, unit=normalise)
        return to_length_1(outputs[0]) if normalise else outputs[0]


def _name(image: Any, position: int) -> Any:
    return Path(image) if isinstance(image, (str, Path)) else f"image {position}"


def _device(name: str | torch.device) -> torch.device:
    """Device by name; on a GPU, TF32 is switched off as in training."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"Unknown device '{name}': use 'cpu', 'cuda' or 'mps'.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(f"Device '{name}' needs a GPU, but PyTorch sees none: use 'cpu'.")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError(f"Device '{name}' needs Apple's Metal, but PyTorch cannot use it here: use 'cpu'.")
    return device


def _refuse(broken: list[tuple[Any, str]]) -> None:
    if len(broken) == 1:
        raise UserError(f"{broken[0][0]} cannot be read ({broken[0][1]}): replace it, or leave it out.")
    if broken:
        shown = "\n".join(f"  {path}: {why}" for path, why in broken)
        raise UserError(f"{len(broken)} images cannot be read; replace them, or leave them out:\n{shown}")
