"""Points in a plane: what a loss does to five noisy circles, small enough to look at.

A network 2-100-100-2 is trained by plain SGD on batches that are drawn anew in every step; the loss sees its outputs at
length 1, pictures show them as they are. Everything is a function of the seed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.errors import UserError, nearest
from recheck.files import atomic
from recheck.methods.losses import build_loss
from recheck.training.seeding import derive

RADII = (0.2, 0.4, 0.6, 0.8, 1.0)
PER_CLASS = 4
STEPS = 20_000
NOISY, CLEAN = 5.0, 20.0
"""``sigma`` of the training points, and of fresh points to look at."""

EXPERIMENTS: dict[str, dict[str, Any]] = {
    "contrastive": {"loss": {"class": "ContrastiveLoss"}, "lr": 1e-4, "weight_decay": 1e-5},
    "neighbourhood": {
        "loss": {"class": "ContextualLoss", "k": PER_CLASS, "eps": 0.05, "variant": 1},
        "lr": 4e-5,
        "weight_decay": 1e-4,
    },
}
"""The two that were published."""


class Trained(NamedTuple):
    model: nn.Module
    losses: np.ndarray
    """One a step."""


def make_circles(
    points_per_class: int, sigma: float, generator: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Points (5 · points_per_class, 2), float32, and their circles 0…4, class by class.

    The angle is uniform, the distance from the centre that of the circle plus N(0, 1)/sigma: a *larger* sigma is
    less noise.
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
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Trained:
    """``loss`` is a part, as in a study; ``progress`` is called with the number of steps done since the last call."""
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
            raise UserError(f"toy: the loss became {losses[step]} at step {step + 1}: lower 'lr'.")
        if progress is not None and (step + 1) % 100 == 0:
            progress(100)
    return Trained(model, losses)


def run(
    name: str,
    steps: int = STEPS,
    seed: int = 0,
    points_per_class: int = 500,
    progress: Callable[[int], Any] | None = None,
) -> dict[str, np.ndarray]:
    """One of ``EXPERIMENTS``, as the arrays that its pictures need.

    ``data`` and ``data_labels``: points like those of the training; ``losses``: one a step; ``points``, ``labels``
    and ``embeddings``: fresh points with little noise, and the network's outputs for them, not normalised.
    """
    if name not in EXPERIMENTS:
        raise UserError(f"toy: there is no experiment '{name}'; {nearest(name, EXPERIMENTS)}.")
    trained = train(**EXPERIMENTS[name], steps=steps, seed=seed, progress=progress)
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
