"""The GPU of a Mac, as far as it can be tested without one: PyTorch is replaced where it would ask for the GPU."""

import logging
import sys
import warnings

import pytest
import torch

from recheck.circumstances import out_of_gpu_memory
from recheck.cost.gpus import load_gpu
from recheck.errors import UserError
from recheck.evaluation.gpu_search import search_device
from recheck.training.device import check_precision, reserve_device
from recheck.training.memory import enough_memory
from recheck.training.record import _model
from recheck.training.seeding import random_state, restore_random_state
from support.project import ROOT

CONFIG = {"device": "mps", "gpu_share": 1}
# as PyTorch writes it (aten/src/ATen/mps/MPSFallback.mm)
FALLBACK = (
    "The operator 'aten::_cdist_backward' is not currently supported on the MPS backend and will fall back to run on "
    "the CPU. This may have performance implications."
)
FULL = (
    "MPS backend out of memory (MPS allocated: 8.9 GB, max allowed: 9.0 GB). Tried to allocate 0.5 GB on shared pool."
)


@pytest.fixture
def mac(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


def test_it_is_used_only_if_it_is_named(mac):
    assert reserve_device(CONFIG, "job").type == "mps"
    assert reserve_device({**CONFIG, "device": "auto"}, "job").type != "mps"


def test_without_such_a_gpu_the_cpu_does_not_take_over(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match="no Mac GPU was found: use a Mac with Apple silicon"):
        reserve_device(CONFIG, "job")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has such a GPU")
def test_it_is_refused_before_the_first_job(fresh):
    output = fresh.fail("--dry-run", "--cores", "1", "--config", "device=mps")
    assert "no Mac GPU was found" in output and "Building DAG" not in output


def test_an_operator_that_falls_back_to_the_cpu_is_named(mac, caplog):
    reserve_device(CONFIG, "job")
    with caplog.at_level(logging.WARNING, "recheck"), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn(FALLBACK, stacklevel=1)
        warnings.warn("Something else.", stacklevel=1)
    said = [record.getMessage() for record in caplog.records if record.name == "recheck"]
    assert len(said) == 1 and said[0].startswith("PyTorch has no MPS version of 'aten::_cdist_backward', so the CPU")


def test_float64_is_refused():
    with pytest.raises(UserError, match="'precision: float64' is not supported on MPS"):
        check_precision(torch.device("mps"), "float64")
    check_precision(torch.device("mps"), "bfloat16")
    check_precision(torch.device("cpu"), "float64")


def test_neighbours_are_searched_on_the_cpu():
    assert search_device("mps", 10**6, 10**6, 128) == "cpu"


def test_estimates_do_not_assume_an_nvidia_gpu():
    assert load_gpu(None, ROOT / "config/gpus.yaml", device="mps").name == "cpu"


def test_its_random_numbers_are_part_of_the_state(mac, monkeypatch):
    restored = []
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: torch.tensor([7]))
    monkeypatch.setattr(torch.mps, "set_rng_state", restored.append)
    restore_random_state(random_state())
    assert restored == [torch.tensor([7])]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert "mps" not in random_state()


def test_too_little_memory_has_the_usual_sentence(monkeypatch):
    assert out_of_gpu_memory(RuntimeError(FULL))
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 8 * 2**30)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 9 * 2**30)
    sentence = r"A batch of 32 images does not fit on the GPU \(8.0 of 9.0 GiB"
    with pytest.raises(UserError, match=sentence), enough_memory({"sampler": {"batch": 32}}):
        raise RuntimeError(FULL)


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor : 0\nmodel name : AMD EPYC\n\nprocessor : 1\nmodel name : AMD EPYC\n", "AMD EPYC"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "CPU implementer 0x41, CPU part 0xd0c"),
    ],
)
def test_processors_are_told_apart(cpuinfo, model):
    assert _model(cpuinfo) == model
