"""Several GPUs in one machine: parallel runs, each on its own device. Only the GPUs are simulated."""

import json
import re

from support.services.gpus import compute_on_the_cpu, listed, pretend_gpus

RUN = "letters/glyphs/proxy_nca/seed{}/fold0"
# Two runs wait for each other, so that they run at the same time however fast the machine is.
MEETING = """
import os, time
from pathlib import Path
from pytorch_metric_learning.losses import ProxyNCALoss


class Meeting(ProxyNCALoss):
    def forward(self, *arguments):
        Path("meeting").mkdir(exist_ok=True)
        Path("meeting", str(os.getpid())).touch()
        while len(list(Path("meeting").iterdir())) < 2:
            time.sleep(0.05)
        return super().forward(*arguments)
"""


def run(project, seed):
    """Training log and record of a run."""
    place = RUN.format(seed)
    return project.read(f"logs/{place}/train.log"), json.loads(project.read(f"results/{place}/run.json"))


def test_parallel_runs_use_different_gpus(fresh, monkeypatch, tmp_path):
    pretend_gpus(monkeypatch, tmp_path, *listed("GPU-aa", "GPU-bb"))
    compute_on_the_cpu(fresh)
    fresh.write("meeting.py", MEETING)
    fresh.edit("config/studies/letters.yaml", "{class: ProxyNCALoss}", '{class: "meeting:Meeting"}')
    models = [f"results/{RUN.format(seed)}/model.safetensors" for seed in (0, 1)]
    output = fresh.succeed("--cores", "4", "--config", "seeds=[0,1]", "workers=0", "--", *models)
    assert re.search(r"Provided resources: gpu=\D*2\b", output), "as many runs at once as GPUs, without any option"
    (first, record), (second, _) = run(fresh, 0), run(fresh, 1)
    assert {re.search(r"Using GPU (\S+),", log)[1] for log in (first, second)} == {"GPU-aa", "GPU-bb"}
    assert "is waiting and keeps its cores" not in first + second
    assert record["threads"] == 2, "cores are shared so that no GPU is idle"


def test_limits_on_the_command_line_and_in_the_environment_are_respected(fresh, monkeypatch, tmp_path):
    pretend_gpus(monkeypatch, tmp_path, *listed("GPU-aa", "GPU-bb"))
    split = "results/letters/glyphs/split.json"
    output = fresh.succeed("--cores", "4", "--config", "gpu_share=3", "--", split)
    assert re.search(r"Provided resources: gpu=\D*6\b", output), "three jobs on each of two GPUs"
    output = fresh.succeed("--cores", "4", "--resources", "gpu=1", "--forcerun", "split", "--", split)
    assert re.search(r"Provided resources: gpu=\D*1\b", output)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    output = fresh.succeed("--cores", "4", "--", f"results/{RUN.format(0)}/model.safetensors")
    assert "gpu=" not in output
    log, record = run(fresh, 0)
    assert "Using GPU" not in log
    assert record["threads"] == 1
