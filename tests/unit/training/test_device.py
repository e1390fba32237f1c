"""The device of a job: never the CPU by accident, never a GPU by accident. CUDA is simulated at its boundary."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from recheck.data.fold import FoldData
from recheck.errors import UserError
from recheck.training.device import asks_for_gpu, reserve_device
from recheck.training.usable import DRIVERS
from support.project import ROOT
from support.project.runs import make_run, packed_glyphs
from support.services.gpus import listed, pretend_gpus


def config(device, share=1):
    return {"device": device, "gpu_share": share}


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    """Simulate GPUs: what the driver lists, and what CUDA says when it starts."""

    def simulate(*uuids, error=None, capability=(8, 0), driver="580.65.06"):
        pretend_gpus(monkeypatch, tmp_path, *listed(*uuids), driver=driver)

        def init():
            if error:
                raise RuntimeError(error)

        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100-SXM2-16GB")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)

    return simulate


def test_a_usable_gpu_is_used(cuda):
    cuda("GPU-a", "GPU-b")
    assert reserve_device(config("auto"), "job").type == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a"


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_gpus_that_do_not_exist_are_not_replaced_by_the_cpu(cuda, monkeypatch, device):
    cuda("GPU-a", error="No CUDA GPUs are available")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES is '7', but this machine has no such GPU: correct or "):
        reserve_device(config(device), "job")


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
@pytest.mark.parametrize("uuids", [(), ("GPU-a",)])
def test_gpus_that_are_hidden_on_purpose_are_not_missed(cuda, monkeypatch, hidden, uuids):
    cuda(*uuids, error="No CUDA GPUs are available")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert reserve_device(config("auto"), "job").type == "cpu"


@pytest.mark.parametrize(
    ("share", "memory", "fraction"), [(1, 40, None), (4, 40, 0.225), (4, 8, 0.125), (64, 40, 0.02)]
)
def test_a_share_of_a_gpu_has_a_share_of_its_memory(cuda, monkeypatch, share, memory, fraction):
    """The share without 1 GiB for CUDA, of GPUs with this many GiB."""
    cuda("GPU-a")
    set_to = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(total_memory=memory * 2**30))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", set_to.append)
    assert reserve_device(config("cuda", share), "job").type == "cuda"
    assert set_to == ([] if fraction is None else [pytest.approx(fraction)])


@pytest.mark.parametrize("name", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (
            {"error": "The NVIDIA driver on your system is too old (found version 12020).", "driver": "535.104.05"},
            "The NVIDIA driver 535.104.05 is too old for CUDA 13.0",
        ),
        ({"capability": (7, 0)}, "Tesla V100-SXM2-16GB has compute capability 7.0, but PyTorch"),
        ({"error": "CUDA unknown error.\nMore."}, r"with driver 580.65.06 \(CUDA unknown error\): check"),
    ],
)
def test_a_visible_gpu_that_cannot_be_used_stops_the_job(cuda, name, problem, sentence):
    cuda("GPU-a", **problem)
    with pytest.raises(UserError, match=sentence):
        reserve_device(config(name), "job")


def test_without_a_gpu(cuda):
    cuda(error="Found no NVIDIA driver on your system.", driver=None)
    assert reserve_device(config("auto"), "job", {"gpu": 0}).type == "cpu"
    with pytest.raises(UserError, match="Config 'device' is 'cuda', but no GPU is visible"):
        reserve_device(config("cuda"), "job")
    with pytest.raises(UserError, match="This job has reserved a GPU, but sees none"):
        reserve_device(config("auto"), "job", {"gpu": 1})


@pytest.mark.parametrize(
    ("resources", "asks"),
    [({}, False), ({"gpu": 0, "gres": ""}, False), ({"gpu": 1}, True), ({"gpu": 0, "gres": "shard:a100:1"}, True)],
)
def test_jobs_ask_for_gpus_by_resources(resources, asks):
    assert asks_for_gpu(resources) is asks


def test_the_cpu_never_starts_cuda(cuda, monkeypatch, tmp_path):
    """A whole run with Adam, which asks `torch.cuda.is_available()` in every step."""

    def refuse(*arguments):
        raise AssertionError("CUDA was started")

    count = torch._C._cuda_getDeviceCount

    def count_hidden():
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == "", "GPUs were counted before they were hidden"
        return count()

    images, labels = packed_glyphs(tmp_path, classes=4)
    data = FoldData(images, labels, {"train": np.flatnonzero(labels < 2), "val": np.flatnonzero(labels >= 2)})
    cuda("GPU-a")
    monkeypatch.setattr(torch._C, "_cuda_init", refuse)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", count_hidden)
    monkeypatch.setattr(torch.cuda, "init", refuse)
    assert reserve_device(config("cpu"), "job").type == "cpu"
    make_run(data, tmp_path).train()


def test_the_docs_state_the_driver_and_the_architectures_of_the_pinned_build():
    capabilities = ", ".join(f"{name[3:-1]}.{name[-1]}" for name in torch.cuda.get_arch_list())
    driver = DRIVERS[int(torch.version.cuda.split(".")[0])]
    for file in ("docs/install.md", "docs/cluster.md"):
        text = " ".join(Path(ROOT, file).read_text(encoding="utf-8").split())
        assert driver.split(".")[0] in text and "7.5" in text, file
    assert capabilities in text and driver in text and f"CUDA {torch.version.cuda}" in text
