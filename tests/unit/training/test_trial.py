"""Which errors end a trial, and which end the job that trains it."""

import errno

import pytest
import torch

from recheck.errors import MachineError, UserError
from recheck.training.trial import Diverged, failure

MEMORY = "The GPU has too little memory for these settings."


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Diverged("The loss became nan.", " The last good state is kept in state/."), "The loss became nan."),
        (
            UserError("Cannot build loss 'A' with arguments {}: no.\nMore."),
            "Cannot build loss 'A' with arguments {}: no.",
        ),
        (ValueError("margin must be positive"), "ValueError: margin must be positive."),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), MEMORY),
        (caused(UserError("21 GB were allocated."), torch.OutOfMemoryError("CUDA out of memory")), MEMORY),
    ],
)
def test_errors_that_values_may_cause_are_failures_of_the_trial(error, reason):
    assert failure(error) == reason


@pytest.mark.parametrize(
    "error",
    [
        MachineError("No space left while writing run.json."),
        OSError(errno.ENOSPC, "No space left on device"),
        FileNotFoundError(errno.ENOENT, "No such file", "pixels.bin"),
        MemoryError(),
        RuntimeError("CUDA error: unspecified launch failure"),
    ],
)
def test_failures_of_the_machine_are_not_failures_of_the_trial(error):
    assert failure(error) is None


def test_a_full_disk_is_a_failure_of_the_machine(tmp_path):
    from recheck.files import disk_errors

    with pytest.raises(MachineError), disk_errors(tmp_path / "run.json"):
        raise OSError(errno.ENOSPC, "No space left on device")
