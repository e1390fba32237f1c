"""Recorded training steps of the original programs, and their replay through the engine.

A file has the image numbers of every batch, the losses, and the weights and embeddings after the last step. A replay
builds its run from the study's own settings. It changes the precision, the network where the original ran a smaller
one, and the start: weights and pixels come from the recipe, batches and drawn negatives from the file.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from recheck.data.fold import FoldData
from recheck.methods.geometry import positive_pairs, same_class
from recheck.models.backbones import IMAGENET_MEAN, IMAGENET_STD
from recheck.names import watched_metrics
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from support.golden import recipe
from support.project.runs import CPU
from support.project.studies import shipped

# Names in files → current names, for studies, datasets, rows and variants that were renamed since.
RENAMED: dict[str, str] = {}
TRAIN_SEED, TEST_SEED = 1, 2
PROBED = 16


@dataclass(frozen=True)
class Trajectory:
    """One recorded file."""

    name: str
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @classmethod
    def read(cls, path: Path) -> "Trajectory":
        with np.load(path) as stored:
            arrays = dict(stored)
        return cls(path.stem, json.loads(str(arrays.pop("meta"))), arrays)

    def _today(self, key: str) -> str | None:
        name = self.about.get(key)
        return RENAMED.get(name, name)

    @property
    def study(self) -> str:
        return self._today("study")

    @property
    def dataset(self) -> str:
        return self._today("dataset")

    @property
    def row(self) -> str:
        return self._today("method")

    @property
    def variant(self) -> str | None:
        return self._today("variant" if "variant" in self.about else "fidelity")

    @property
    def float64(self) -> bool:
        return self.about["float64"]

    @property
    def epochs(self) -> list[list[np.ndarray]]:
        """The batches of each epoch; an epoch before the first recorded one has none."""
        numbers, batches = self.arrays["epochs"], self.arrays["batches"]
        return [
            [batches[step].ravel() for step in np.flatnonzero(numbers == epoch)] for epoch in range(numbers[-1] + 1)
        ]

    @property
    def complete(self) -> bool:
        """Whether the stored weights are those after the last recorded step."""
        return self.about["final_is_after"] == len(self.arrays["losses"])

    def named(self, prefix: str) -> dict[str, np.ndarray]:
        """Arrays below a prefix, such as ``init``."""
        start = f"{prefix}/"
        return {key.removeprefix(start): value for key, value in self.arrays.items() if key.startswith(start)}


class ShallowResNet50(nn.Module):
    """torchvision's ResNet-50 with one block per stage."""

    num_features, mean, std = 2048, IMAGENET_MEAN, IMAGENET_STD

    def __new__(cls):
        from torchvision.models.resnet import Bottleneck, ResNet

        network = ResNet(Bottleneck, [1, 1, 1, 1])
        network.fc = nn.Identity()
        for name in ("num_features", "mean", "std"):
            setattr(network, name, getattr(cls, name))
        return network


class TwoLayers(nn.Sequential):
    """The small network that stands for Inception-BN in the recorded MXNet programs."""

    num_features, mean, std = 32, (123.68, 116.779, 103.939), (50.0,) * 3

    def __init__(self):
        layers = []
        for channels, features in ((3, 16), (16, 32)):
            norm = nn.BatchNorm2d(features, eps=1.00001e-5)
            layers += [nn.Conv2d(channels, features, 3, stride=2, padding=1), norm, nn.ReLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class RecordedBatches:
    """A sampler whose pass n is the recorded epoch n."""

    def __init__(self, batch: int, epochs: list[list[list[int]]]):
        self.epochs = epochs

    def draw_pass(self, number: int, generator_of: Callable) -> list[list[int]]:
        return self.epochs[number]


class RecordedNegatives(nn.Module):
    """A miner that returns the triplets of the original: every positive pair with the negative drawn for it.

    ``drawn`` has one array per step: either one negative per positive pair, in the order of anchors and then of
    positives, or whole triplets in three rows or columns. Negative numbers fill up incomplete steps.
    """

    def __init__(self, drawn: np.ndarray):
        super().__init__()
        self.steps = iter(drawn)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        drawn = torch.from_numpy(next(self.steps).astype(np.int64))
        pairs = positive_pairs(labels) & (~same_class(labels)).any(dim=1)[:, None]
        anchor, positive = pairs.nonzero(as_tuple=True)
        kept = drawn[drawn >= 0]
        if len(kept) == len(anchor):
            return anchor, positive, kept
        triplets = drawn if drawn.shape[0] == 3 else drawn.T
        assert triplets.ndim == 2 and len(triplets) == 3, f"{drawn.shape} are not the negatives of {len(anchor)} pairs"
        return tuple(triplets[:, (triplets >= 0).all(dim=0)])


@dataclass(frozen=True)
class _Pixels:
    pixels: np.ndarray

    def image(self, number: int) -> np.ndarray:
        return self.pixels[number]


class Replay(Run):
    """The recorded run, repeated by the engine."""

    def __init__(self, trajectory: Trajectory, folder: Path, extra: int = 0):
        """``extra`` is the number of proxies without a class, for losses that have such proxies."""
        self.trajectory, self.losses = trajectory, []
        settings, state = _settings(trajectory, extra), StateFile(folder / "state", "replay")
        super().__init__(settings, _data(trajectory), *_seed(trajectory), CPU, state, folder / "events")
        with torch.no_grad():
            self._start()
        self.started = {name: tensor.clone() for name, tensor in self.tensors()}

    def _start(self) -> None:
        given, recipes = self.trajectory.named("init"), self.trajectory.about["recipes"]
        for name in {**recipes, **given}:
            tensor = self.tensor(name)
            start = given[name] if name in given else recipe.weight(recipes[name], tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(np.asarray(start)).view_as(tensor))

    def _save(self) -> None:
        """Keep no state: nothing interrupts a replay, and writing the state takes longer than a step."""

    def _evaluates(self, epoch: int) -> bool:
        """Only epochs whose evaluation was recorded: an evaluation takes as long as many steps and changes none."""
        recorded = self.trajectory.arrays.get("evals", np.empty((0, 1)))
        return epoch in recorded[:, 0] and super()._evaluates(epoch)

    def _step(self, pixels: torch.Tensor, labels: torch.Tensor) -> float:
        self.losses.append(super()._step(pixels, labels))
        return self.losses[-1]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor of the run under the name that files use."""
        yield from self.model.state_dict().items()
        for owner in ("projector", "loss"):
            module = getattr(self, owner)
            for name, tensor in ({} if module is None else module.state_dict()).items():
                yield f"{owner}.{name}", tensor

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor by its name in a file; a loss inside another loss may have been recorded without the outer one."""
        tensors = dict(self.tensors())
        if name in tensors:
            return tensors[name]
        owner, _, rest = name.partition(".")
        matches = [known for known in tensors if known.startswith(f"{owner}.") and known.endswith(f".{rest}")]
        assert len(matches) == 1, f"'{name}' is recorded, but the run has {sorted(tensors)}"
        return tensors[matches[0]]

    @torch.no_grad()
    def first_loss(self) -> float:
        """The loss of the first batch, without a step."""
        pixels, labels = next(self._remaining_batches())
        self.model.train()
        embeddings = self.forward(self.model, pixels)
        return self.loss(embeddings if self.projector is None else self.projector(embeddings), labels).item()

    @cached_property
    def factor(self) -> float:
        """The factor between the engine's loss and the recorded one.

        Some original programs print a sum or the bare loss, and divide in the optimiser.
        """
        batch, factor = len(self.trajectory.arrays["batches"][0]), getattr(self.loss, "factor", 1.0)
        if not isinstance(factor, float):
            factor = 1.0
        ratio = self.trajectory.arrays["losses"][0] / self.losses[0]
        return min((1.0, 1 / factor, float(batch)), key=lambda known: abs(known - ratio))

    def summary(self, name: str) -> np.ndarray:
        """Sum, L2 norm and largest move of a tensor."""
        now = self.tensor(name).double()
        return np.array([now.sum(), now.norm(), (now - self.start_of(name).double()).abs().max()])

    def start_of(self, name: str) -> torch.Tensor:
        tensor = self.tensor(name)
        full_name = next(each for each, other in self.tensors() if other.data_ptr() == tensor.data_ptr())
        return self.started[full_name]

    @torch.no_grad()
    def probe(self) -> np.ndarray:
        """Embeddings of 16 images: the first test images, or images spread over a dataset that was recorded whole."""
        data = self.trajectory.about["data"]
        first, step = (data["n"], 1) if data.get("n_test") else (0, data["n"] // PROBED)
        numbers = first + step * np.arange(PROBED)
        self.model.eval()
        pixels = torch.from_numpy(np.stack([self.data.images.image(number) for number in numbers]))
        return self.model(pixels.permute(0, 3, 1, 2)).numpy()

    @property
    def columns(self) -> list[str]:
        """The history's columns with metrics; those of the selecting role come first."""
        return [f"{role}_{name}" for role, names in watched_metrics(self.selection).items() for name in names]

    def evaluations(self) -> np.ndarray:
        """One line per recorded evaluation: the epoch and as many metrics as were recorded."""
        recorded = self.trajectory.arrays["evals"]
        rows = {row["epoch"]: row for row in self.position.history}
        columns = self.columns[: recorded.shape[1] - 1]
        percent = 100 if (recorded[:, 1:] > 1).any() else 1
        return np.array([[epoch, *(percent * rows[int(epoch)][name] for name in columns)] for epoch in recorded[:, 0]])


def replay_of(trajectory: Trajectory, folder: Path) -> Replay:
    """The replay of a file. The number of proxies without a class is not recorded, but the first loss reveals it."""
    data = trajectory.about["data"]
    usual = Replay(trajectory, folder)
    if "extra_proxies" not in usual.configuration["loss"]:
        return usual
    replays = [usual, Replay(trajectory, folder, data["n"] - data["classes"])]
    return min(replays, key=lambda replay: abs(replay.first_loss() - trajectory.arrays["losses"][0]))


def differences(replay: Replay) -> Iterator[tuple[str, float, float]]:
    """What was compared, its largest error, and the error that is allowed, relative to the larger of 1 and the value.

    In float32, weights and embeddings sum up the rounding of all steps, and the rank of one query may depend on it.
    """
    trajectory = replay.trajectory
    recorded, exact = trajectory.arrays, trajectory.float64
    yield "losses", _error(replay.factor * np.array(replay.losses), recorded["losses"]), 1e-9 if exact else 1e-5
    if "evals" in recorded:
        one_query = 1 / (trajectory.about["data"].get("n_test") or np.inf)
        yield "evaluations", _error(replay.evaluations(), recorded["evals"]), 1e-9 if exact else 1.01 * one_query
    if trajectory.complete:
        for name, final in zip(recorded["names"].tolist(), recorded["final"], strict=True):
            yield name, _error(replay.summary(name), final), 1e-9 if exact else 1e-3
        if "probe" in recorded:
            yield "probe", _error(replay.probe(), recorded["probe"]), 1e-9 if exact else 1e-3


def _error(ours: np.ndarray, recorded: np.ndarray) -> float:
    assert ours.shape == recorded.shape, f"{ours.shape} is not {recorded.shape}"
    return float((np.abs(ours - recorded) / np.maximum(1, np.abs(recorded))).max())


def _settings(trajectory: Trajectory, extra: int) -> dict[str, Any]:
    """The settings of the study's row, changed only where the recorded run differed."""
    study = shipped(trajectory.study, variant=trajectory.variant)
    settings = json.loads(json.dumps(study.run(trajectory.dataset, trajectory.row).training))
    settings["precision"] = "float64" if trajectory.float64 else "float32"
    settings["transforms"] = {"train": [], "eval": []}
    settings["schedule"] |= {"epochs": len(trajectory.epochs), "steps_per_epoch": None}
    settings["model"]["backbone"] = {"name": _network(trajectory) or settings["model"]["backbone"]["name"]}
    train = _roles(trajectory)["train"].tolist()
    places = {number: place for place, number in enumerate(train)}
    labels = _data(trajectory).labels
    epochs = [
        [[places[number] for number in _arranged(batch[batch >= 0], labels, settings)] for batch in epoch]
        for epoch in trajectory.epochs
    ]
    settings["sampler"] = {
        "class": f"{__name__}:{RecordedBatches.__name__}",
        "batch": max(len(batch) for epoch in epochs for batch in epoch),
        "epochs": epochs,
    }
    if "negatives" in trajectory.arrays:
        drawn = trajectory.arrays["negatives"]
        settings["miner"] = {"class": f"{__name__}:{RecordedNegatives.__name__}", "drawn": drawn}
    _fit_to_data(settings["loss"], trajectory, epochs[0][0], extra)
    return settings


def _network(trajectory: Trajectory) -> str | None:
    """The network that replaced the original's when its steps were recorded, if any."""
    if trajectory.about["family"] == "mx":
        return f"{__name__}:{TwoLayers.__name__}"
    if trajectory.about["shallow"]:
        return f"{__name__}:{ShallowResNet50.__name__}"
    return trajectory.about.get("network")


def _arranged(batch: np.ndarray, labels: np.ndarray, settings: dict[str, Any]) -> list[int]:
    """The batch in two halves with the same labels, where a study embeds halves one after the other.

    An original may have recorded pairs, or the supports and queries of each class, side by side.
    """
    if settings.get("forward", {}).get("class") == "InTurns" and len(batch) % 2 == 0:
        half, batch_labels = len(batch) // 2, labels[batch]
        if not np.array_equal(batch_labels[:half], batch_labels[half:]):
            # images of a class in a row
            each = np.diff(np.flatnonzero(np.diff(batch_labels, prepend=-1, append=-1))).min()
            batch = batch.reshape(-1, 2, each // 2).swapaxes(0, 1).ravel() if each % 2 == 0 else batch
    return batch.tolist()


def _fit_to_data(loss: dict[str, Any], trajectory: Trajectory, batch: list[int], extra: int) -> None:
    """Fit the numbers of images and classes in a loss to the recorded data."""
    if "extra_proxies" in loss:
        loss["extra_proxies"] = extra
    if {"classes", "supports", "queries"} <= loss.keys():
        labels = _data(trajectory).labels[_roles(trajectory)["train"][batch]]
        classes = len(np.unique(labels))
        if classes * (loss["supports"] + loss["queries"]) != len(batch):
            half = len(batch) // classes // 2
            loss |= {"classes": classes, "supports": half, "queries": len(batch) // classes - half}
    if isinstance(loss.get("loss"), dict):
        _fit_to_data(loss["loss"], trajectory, batch, extra)


def _roles(trajectory: Trajectory) -> dict[str, np.ndarray]:
    data = trajectory.about["data"]
    whole = {"train": np.arange(data["n"]), "test": data["n"] + np.arange(data.get("n_test", 0))}
    roles = trajectory.named("role") or whole
    return {role: np.asarray(numbers, np.int64) for role, numbers in roles.items()}


_images = lru_cache(maxsize=2)(recipe.images)
"""The images of the last recipes: a replay asks for the same ones several times, and changes none."""


def _data(trajectory: Trajectory) -> FoldData:
    data = trajectory.about["data"]
    pixels, labels = _images(data["n"], data["classes"], data["size"], TRAIN_SEED)
    if data.get("n_test"):
        other, classes = _images(data["n_test"], data["classes_test"], data["size"], TEST_SEED)
        pixels, labels = np.concatenate([pixels, other]), np.concatenate([labels, data["classes"] + classes])
    return FoldData(_Pixels(pixels), labels, _roles(trajectory))


def _seed(trajectory: Trajectory) -> tuple[int, int]:
    """Seed and fold, which matter only to random relabelling."""
    return trajectory.about.get("seed", 0), trajectory.about.get("member", trajectory.about.get("fold", 0))
