"""The error for a GPU with too little memory."""

from types import SimpleNamespace

import pytest
import torch

from recheck.errors import UserError
from recheck.training.memory import GIB, enough_memory, sentence

TEXT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.1 GiB is free."
)


@pytest.mark.parametrize(
    ("settings", "trains", "share", "expected"),
    [
        (
            {},
            True,
            1,
            "A batch of 128 images does not fit on the GPU (38.5 of 39.4 GiB were allocated by this job, 2.00 GiB more "
            "were needed): keep less for the backward pass with `forward: {class: Recomputed, parts: 2}`, or set "
            "`precision: bfloat16`, or use a GPU with more memory.",
        ),
        ({"forward": {"class": "InTurns", "parts": 2}}, True, 1, "Recomputed, parts: 4}`, or set"),
        (
            {"forward": {"class": "MultiView", "passes": 8, "masks": 8}, "precision": "bfloat16"},
            True,
            1,
            "images in 8 passes each does not fit on the GPU (38.5 of 39.4 GiB were allocated by this job, 2.00 GiB "
            "more were needed): use a GPU",
        ),
        ({}, False, 1, "were needed): set `precision: bfloat16`, or use a GPU with more memory."),
        ({}, False, 4, "bfloat16`, or lower `gpu_share`, which is 4, or use a GPU with more memory."),
    ],
)
def test_it_names_the_batch_the_memory_and_the_keys_that_help(settings, trains, share, expected):
    configuration = {"sampler": {"batch": 128}, **settings}
    assert expected in sentence(TEXT, configuration, trains, share, int(38.5 * GIB), int(39.4 * GIB))


@pytest.mark.parametrize(("batch", "parts", "more"), [(33, 1, 3), (112, 2, 4), (18, 2, 6), (7, 1, 7)])
def test_the_proposed_parts_divide_the_batch(batch, parts, more):
    configuration = {"sampler": {"batch": batch}, "forward": {"class": "InTurns", "parts": parts}}
    assert f"Recomputed, parts: {more}}}`" in sentence(TEXT, configuration, True, 1, GIB, GIB)


def test_other_programs_on_the_gpu_are_named_first():
    said = sentence(TEXT, {"sampler": {"batch": 8}}, False, 1, 10 * GIB, 40 * GIB)
    assert "were needed): stop other programs that use this GPU, or set `precision" in said


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(TEXT), RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")]
)
def test_running_out_of_memory_is_a_users_error(monkeypatch, error):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(total_memory=2 * GIB))
    said = r"A batch of 8 images does not fit on the GPU \(1.0 of 2.0 GiB"
    with pytest.raises(UserError, match=said), enough_memory({"sampler": {"batch": 8}}):
        raise error
    with pytest.raises(RuntimeError, match="another"), enough_memory({}):
        raise RuntimeError("another")
