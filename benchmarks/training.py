"""Training: our engine from packed images to optimisers, beside two others with the same model, loss and batches.

*In memory* is the limit: the same steps on batches that are ready before the clock starts. ``MetricLossOnly`` is
pytorch-metric-learning's trainer on a folder of JPEG files, with torchvision's transforms and as many loader processes.
"""

import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from photos import make_photos
from timing import goal, in_turn, main, processor, ratios, spread

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck import config as settings
from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.seeding import make_deterministic

ROOT = Path(__file__).resolve().parents[1]
CPU = torch.device("cpu")
SHORTER, CROP = 256, 64
WORKERS = (0, 1)


def configuration(epochs: int, steps: int) -> dict[str, Any]:
    """A row of the quickstart, which has a small backbone, on photographs with a shorter side of 256 pixels."""
    files = {path.stem: path for path in (ROOT / "config" / "studies").glob("*.yaml")}
    row = settings.training_part(settings.resolve(settings.load_study("quickstart", files), "emoji", "contrastive"))
    crop = {"random_resized_crop": {"size": CROP, "scale": [0.16, 1.0], "ratio": [0.75, 1.333]}}
    transforms = {"resize": {"shorter": SHORTER}, "train": [crop, {"horizontal_flip": {"p": 0.5}}]}
    return {
        **row,
        "transforms": {**transforms, "eval": [{"center_crop": {"size": CROP}}]},
        "schedule": {"epochs": epochs, "steps_per_epoch": steps, "evaluate_every": 1},
        "selection": {"role": None},
    }


def fold(folder: Path) -> FoldData:
    """Opened anew, so that every image's checksum is compared again."""
    images = PackedImages(folder / "packed")
    labels = np.loadtxt(folder / "labels.txt", dtype=np.int64)
    return FoldData(images, labels, {"train": np.arange(len(labels))})


def prepare(folder: Path, classes: int, per_class: int) -> None:
    root = make_photos(folder / "photos", classes, per_class)
    index = parse_folder({"name": "photos"}, folder, root)
    pack(index, root, {"shorter": SHORTER}, folder / "packed", index_sha256="0", workers=2)
    np.savetxt(folder / "labels.txt", index["label"].to_numpy(), fmt="%d")


def make_run(folder: Path, row: dict[str, Any], workers: int = 0) -> Run:
    state = Path(tempfile.mkdtemp(dir=folder))
    return Run(row, fold(folder), 0, 0, CPU, StateFile(state, "f"), state / "events", workers=workers)


def in_memory(run: Run, steps: int) -> Any:
    """The same steps with nothing around them; the batches are made now."""
    run.model.train()
    batches = list(run._remaining_batches()) if steps else []
    while len(batches) < steps:
        batches += batches
    batches = batches[:steps]

    def train() -> None:
        for pixels, labels in batches:
            loss = run.loss(run.model(pixels), labels)
            for optimiser in run.optimisers.values():
                optimiser.zero_grad()
            loss.backward()
            for optimiser in run.optimisers.values():
                optimiser.step()

    return train


def metric_loss_only(run: Run, folder: Path, workers: int) -> Any:
    """pytorch-metric-learning's trainer, with our model, loss and settings of the optimiser."""
    from pytorch_metric_learning.samplers import MPerClassSampler
    from pytorch_metric_learning.trainers import MetricLossOnly
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    crop = run.configuration["transforms"]["train"][0]["random_resized_crop"]
    dataset = ImageFolder(
        folder / "photos",
        transforms.Compose(
            [
                transforms.Resize(SHORTER),
                transforms.RandomResizedCrop(crop["size"], crop["scale"], crop["ratio"]),
                transforms.RandomHorizontalFlip(),
                transforms.PILToTensor(),
            ]
        ),
    )
    sampler, schedule = run.configuration["sampler"], run.configuration["schedule"]
    groups = [group for optimiser in run.optimisers.values() for group in optimiser.param_groups]
    trainer = MetricLossOnly(
        models={"trunk": run.model},
        optimizers={"trunk_optimizer": torch.optim.Adam([{"params": g["params"], "lr": g["lr"]} for g in groups])},
        batch_size=sampler["batch"],
        loss_funcs={"metric_loss": run.loss},
        dataset=dataset,
        sampler=MPerClassSampler(dataset.targets, sampler["per_class"], length_before_new_iter=sampler["length"]),
        dataloader_num_workers=workers,
        iterations_per_epoch=schedule["steps_per_epoch"],
        data_device=CPU,
    )
    return lambda: trainer.train(num_epochs=schedule["epochs"])


def section(quick: bool) -> str:
    logging.getLogger("PML").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    make_deterministic(True)
    classes, per_class, epochs, steps, repeats = (8, 4, 1, 2, 1) if quick else (40, 16, 2, 15, 5)
    row = configuration(epochs, steps)
    images = epochs * steps * row["sampler"]["batch"]
    lines, goals = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder, classes, per_class)
        make_run(folder, row).train()  # what is imported and allocated once
        for workers in WORKERS:
            turns = [
                {
                    "ours": make_run(folder, row, workers).train,
                    "memory": in_memory(make_run(folder, row), epochs * steps),
                    "library": metric_loss_only(make_run(folder, row), folder, workers),
                }
                for _ in range(repeats)
            ]
            wall: dict[str, list[float]] = {name: [] for name in turns[0]}
            busy: dict[str, list[float]] = {name: [] for name in turns[0]}
            for turn in turns:
                measured = in_turn(turn, 1, clock=lambda: np.array([time.perf_counter(), processor()]))
                for name, ((seconds, processor_seconds),) in measured.items():
                    wall[name].append(seconds)
                    busy[name].append(processor_seconds)
            limit, library = ratios(wall["memory"], wall["ours"]), ratios(wall["library"], wall["ours"])
            goals.append((limit, library))
            lines.append(
                f"| {workers} | {images / statistics.median(wall['ours']):.1f} | {spread(limit)} | {spread(library)} "
                f"| {spread(ratios(busy['memory'], busy['ours']))} | {spread(ratios(busy['library'], busy['ours']))} |"
            )
    return f"""## Training

EfficientNet-Lite0 and the contrastive loss of the quickstart, batches of {row["sampler"]["batch"]}, one thread,
{images} images a turn, {repeats} turns. The images are JPEG files of 500 × 375 pixels, brought to a shorter side of
{SHORTER}, of which a random part becomes {CROP} × {CROP}. Ours is a whole run without evaluations: checksums of the
packed images, augmentation, state files and events included.

| loader processes | images/s | ÷ in memory | ÷ MetricLossOnly | by processor time: ÷ in memory | ÷ MetricLossOnly |
|---:|---:|---:|---:|---:|---:|
{chr(10).join(lines)}

{goal("images/s ÷ batches in memory, no loader process", goals[0][0], 0.95)}
{goal("images/s ÷ MetricLossOnly on JPEG files, no loader process", goals[0][1], 1.5)}

Loader processes hide the time that images take only where a core has nothing else to do. A CPU has something to do as
long as runs are waiting, so the default there is none for a run, and one run a core.
"""


if __name__ == "__main__":
    main(section, __doc__)
