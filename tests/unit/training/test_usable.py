"""Sentences about GPUs that are visible but cannot be used."""

import pytest

from recheck.training.usable import Facts, problem, supported

BUILT = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")  # PyTorch 2.13 for CUDA 13.0
PINNED = {"torch": "2.13.0+cu130", "cuda": "13.0", "architectures": BUILT}
CPU = "or compute on the CPU with `--config device=cpu`."


@pytest.mark.parametrize(
    ("capability", "usable"),
    [
        ((6, 1), False),
        ((7, 0), False),  # V100
        ((7, 5), True),
        ((8, 0), True),
        ((8, 9), True),  # by the code for 8.6
        ((9, 0), True),
        ((10, 3), True),
        ((11, 0), False),
        ((12, 1), True),
    ],
)
def test_machine_code_runs_within_a_major_version(capability, usable):
    assert supported(capability, BUILT) is usable


def test_builds_for_other_makers_are_not_judged():
    assert supported((9, 0), ("gfx90a", "gfx942"))
    assert supported((9, 0), ())


def test_ptx_runs_on_newer_gpus():
    assert supported((12, 0), ("sm_80", "compute_90"))
    assert not supported((8, 6), ("sm_90", "compute_90"))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (Facts("", **PINNED, name="NVIDIA A100-SXM4-40GB", capability=(8, 0)), None),
        # an old driver with NVIDIA's compatibility package works, so it is not refused
        (Facts("", **PINNED, driver="535.104.05", name="NVIDIA A100", capability=(8, 0)), None),
        (
            Facts("", **PINNED, name="Tesla V100-SXM2-16GB", capability=(7, 0)),
            "Tesla V100-SXM2-16GB has compute capability 7.0, but PyTorch 2.13.0+cu130 is built for 7.5, 8.0, 8.6, "
            f"9.0, 10.0, 12.0: use a GPU with one of these capabilities, {CPU}",
        ),
        (
            Facts("The NVIDIA driver is too old", **PINNED, visible=("GPU-a",), driver="535.104.05"),
            "The NVIDIA driver 535.104.05 is too old for CUDA 13.0, which PyTorch 2.13.0+cu130 uses: install driver "
            f"580.65.06 or newer, {CPU}",
        ),
        (
            Facts("No CUDA GPUs are available", **PINNED, visible=("GPU-a", "GPU-b"), driver="580.65.06"),
            "CUDA 13.0 did not start on GPU-a, GPU-b with driver 580.65.06 (No CUDA GPUs are available): check the GPU "
            f"with `nvidia-smi`, {CPU}",
        ),
        (
            Facts("Found no NVIDIA driver", **PINNED, visible=("0",)),
            "No NVIDIA driver was found for GPU 0: install driver 580.65.06 or newer (in a container, start it with "
            f"access to the GPU), unset CUDA_VISIBLE_DEVICES, {CPU}",
        ),
        (
            Facts("Torch not compiled with CUDA enabled", "2.13.0+cpu", None, visible=("GPU-a",), driver="580.65.06"),
            "PyTorch 2.13.0+cpu is a build without CUDA and cannot use GPU-a: install the build that requirements.txt "
            f"pins (`make setup`), {CPU}",
        ),
    ],
)
def test_every_reason_names_what_was_found_what_is_needed_and_what_to_do(facts, sentence):
    assert problem(facts) == sentence
