"""Parts of a training step whose cost was found by counting: fills, optimisers, miners, and settings for speed.

Each is compared with the obvious alternative that gives the same values. Waits and launches are counted on a simulated
GPU (tests/support/services/simulated_gpu.py); times are measured on the CPU.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_metric_learning.miners as library
import torch
from losses import batch
from timing import in_turn, main, processor, ratios, spread
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.mxnet_adam import MXNetAdam
from recheck.models.backbones import build_backbone
from recheck.models.embedding import EmbeddingModel
from recheck.training.compiled import compiled
from recheck.training.seeding import make_deterministic
from support.services.simulated_gpu import SimulatedGPU

CPU = torch.device("cpu")
LITE = {"name": "efficientnet_lite0", "weights": "none"}
INCEPTION = {"name": "bn_inception", "weights": "none"}
ADAM = {"lr": 1e-4, "eps": 0.01, "weight_decay": 5e-4, "clip": 5.0}
MINER = {"class": "DistanceWeightedMiner", "cutoff": 0.5, "nonzero_loss_cutoff": 1.4}
FACILITY = {"class": "FacilityLocationLoss"}


def stepping(optimiser: MXNetAdam, together: bool) -> Callable[[], None]:
    """A step of the optimiser, with all parameters together or one by one."""

    def step() -> None:
        with torch.no_grad():
            for group in optimiser.param_groups:
                for members in [group["params"]] if together else [[parameter] for parameter in group["params"]]:
                    optimiser.update(members, group)

    return step


def with_gradients(network: torch.nn.Module) -> torch.nn.Module:
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    return network


def optimisers(quick: bool) -> list[str]:
    network = with_gradients(build_backbone(LITE if quick else INCEPTION, False).network)
    optimiser = MXNetAdam(network.parameters(), **ADAM)
    ways = {"together": True, "one by one": False}
    turns = {name: stepping(optimiser, together) for name, together in ways.items()}
    seconds = in_turn(turns, 1 if quick else 15, processor)
    with SimulatedGPU() as gpu:
        moved = with_gradients(build_backbone(LITE if quick else INCEPTION, False).network.to("cuda"))
        optimiser = MXNetAdam(moved.parameters(), **ADAM)
        optimiser.step()
        launches = {}
        for name, together in ways.items():
            step = stepping(optimiser, together)
            with gpu.counting() as counts:
                step()
            launches[name] = counts.launches
    relation = spread(ratios(seconds["together"], seconds["one by one"]))
    count = len(list(network.parameters()))
    return [
        f"- `MXNetAdam`, {count} parameters updated together on a GPU: {launches['together']:,} launches per step; one "
        f"by one would take {launches['one by one']:,}. On the CPU, updating them together takes {relation} times as "
        "long, so there they are updated one by one."
    ]


def miner_and_facility_location(quick: bool) -> list[str]:
    images = 32 if quick else 128
    embeddings, labels = batch(images, 4, 512)
    ours, theirs = build_miner(MINER), library.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)
    turns = {"ours": lambda: ours(embeddings, labels), "library": lambda: theirs(embeddings, labels)}
    for run in turns.values():
        run()
    relation = spread(ratios(*(in_turn(turns, 1 if quick else 15, processor)[name] for name in ("library", "ours"))))
    waits: dict[str, int] = {}
    with SimulatedGPU() as gpu:
        on_gpu = embeddings.to("cuda"), labels.to("cuda")
        for name, miner in (("ours", ours), ("library", theirs)):
            with gpu.counting() as counts:
                miner(*on_gpu)
            waits[name] = counts.syncs.total()
        loss = build_loss(FACILITY, images, 512)
        with gpu.counting() as counts:
            loss(*on_gpu)
    return [
        f"- `DistanceWeightedMiner`, {images} images, 4 per class: {waits['ours']} waits per batch; the library's "
        f"miner needs {waits['library']}, and takes {relation} times as long on the CPU. Both draw the same triplets.",
        f"- Facility location on the same batch: {counts.syncs.total()} waits for {images // 4} classes.",
    ]


def training_step(model: EmbeddingModel, pixels: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad()
        cross_entropy(model(pixels), labels).backward()

    return step


def settings(quick: bool) -> list[str]:
    """Steps of the quickstart's network with fills and with the keys for speed, relative to the usual step."""
    spec: dict[str, Any] = {"backbone": LITE, "head": {"class": "Linear", "dim": 128}}
    pixels = torch.randint(0, 256, (8 if quick else 32, 3, 64, 64), dtype=torch.uint8)
    labels = torch.arange(len(pixels)) % 128
    torch.manual_seed(0)
    models = {
        name: EmbeddingModel({**spec, "channels_last": name != "first"}) for name in ("usual", "first", "compiled")
    }
    if not quick:
        models["compiled"].run_backbone = compiled(models["compiled"].backbone, CPU)
    turns = {name: training_step(model, pixels, labels) for name, model in models.items()}

    def filled() -> None:
        torch.utils.deterministic.fill_uninitialized_memory = True
        turns["usual"]()
        torch.utils.deterministic.fill_uninitialized_memory = False

    turns["filled"] = filled
    for run in turns.values():
        run()
    seconds = in_turn(turns, 1 if quick else 15, processor)
    relation = {name: spread(ratios(times, seconds["usual"])) for name, times in seconds.items()}
    return [
        f"- Filling new memory, PyTorch's default in its deterministic mode: {relation['filled']} of the usual step.",
        f"- `model.channels_last: false`: {relation['first']} of the usual step.",
        f"- `compile: true`, after the first step: {relation['compiled']} of the usual step.",
    ]


def section(quick: bool) -> str:
    torch.set_num_threads(1)
    make_deterministic(True)
    lines = [*optimisers(quick), *miner_and_facility_location(quick), *settings(quick)]
    return f"""## Parts of a step

One thread; CPU seconds, measured in alternation. Waits and launches are counted on a simulated GPU. The last three
lines are steps of EfficientNet-Lite0 at 64 × 64 pixels, without data loading and optimiser.

{chr(10).join(lines)}

`precision: tf32` has no effect on a CPU, so nothing can be measured here.
"""


if __name__ == "__main__":
    main(section, __doc__)
