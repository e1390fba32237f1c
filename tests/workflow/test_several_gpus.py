"""Several GPUs in a machine: runs side by side, each on a device of its own. The GPUs are made up, the rest is not."""

import json
import re

from gpus import listed, pretend_gpus

RUN = "letters/glyphs/proxy_nca/seed{}/fold0"


def run(project, seed):
    """What a run says of itself: the log of its training, and its record."""
    place = RUN.format(seed)
    return project.read(f"logs/{place}/train.log"), json.loads(project.read(f"results/{place}/run.json"))


def test_runs_side_by_side_have_gpus_of_their_own(fresh, monkeypatch, tmp_path):
    pretend_gpus(monkeypatch, tmp_path, *listed("GPU-aa", "GPU-bb"))
    models = [f"results/{RUN.format(seed)}/model.safetensors" for seed in (0, 1)]
    output = fresh.succeed("--cores", "4", "--config", "seeds=[0,1]", "workers=0", "--", *models)
    assert re.search(r"Provided resources: gpu=\D*2\b", output), "as many runs at once as GPUs, without being told"
    (first, record), (second, _) = run(fresh, 0), run(fresh, 1)
    assert {re.search(r"on GPU (\S+),", log)[1] for log in (first, second)} == {"GPU-aa", "GPU-bb"}
    assert "waits for one" not in first + second
    assert record["threads"] == 2, "cores are shared out so that no GPU is idle"


def test_limits_of_the_command_line_and_of_the_environment_hold(fresh, monkeypatch, tmp_path):
    pretend_gpus(monkeypatch, tmp_path, *listed("GPU-aa", "GPU-bb"))
    output = fresh.succeed("--cores", "4", "--resources", "gpu=1", "--", "results/letters/glyphs/split.json")
    assert re.search(r"Provided resources: gpu=\D*1\b", output)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    output = fresh.succeed("--cores", "4", "--", f"results/{RUN.format(0)}/model.safetensors")
    assert "gpu=" not in output
    log, record = run(fresh, 0)
    assert "on GPU" not in log
    assert record["threads"] == 1
