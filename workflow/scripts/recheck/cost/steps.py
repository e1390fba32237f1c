"""How many steps a run takes and how many images it sees, from its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recheck.cost.sizes import Sizes
from recheck.data.splits import PAIRED_IMAGES
from recheck.names import watched_metrics

Spec = Mapping[str, Any]


def _m_per_class(spec: Spec, images: int, classes: int) -> float:
    a_round = spec["per_class"] * classes
    return max(1, spec["length"] // a_round) * a_round // spec["batch"]


def _balanced_rounds(spec: Spec, images: int, classes: int) -> float:
    per_class = spec.get("per_class", 4)
    together = spec["batch"] // per_class
    a_round = min(spec.get("classes", 96), classes) // together * together * per_class
    wanted = images // spec["batch"] * spec["batch"]
    return -(-wanted // a_round) * a_round // spec["batch"] if a_round else 0


def _random_class_groups(spec: Spec, images: int, classes: int) -> float:
    count = classes // (spec["batch"] // spec.get("per_class", 4)) * spec["tries"]
    return min(count, spec.get("cap") or count)


def _hierarchical(spec: Spec, images: int, classes: int) -> float:
    return min(spec["batches"], spec.get("cap") or spec["batches"])


def _shuffled(spec: Spec, images: int, classes: int) -> float:
    return images / spec["batch"] if spec.get("last") == "rollover" else images // spec["batch"]


def _batches(spec: Spec, images: int, classes: int) -> float:
    return spec["batches"]


PASSES: dict[str, Callable[[Spec, int, int], float]] = {
    "BalancedClasses": _batches,
    "BalancedRounds": _balanced_rounds,
    "Episodes": _batches,
    "Hierarchical": _hierarchical,
    "MPerClass": _m_per_class,
    "Pairs": _batches,
    "RandomClassGroups": _random_class_groups,
    "Shuffled": _shuffled,
}
"""Sampler → steps of a pass over (images, classes); with ``last: rollover`` the mean, else a whole number."""


@dataclass(frozen=True)
class Course:
    """What one run does: steps, images that pass through the network, images that are loaded.

    ``steps`` counts all steps, ``warm`` those with a frozen backbone. ``passed`` are images per step, counting each
    pass over an image. ``evaluated`` and ``embedded`` are images in evaluation mode, during and after training.
    """

    steps: int
    warm: int
    batch: int
    passed: int
    evaluated: int
    embedded: int

    @property
    def loaded(self) -> int:
        """Images that training and its evaluations load."""
        return self.steps * self.batch + self.evaluated


def courses(settings: Mapping[str, Any], sizes: Sizes | None, trained: bool) -> tuple[Course, Course] | None:
    """The shortest and the longest course of a run; None if the number of steps or images is not known.

    They differ only if early stopping decides.
    """
    if sizes is None:
        return None
    schedule, selection, sampler = (settings[key] for key in ("schedule", "selection", "sampler"))
    embedded = sizes.embedded
    if trained and selection.get("role") == "test" and selection.get("what") != "members":
        embedded *= 2  # the last epoch and the best one
    if settings["evaluation"].get("distances") == "train":
        embedded += min(sizes.of("train"), PAIRED_IMAGES)
    if not trained:
        course = Course(0, 0, sampler["batch"], sampler["batch"], 0, embedded)
        return course, course
    per_epoch = schedule.get("steps_per_epoch") or _pass(sampler, sizes)
    if not per_epoch:
        return None
    watched = sum(sizes.of(role) for role in watched_metrics(selection))
    passes = whole(settings.get("forward"), "passes")

    def course(epochs: int) -> Course:
        warm = min(epochs, (schedule.get("warm_up") or {}).get("epochs", 0))
        return Course(
            round(epochs * per_epoch),
            round(warm * per_epoch),
            sampler["batch"],
            sampler["batch"] * passes,
            evaluations(schedule, epochs) * watched,
            embedded,
        )

    return course(fewest_epochs(schedule, selection)), course(schedule["epochs"])


def whole(part: Spec | None, key: str) -> int:
    """A number in the settings of a part; 1 if it is missing or wrong, which the job reports."""
    value = (part or {}).get(key)
    return value if isinstance(value, int) and value > 0 else 1


def _pass(sampler: Spec, sizes: Sizes) -> float | None:
    """Steps of a sampler's pass; None if they are not known."""
    try:
        return PASSES[sampler["class"]](sampler, sizes.of("train"), sizes.classes)
    except (KeyError, TypeError, ZeroDivisionError):
        return None  # a user's sampler, or wrong arguments, which the job reports


def evaluations(schedule: Mapping[str, Any], epochs: int) -> int:
    """Evaluations in a run that ends after ``epochs``: at the start, every few epochs, and at the scheduled end."""
    every = schedule["evaluate_every"]
    return 1 + epochs // every + (epochs == schedule["epochs"] and epochs % every != 0)


def fewest_epochs(schedule: Mapping[str, Any], selection: Mapping[str, Any]) -> int:
    """Epochs of a run that never improves."""
    patience, every = schedule.get("patience"), schedule["evaluate_every"]
    if patience is None or selection.get("role") is None or selection.get("what") == "members":
        return schedule["epochs"]
    return min(schedule["epochs"], (patience // every + 1) * every)
