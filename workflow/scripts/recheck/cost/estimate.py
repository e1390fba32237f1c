"""What one row of a study costs on one dataset: FLOPs, hours, memory and disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recheck.cost.counts import Counter, Counts, side_of
from recheck.cost.gpus import Gpu
from recheck.cost.sizes import Sizes
from recheck.cost.steps import Course, courses, whole
from recheck.resize import Resize

GIB = 2**30
ASPECT = 4 / 3
"""Longer ÷ shorter side of an image, where only the shorter side is known."""
STATES = 2
"""Numbers that an optimiser keeps per weight, as Adam and RMSprop with momentum do."""
PROGRAM_BYTES = GIB // 2
"""Least memory of the program itself: CUDA and its libraries on a GPU, Python and its libraries on a CPU."""
WEIGHT_BYTES = {"float64": 8}
ACTIVATION_SHARE = {"float64": 2.0, "float16": 0.5, "bfloat16": 0.5}
"""Memory of saved activations relative to float32."""
ENCODED = {"jpeg": 0.07, "lossless": 0.4}
"""Bytes of an encoded photograph relative to its pixels, rounded up from ``benchmarks/packs.py``."""


@dataclass(frozen=True)
class Work:
    """FLOPs of one run by purpose, its steps, and the images that training and embedding load."""

    training: float
    evaluating: float
    embedding: float
    steps: int
    loaded: int
    embedded: int

    @classmethod
    def of(cls, course: Course, train: Counts, step: float, evaluation: Counts) -> "Work":
        """The work of a course; ``step`` are the FLOPs of one of its training steps."""
        frozen = course.warm * course.passed * train.forward
        return cls(
            frozen + (course.steps - course.warm) * step,
            course.evaluated * evaluation.forward,
            course.embedded * evaluation.forward,
            course.steps,
            course.loaded,
            course.embedded,
        )


@dataclass(frozen=True)
class Estimate:
    """The cost of one run of a row: its shortest and its longest course, memory and disk in bytes.

    ``memory``, of the GPU or CPU, is a lower bound. ``batch_bytes`` are the pixels of a step. ``disk`` is for the
    checkpoint and the embeddings, ``state`` for the file from which a run resumes.
    """

    least: Work
    most: Work
    precision: str
    batch: int
    batch_bytes: int
    step_flops: float
    memory: float
    disk: float
    state: float


def estimate(settings: Mapping[str, Any], sizes: Sizes | None, trained: bool, count: Counter) -> Estimate | None:
    """The cost of one run; None if its steps, images or network are not known."""
    transforms, model = settings["transforms"], settings["model"]
    sides = side_of(transforms, "train" if trained else "eval"), side_of(transforms, "eval")
    both = courses(settings, sizes, trained)
    if both is None or None in sides:
        return None
    counts = [count(model, side) for side in sides]
    if None in counts:
        return None
    train, evaluation = counts
    precision = settings.get("precision", "float32")
    shortest, longest = both
    weights = train.parameters * WEIGHT_BYTES.get(precision, 4)
    trainable = train.trainable * WEIGHT_BYTES.get(precision, 4)
    pixels = longest.passed * 3 * sides[0] ** 2
    memory = PROGRAM_BYTES + weights + pixels * (1 + WEIGHT_BYTES.get(precision, 4))
    forward = settings.get("forward") or {}
    recomputed = forward.get("class") == "Recomputed"
    parts = whole(forward, "parts") if recomputed else 1
    step = longest.passed * (train.training + (train.forward if recomputed else 0))
    if trained:
        saved = longest.passed * train.saved / parts
        memory += (1 + STATES) * trainable + saved * ACTIVATION_SHARE.get(precision, 1)
    best = trained and settings["selection"].get("role") == "test" and settings["selection"].get("what") != "members"
    return Estimate(
        Work.of(shortest, train, step, evaluation),
        Work.of(longest, train, step, evaluation),
        precision,
        longest.batch,
        longest.batch * 3 * sides[0] ** 2,
        step,
        memory,
        (2 if best else 1) * weights + longest.embedded * evaluation.dim * 4,
        2 * weights + STATES * trainable if trained else 0,
    )


def fits(needed: float, gpu: Gpu) -> bool:
    """Whether a GPU may have enough memory. What is needed is a lower bound, so "yes" is not certain."""
    return gpu.available is None or needed <= gpu.available * GIB


def packed_bytes(resize: Resize, images: int | None) -> int | None:
    """Bytes of the pixels of a pack; None if they depend on the images."""
    if not resize or not images:
        return None
    if "shorter" in resize:
        return round(images * 3 * resize["shorter"] ** 2 * ASPECT)
    height, width = resize.get("exact") or resize["fit"]
    return images * 3 * height * width


def stored_bytes(resize: Resize, pixels: int, plain_limit: float) -> int:
    """Bytes of a pack with ``pixels`` bytes of pixels, which is encoded if they exceed ``plain_limit``."""
    if pixels <= plain_limit:
        return pixels
    return round(pixels * ENCODED["jpeg" if resize and "jpeg" in resize else "lossless"])
