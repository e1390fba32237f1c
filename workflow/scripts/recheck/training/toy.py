"""Toy experiment: train a small network on points of five noisy circles, to see what a loss does.

A 2-100-100-2 network is trained with plain SGD on a fresh batch per step. The loss receives the outputs normalised to
length 1; pictures show the raw outputs. The result depends only on the settings and the seed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.errors import UserError
from recheck.files import atomic
from recheck.methods.losses import build_loss
from recheck.training.seeding import derive

RADII = (0.2, 0.4, 0.6, 0.8, 1.0)
PER_CLASS = 4
NOISY, CLEAN = 5.0, 20.0
"""``sigma`` of the training points, and of the points in the pictures."""


class Trained(NamedTuple):
    model: nn.Module
    losses: np.ndarray
    """One value per step."""


def make_circles(
    points_per_class: int, sigma: float, generator: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Points (5 · points_per_class, 2), float32, and their labels 0…4, sorted by label.

    The angle is uniform. The distance from the centre is the circle's radius plus N(0, 1)/sigma: a *larger* sigma
    means less noise.
    """
    labels = np.repeat(np.arange(len(RADII)), points_per_class)
    radius = np.array(RADII)[labels] + generator.standard_normal(len(labels)) / sigma
    angle = generator.uniform(0, 2 * np.pi, len(labels))
    points = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
    return points.astype(np.float32), labels


def make_network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "toy network"))
        return nn.Sequential(
            nn.Linear(2, 100), nn.LeakyReLU(0.2), nn.Linear(100, 100), nn.LeakyReLU(0.2), nn.Linear(100, 2)
        )


def train(
    loss: dict[str, Any],
    lr: float,
    weight_decay: float,
    steps: int,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Trained:
    """Trained network and its losses.

    ``loss`` is written as in a study, e.g. ``{class: TripletMarginLoss}``. ``progress`` is called with the number of
    steps since the last call.
    """
    model = make_network(seed)
    criterion = build_loss(loss, num_classes=len(RADII), embedding_size=2)
    parameters = [*model.parameters(), *criterion.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=lr, weight_decay=weight_decay)
    generator = np.random.RandomState(derive(seed, "toy batches") % 2**32)
    losses = np.empty(steps)
    for step in range(steps):
        points, labels = make_circles(PER_CLASS, NOISY, generator)
        value = criterion(normalize(model(torch.from_numpy(points))), torch.from_numpy(labels))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses[step] = value.item()
        if not np.isfinite(losses[step]):
            raise UserError(f"The loss became {losses[step]} at step {step + 1} of the toy experiment: lower 'lr'.")
        if progress is not None and (step + 1) % 100 == 0:
            progress(100)
    return Trained(model, losses)


def run(
    experiment: dict[str, Any],
    steps: int,
    seed: int = 0,
    points_per_class: int = 500,
    progress: Callable[[int], Any] | None = None,
) -> dict[str, np.ndarray]:
    """Run an experiment (``loss``, ``lr``, ``weight_decay``) and return the arrays for its pictures.

    ``data`` and ``data_labels`` are points with the noise of training, ``losses`` has one value per step, and
    ``points``, ``labels`` and ``embeddings`` are points with little noise and the network's raw outputs for them. All
    points depend only on the seed, so every loss is shown on the same ones.
    """
    settings = {key: experiment[key] for key in ("loss", "lr", "weight_decay")}
    trained = train(**settings, steps=steps, seed=seed, progress=progress)
    generator = np.random.RandomState(derive(seed, "toy pictures") % 2**32)
    data, data_labels = make_circles(points_per_class, NOISY, generator)
    points, labels = make_circles(points_per_class, CLEAN, generator)
    with torch.no_grad():
        embeddings = trained.model(torch.from_numpy(points)).numpy()
    return {
        "data": data,
        "data_labels": data_labels,
        "losses": trained.losses,
        "points": points,
        "labels": labels,
        "embeddings": embeddings,
    }


def write(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
