"""Limits of SLURM jobs, and rows that a GPU has no memory for."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from recheck.cost import limits
from recheck.cost.counts import stored
from recheck.cost.estimate import estimate
from recheck.cost.gpus import load_gpu
from recheck.cost.limits import LONGEST, Limits, too_large
from recheck.cost.plan import sizes_of
from recheck.errors import UserError
from recheck.study.model import Run, load_study
from support.project import ROOT
from support.project.studies import FILES, dataset_of

GPUS = ROOT / "config/gpus.yaml"
A100 = load_gpu(None, GPUS)


def limits_of(study, dataset, row, gpu=A100):
    return limits.limits(study.run(dataset, row), sizes_of(study, dataset_of, dataset), gpu, 10**9)


def test_limits_follow_the_cost_of_a_row():
    study = load_study("mlrc", FILES)
    untrained, usual, costly = (limits_of(study, "cub200", row) for row in ("pretrained", "triplet", "ms_within_pair"))
    # 100,000 steps of 0.386 TFLOP and 501 evaluations at 7.8 TFLOP/s take 89 minutes; three times that, and 30 minutes
    assert usual.train_minutes == 300
    assert untrained.train_minutes < usual.train_minutes < costly.train_minutes == LONGEST
    assert limits_of(study, "cub200", "triplet", load_gpu("h100", GPUS)).train_minutes < usual.train_minutes
    assert 20 <= usual.embed_minutes <= 30
    assert 4500 <= untrained.megabytes <= usual.megabytes <= 8000


def test_rows_of_unknown_cost_have_the_old_limits():
    study = load_study("mlrc", FILES)
    run = study.run("cub200", "triplet")
    unknown = Run({**run.settings, "model": {**run.settings["model"], "backbone": {"name": "mine:net"}}})
    sizes = sizes_of(study, dataset_of, "cub200")
    assert limits.limits(unknown, sizes, A100, None) == limits.limits(run, None, A100, None) == Limits(1440, 20, 8000)


def test_rows_that_do_not_fit_are_named_with_what_helps():
    study = load_study("mlrc", FILES)
    images = partial(sizes_of, study, dataset_of)
    assert too_large(study, images, A100) == []
    (sentence,) = too_large(study, images, replace(A100, title="A small GPU", memory=8, name="small"))
    assert sentence.endswith(
        "mlrc.yaml, rows 'contrastive_within_pair', 'triplet_within_pair', 'margin_within_pair', 'ms_within_pair': a "
        "training step needs at least 11.5 GiB of GPU memory, but A small GPU has 8 GiB. Lower 'sampler.batch' (32), "
        "lower 'forward.passes' (8), set 'precision: bfloat16', or use a larger GPU and name it in config 'gpu' "
        "(now small)."
    )
    shared = too_large(study, images, replace(A100, share=4))
    assert (
        len(shared) == 1 and "has 10 GiB for each of 4 jobs. " in shared[0] and "lower config 'gpu_share'" in shared[0]
    )
    assert too_large(study, images, replace(A100, memory=None)) == []


def test_recomputing_parts_of_a_batch_needs_less_memory_and_more_time():
    study = load_study("unbiased_resnet50", FILES)
    run = study.run("cub200", "lifted")
    parts = Run({**run.settings, "forward": {"class": "Recomputed", "parts": 4}})
    usual, chunked = (
        estimate(each.settings, sizes_of(study, dataset_of, "cub200"), True, stored) for each in (run, parts)
    )
    counts = stored(run.settings["model"], 224)
    assert usual.memory - chunked.memory == pytest.approx(0.75 * 128 * counts.saved)
    assert chunked.step_flops == pytest.approx(usual.step_flops + 128 * counts.forward)
    small, row = replace(A100, memory=8), study.with_rows(["lifted"])
    assert too_large(row, lambda dataset: None, small) == []  # without the number of images nothing is known
    (sentence,) = too_large(row, partial(sizes_of, study, dataset_of), small)
    assert "set 'forward: {class: Recomputed, parts: 2}'" in sentence


def test_every_gpu_is_valid_and_a_wrong_one_is_named(tmp_path):
    text = GPUS.read_text(encoding="utf-8")
    for name in ("a100_40gb", "a100_80gb", "h100", "l40s", "rtx4090", "rtx3090", "t4", "cpu"):
        gpu = load_gpu(name, GPUS)
        assert gpu.speed("float32") <= gpu.speed("float16") or name == "cpu"
    with pytest.raises(UserError, match=r"Config 'gpu' is 'a100', which .*gpus\.yaml does not describe; did you mean"):
        load_gpu("a100", GPUS)
    broken = Path(tmp_path, "gpus.yaml")
    broken.write_text(text.replace("matches: H100", "matches: '('"), encoding="utf-8")
    with pytest.raises(UserError, match=r"gpus\.yaml, 'h100': 'matches' must be a regular expression, found '\('"):
        load_gpu("h100", broken)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("a100_40gb", "NVIDIA A100-SXM4-40GB"),
        ("a100_40gb", "NVIDIA A100-PCIE-40GB"),
        ("a100_80gb", "NVIDIA A100 80GB PCIe"),
        ("h100", "NVIDIA H100 80GB HBM3"),
        ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("t4", "Tesla T4"),
    ],
)
def test_devices_are_recognised_by_their_names(name, device):
    gpus = [load_gpu(other, GPUS) for other in ("a100_40gb", "a100_80gb", "h100", "rtx4090", "t4", "cpu")]
    assert [gpu.name for gpu in gpus if gpu.trained({"device": "cuda", "device_name": device})] == [name]


def test_jobs_on_the_cpu_have_the_limits_of_a_cpu():
    study, images = load_study("unbiased", FILES), 11788
    minutes = [
        limits.limits(study.run("cub200", "dreml"), sizes_of(study, dataset_of, "cub200"), gpu, images).train_minutes
        for gpu in (load_gpu(None, GPUS), load_gpu("t4", GPUS, device="cpu"), load_gpu(None, GPUS, device="cpu"))
    ]
    assert minutes == sorted(set(minutes)) and minutes[-1] == LONGEST
