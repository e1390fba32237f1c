"""What a training step of every row does on a GPU, counted on a simulated one.

Network, batch, loss, miner and optimisers are the row's. Images have 32 pixels, weights are random, and batch norm is
trained, because a frozen one passes almost no gradient through random weights. This hardly changes how often the host
waits for the GPU or how many kernels it launches.
"""

import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from recheck.data import transforms
from recheck.data.fold import FoldData
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.interrupt import Interrupted
from support.golden.gpu_counts import never_skipping, noise, shortened
from support.project.runs import StopAfter
from support.project.studies import shipped
from support.services.simulated_gpu import SimulatedGPU

STUDIES = ("quickstart", "calibration", "mlrc", "unbiased", "unbiased_resnet50", "contextual_224", "contextual_256")
SIZE = 32
MB = 1e6


class _Measured(StateFile):
    """Measures the bytes of the last state instead of writing them."""

    size = 0

    def save(self, state: dict[str, Any]) -> None:
        self.size = 0
        torch.save(state, self)

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        pass


def trained_rows(study_name: str) -> list[tuple[str, dict[str, Any]]]:
    """Settings of the rows on the study's first dataset."""
    study = shipped(study_name)
    runs = {row: study.run(study.datasets[0], row) for row in study.rows}
    return [(row, run.training) for row, run in runs.items() if run.trained]


def counted(settings: dict[str, Any], data: FoldData, folder: Path, gpu: SimulatedGPU) -> dict[str, float]:
    """What the second step of a run does, and the size of its state."""
    settings = copy.deepcopy(settings)
    settings["schedule"]["warm_up"] = None
    settings["model"]["batch_norm"] = "trained"
    backbone = {**settings["model"]["backbone"], "weights": "none"}
    backbone.pop("sha256", None)
    state = _Measured(folder, "f")
    run = Run(shortened(settings, SIZE, backbone), data, 0, 0, torch.device("cuda"), state, folder, stop=StopAfter(1))
    never_skipping(run)
    try:
        run.train()
    except Interrupted:
        with gpu.counting() as step:
            run.take_step()
    batch = settings["sampler"]["batch"]
    image = transforms.build(settings["transforms"]["train"])(np.zeros((256, 256, 3), np.uint8), torch.Generator())
    sent = step.bytes_to_device + batch * (image.numel() - 3 * SIZE**2)
    return {"waits": step.syncs.total(), "launches": step.launches, "sent": sent / MB, "state": state.size / MB}


def line(study: str, row: str, settings: dict[str, Any], data: FoldData, folder: Path, gpu: SimulatedGPU) -> str:
    """A line of the table."""
    step = counted(settings, data, folder, gpu)
    counts = f"{step['waits']} | {step['launches']:,} | {step['sent']:.1f} | {step['state']:.0f}"
    return f"| {study} | {row} | {settings['sampler']['batch']} | {counts} |"


def section(quick: bool) -> str:
    torch.set_num_threads(1)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, SimulatedGPU() as gpu:
        data = noise(Path(folder), SIZE, per_class=10)
        for study in STUDIES[:1] if quick else STUDIES:
            for row, settings in trained_rows(study):
                lines.append(line(study, row, settings, data, Path(folder, study, row), gpu))
    classes = len(np.unique(data.labels[data.roles["train"]]))
    return f"""## GPU

What one training step of each row does on the first dataset of its study. These are counts on a simulated GPU
(`tests/support/services/simulated_gpu.py`); nothing was measured on a real one.

- *Waits*: how often the host waits for the GPU because it needs a value or a size. The minimum is one, for the loss.
- *Launches*: operations that launch at least one kernel, in the whole step: copies, both passes, loss and optimisers.
- *MB to the GPU*: images, labels and constants.
- *MB per state*: what a saved state writes to the disk, with {classes} training classes.

| study | row | batch | waits | launches | MB to the GPU | MB per state |
|---|---|---:|---:|---:|---:|---:|
{chr(10).join(lines)}

`tests/golden/gpu_counts.csv` has the waits and launches with a small network. A test fails if a row needs more.
"""


if __name__ == "__main__":
    main(section, __doc__)
