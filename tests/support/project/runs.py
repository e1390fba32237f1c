"""A short training run on glyphs, a run that is stopped, and a comparison of two runs."""

import signal
from pathlib import Path

import numpy as np
import torch

from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.interrupt import StopRequest
from support.datasets.glyphs import make_glyphs

CPU = torch.device("cpu")
CONFIGURATION = {
    "model": {
        "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none", "options": {"dropout": 0.3}},
        "head": {"class": "Linear", "dim": 16},
        "batch_norm": "trained",
    },
    "transforms": {
        "train": [
            {"random_resized_crop": {"size": 32, "scale": [0.5, 1.0], "ratio": [0.75, 1.333]}},
            {"horizontal_flip": {"p": 0.5}},
        ],
        "eval": [{"center_crop": {"size": 32}}],
    },
    "sampler": {"class": "MPerClass", "batch": 8, "per_class": 2, "length": 48},
    "loss": {"class": "ProxyNCALoss", "softmax_scale": 8.0},
    "optimisers": {
        "backbone": {"class": "Adam", "lr": 1e-3},
        "head": {"class": "RMSprop", "lr": 1e-3, "momentum": 0.9},
        "loss": {"class": "SGD", "lr": 0.1, "momentum": 0.5},
    },
    "lr_schedule": {"class": "StepLR", "step_size": 2, "gamma": 0.5},
    "schedule": {"epochs": 3, "steps_per_epoch": 5, "evaluate_every": 1},
    "selection": {"role": "val", "metric": "MAP@R", "also": ["P@1"]},
    "precision": "float32",
}


def packed_glyphs(folder: Path, classes: int) -> tuple[PackedImages, np.ndarray]:
    """Six images of each class and their labels."""
    root = make_glyphs(folder / "images", classes=classes, per_class=6)
    index = parse_folder({"name": "glyphs"}, folder, root)
    pack(index, root, None, folder / "packed", index_sha256="0")
    return PackedImages(folder / "packed"), index["label"].to_numpy()


def make_run(data, folder, configuration=CONFIGURATION, fold=1, fingerprint="f", save_every=0, **more):
    """A run that saves its state after every step."""
    state = StateFile(folder / "state", fingerprint)
    return Run(configuration, data, 0, fold, CPU, state, folder / "events", save_every=save_every, **more)


def with_(**parts):
    return {**CONFIGURATION, **parts}


def same(one, other):
    assert one.best_epoch == other.best_epoch
    assert one.best_value == other.best_value
    assert one.weights.keys() == other.weights.keys()
    for name in one.weights:
        assert torch.equal(one.weights[name], other.weights[name]), name
    timeless = [[{k: v for k, v in row.items() if k != "images_per_second"} for row in o.history] for o in (one, other)]
    assert timeless[0] == timeless[1]
    assert one.warnings == other.warnings


class StopAfter(StopRequest):
    """Stops the run after a number of steps, like a signal."""

    def __init__(self, steps):
        self.left = steps

    @property
    def signal_number(self):
        self.left -= 1
        return signal.SIGTERM if self.left <= 0 else None
