"""Training: a whole run of our engine, compared with two programs that use the same model, loss and batch size.

*Batches in memory* is the limit: the same steps on batches that are ready before the clock starts. ``MetricLossOnly``
is pytorch-metric-learning's trainer on a folder of JPEG files, with torchvision's transforms and the same number of
loader processes.
"""

import logging
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from photos import make_photos
from timing import goal, in_turn, main, ratios, spread

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.study.compose import Files
from recheck.study.model import load_study
from recheck.study.yaml import names_in
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.seeding import make_deterministic

ROOT = Path(__file__).resolve().parents[1]
CPU = torch.device("cpu")
SHORTER, BATCH = 256, 32
LITE = "efficientnet_lite0"


def configuration(setting: "Setting") -> dict[str, Any]:
    """Settings of a quickstart row (which has a small backbone) on photographs with a shorter side of 256 pixels."""
    files = Files(*(names_in([ROOT / "config" / folder]) for folder in ("studies", "methods")))
    row = load_study("quickstart", files).run("emoji", "contrastive").training
    crop = {"random_resized_crop": {"size": setting.crop, "scale": [0.16, 1.0], "ratio": [0.75, 1.333]}}
    transforms = {"resize": {"shorter": SHORTER}, "train": [crop, {"horizontal_flip": {"p": 0.5}}]}
    backbone = {"name": setting.backbone, "weights": "imagenet" if setting.backbone == LITE else "none"}
    return {
        **row,
        "model": {**row["model"], "backbone": backbone},
        "transforms": {**transforms, "eval": [{"center_crop": {"size": setting.crop}}]},
        "sampler": {**row["sampler"], "batch": BATCH},
        "schedule": {"epochs": 1, "steps_per_epoch": setting.steps, "evaluate_every": 1},
        "selection": {"role": None},
    }


def fold(folder: Path) -> FoldData:
    """The training data, opened again so that the run verifies every checksum."""
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
    """A function that runs the same steps and nothing else. The batches are made here, before it is timed."""
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
    """A function that runs pytorch-metric-learning's trainer with our model, loss and learning rates."""
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


class Setting(NamedTuple):
    """One measurement: side of the images in pixels, steps per epoch, loader processes, network."""

    crop: int
    steps: int
    workers: int
    backbone: str = LITE


SETTINGS = (
    Setting(64, 50, 0),
    Setting(64, 50, 1),
    Setting(64, 10, 0),
    Setting(32, 50, 0),
    Setting(64, 50, 0, "timm/mobilenetv3_small_100"),
)
QUICK = (Setting(32, 2, 0),)
# network and pixels → goal relative to batches in memory
LEAST = {(LITE, 64): 0.97, (LITE, 32): 0.93}


def measured(folder: Path, setting: Setting, repeats: int) -> dict[str, list[float]]:
    """Seconds per program and turn."""
    row, wall = configuration(setting), {}
    for _ in range(repeats):
        functions = {
            "ours": make_run(folder, row, setting.workers).train,
            "memory": in_memory(make_run(folder, row), setting.steps),
            "library": metric_loss_only(make_run(folder, row), folder, setting.workers),
        }
        for name, seconds in in_turn(functions, 1).items():
            wall.setdefault(name, []).extend(seconds)
    return wall


def section(quick: bool) -> str:
    logging.getLogger("PML").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    make_deterministic(True)
    classes, per_class, repeats = (8, 4, 1) if quick else (40, 16, 3)
    rows, goals = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder, classes, per_class)
        make_run(folder, configuration(QUICK[0])).train()  # imports and allocations that happen once
        for setting in QUICK if quick else SETTINGS:
            wall = measured(folder, setting, repeats)
            memory, library = ratios(wall["memory"], wall["ours"]), ratios(wall["library"], wall["ours"])
            speed = setting.steps * BATCH / statistics.median(wall["ours"])
            columns = [
                setting.backbone,
                f"{setting.crop} × {setting.crop}",
                setting.steps,
                setting.workers,
                f"{speed:.0f}",
            ]
            rows.append(f"| {' | '.join(map(str, columns))} | {spread(memory)} | {spread(library)} |")
            if setting.workers == 0 and setting.steps != 10:
                least = LEAST.get((setting.backbone, setting.crop), 0.95)
                size = f"{setting.backbone}, {setting.crop} × {setting.crop} pixels, no loader process"
                goals.append(goal(f"images/s relative to batches in memory, {size}", memory, least))
                goals.append(goal(f"images/s relative to MetricLossOnly on JPEG files, {size}", library, 1.5))
    return f"""## Training

Batches of {BATCH}, one thread, {repeats} turns.

- **Network.** EfficientNet-Lite0 with ImageNet weights and the contrastive loss, as in the quickstart, and one
  with a third of its cost and random weights.
- **Images.** JPEG files of 500 × 375 pixels, resized to a shorter side of {SHORTER}. The random crop is 64 × 64, as in
  the quickstart, or 32 × 32, as in most of the `_tiny` studies.
- **Run.** One whole epoch without evaluation: checksums of the packed images, augmentation and events. An epoch of
  `mlrc` has 100 steps, one of the quickstart ten.
- **Compared with.** *Batches in memory* are the same steps on batches that are ready before the clock starts.
  *MetricLossOnly* is pytorch-metric-learning's trainer on the JPEG files, with torchvision's transforms.

| network | pixels | steps | loader processes | images/s | ÷ batches in memory | ÷ MetricLossOnly on JPEG files |
|---|---|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

{chr(10).join(goals)}

- A run shorter than a minute saves no state (`save_every`).
- Packing saves the time of decoding, about 4 ms per image here. The slower the network, the smaller that share.
- Loader processes hide the loading time only while a core is idle. With one run per core, no core is idle, so the
  default on a CPU is no loader process (`workers`: a job's threads minus one).
"""


if __name__ == "__main__":
    main(section, __doc__)
