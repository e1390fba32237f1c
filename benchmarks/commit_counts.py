"""What a checked-out commit does, counted on a simulated GPU and on the CPU; ``before_after.py`` compares two commits.

    python benchmarks/commit_counts.py <folder of the commit>

The settings, the simulated GPU and the counting code come from this commit; the code that is counted comes from the
other. Prints JSON.
"""

import inspect
import json
import multiprocessing.process
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, f"{sys.argv[1]}/workflow/scripts")
import recheck  # before `gpu`, which would put this commit's package first

# isort: split
import torch
from gpu import counted

from recheck.data.fold import FoldData
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from support.golden.gpu_counts import noise, shortened
from support.project.studies import shipped
from support.services.simulated_gpu import SimulatedGPU

ROWS = (
    ("mlrc", "triplet"),
    ("contextual_224", "triplet"),
    ("unbiased", "triplet"),
    ("unbiased", "facility_location"),
)
LOADED_EPOCHS, WORKERS = 5, 2
SAVED_EPOCHS, SECONDS = 60, 5.0


def row(study: str, name: str, data: FoldData, folder: Path, gpu: SimulatedGPU) -> dict[str, Any]:
    composed = shipped(study)
    settings = composed.run(composed.datasets[0], name).training
    return {"study": study, "row": name, **counted(settings, data, folder, gpu)}


def small(epochs: int) -> dict[str, Any]:
    settings = shortened(shipped("quickstart").run("emoji", "triplet").training)
    settings["schedule"] |= {"epochs": epochs, "steps_per_epoch": 1}
    return settings | {"selection": {"role": None}}


def started_processes(data: FoldData, folder: Path) -> int:
    """Number of loader processes that a run starts."""
    starts, start = [], multiprocessing.process.BaseProcess.start
    state = StateFile(folder / "state", "f")
    with mock.patch.object(
        multiprocessing.process.BaseProcess, "start", lambda process: (starts.append(process), start(process))
    ):
        Run(small(LOADED_EPOCHS), data, 0, 0, torch.device("cpu"), state, folder, workers=WORKERS).train()
    return len(starts)


def written_states(data: FoldData, folder: Path) -> int:
    """Number of states that a run saves if a simulated clock advances by ``SECONDS`` per epoch."""
    epochs = [0]

    class Counted(StateFile):
        count = 0

        def save(self, state: dict[str, Any]) -> None:
            self.count += 1
            super().save(state)

    def clock() -> float:
        return SECONDS * epochs[0]

    state = Counted(folder / "state", "f")
    timed = {"clock": clock} if "clock" in inspect.signature(Run).parameters else {}
    run = Run(small(SAVED_EPOCHS), data, 0, 0, torch.device("cpu"), state, folder, **timed)
    step = run._step

    def counted_step(*batch: Any) -> float:
        epochs[0] += 1
        return step(*batch)

    run._step = counted_step
    run.train()
    return state.count


def main() -> None:
    assert Path(recheck.__file__).is_relative_to(Path(sys.argv[1]).resolve())
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = noise(folder, 32, per_class=10)
        with SimulatedGPU() as gpu:
            rows = [row(study, name, data, folder / study / name, gpu) for study, name in ROWS]
        counts = {
            "rows": rows,
            "loaded_epochs": LOADED_EPOCHS,
            "workers": WORKERS,
            "saved_epochs": SAVED_EPOCHS,
            "seconds": SECONDS,
            "processes": started_processes(data, folder / "loaded"),
            "states": written_states(data, folder / "saved"),
        }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
