"""GPU rows: images/s and memory of rows at their published sizes, with each precision, on the visible GPU.

Without a GPU it measures the CPU, which takes hours; ``--quick`` shows that it works. Nothing is downloaded: networks
have random weights, and photographs are generated.
"""

import copy
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from photos import make_photos
from timing import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.study.compose import Files
from recheck.study.model import load_study
from recheck.study.yaml import names_in
from recheck.training.checkpoint import StateFile
from recheck.training.device import choose_device
from recheck.training.engine import Run
from recheck.training.seeding import make_deterministic

ROOT = Path(__file__).resolve().parents[1]
RESIZE = {"shorter": 256}
ROWS = (
    ("mlrc", "cub200", "triplet"),
    ("mlrc", "cub200", "contrastive_within_pair"),
    ("unbiased", "cub200", "margin"),
    ("contextual_224", "cub200", "hybrid"),
)
QUICK_ROWS = (("quickstart", "emoji", "triplet"),)
CHANGES: dict[str, dict[str, Any]] = {
    "as published": {},
    "channels first": {"model": {"channels_last": False}},
    "tf32": {"precision": "tf32"},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "compile": {"compile": True},
    "tf32, compile": {"precision": "tf32", "compile": True},
}


def configuration(study: str, dataset: str, row: str, changes: dict[str, Any], epochs: int, steps: int) -> dict:
    """Settings of a row, with random weights and a short schedule without evaluation."""
    files = Files(*(names_in([ROOT / "config" / folder]) for folder in ("studies", "methods")))
    made = copy.deepcopy(load_study(study, files).run(dataset, row).training)
    for key, value in changes.items():
        made[key] = {**made[key], **value} if isinstance(value, dict) else value
    made["model"]["backbone"] |= {"weights": "none"}
    made["transforms"]["resize"] = RESIZE
    made["schedule"] = {"epochs": epochs, "steps_per_epoch": steps, "evaluate_every": 1}
    made["selection"] = {"role": None}
    return made


def measured(settings: dict[str, Any], data: FoldData, device: torch.device, folder: Path, workers: int) -> list[str]:
    """Images/s of a run after its first epoch and of its steps alone, their ratio, and the peak memory in GiB."""
    state = Path(tempfile.mkdtemp(dir=folder))
    batch, schedule = settings["sampler"]["batch"], settings["schedule"]
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    run = Run(settings, data, 0, 0, device, StateFile(state, "f"), state / "events", workers=workers)
    history = run.train().history
    speed = statistics.median(row["images_per_second"] for row in history[2:])
    peak = f"{torch.cuda.max_memory_allocated() / 2**30:.2f}" if device.type == "cuda" else "–"
    run = Run(settings, data, 0, 0, device, StateFile(state / "alone", "f"), state / "events")
    pixels, labels, _ = run.take_step()
    started = time.perf_counter()
    for _ in range(schedule["steps_per_epoch"]):
        run._step(pixels, labels)  # reads the loss, so it waits for the GPU
    steps_speed = schedule["steps_per_epoch"] * batch / (time.perf_counter() - started)
    return [f"{speed:.0f}", f"{steps_speed:.0f}", f"{speed / steps_speed:.2f}", peak]


def attempt(*arguments: Any) -> list[str]:
    """The measurement, or the reason for its failure, so that the other rows are still measured."""
    try:
        return measured(*arguments)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return [f"failed: {lines[0][:150].replace('|', '/')}", "", "", ""]


def section(quick: bool) -> str:
    device = choose_device("auto")
    make_deterministic(True)
    classes, per_class, epochs, steps = (32, 4, 2, 2) if quick else (100, 8, 4, 30)
    workers, lines = min(7, (os.cpu_count() or 1) - 1), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = make_photos(folder / "photos", classes, per_class, *([(64, 48)] if quick else []))
        index = parse_folder({"name": "photos"}, folder, root)
        pack(index, root, RESIZE, folder / "packed", index_sha256="0", workers=max(1, workers))
        labels = index["label"].to_numpy()
        data = FoldData(PackedImages(folder / "packed"), labels, {"train": np.arange(len(labels))})
        for row in QUICK_ROWS if quick else ROWS:
            for name, changes in list(CHANGES.items())[: 1 if quick else None]:
                settings = configuration(*row, changes, epochs, steps)
                columns = [" ".join(row), name, str(settings["sampler"]["batch"])]
                columns += attempt(settings, data, device, folder, workers)
                print(*columns, sep=", ", file=sys.stderr, flush=True)
                lines.append(f"| {' | '.join(columns)} |")
    about = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU (no GPU was found)"
    return f"""## Rows on a GPU

{about}, torch {torch.__version__}, CUDA {torch.version.cuda}; {workers} loader processes; deterministic algorithms.

- Rows have the sizes of their studies and random weights. The photographs have a shorter side of {RESIZE["shorter"]}.
- *Run* is the median of the epochs after the first, {steps} steps each, with loading and saving.
- *Steps alone* repeats one batch that is already on the device. The nearer the ratio is to 1, the less the GPU waits.
- *GiB* is the peak of the memory that PyTorch allocated.

| row | settings | batch | run, images/s | steps alone, images/s | ratio | GiB |
|---|---|---:|---:|---:|---:|---:|
{chr(10).join(lines)}
"""


if __name__ == "__main__":
    main(section, __doc__)
