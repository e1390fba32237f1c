"""Where a run computes, and in which precision."""

import contextlib

import torch

from recheck.errors import UserError
from recheck.training.gpus import take_gpu

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """``auto`` is the GPU if there is one, else the CPU; a device that is asked for must be there.

    float32 then means float32: newer GPUs would otherwise round what goes into a convolution to ten bits (TF32).
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("config 'device' is cuda, but PyTorch sees no GPU: use `--config device=cpu` or auto.")
    return torch.device(name)


def own_device(name: str, job: str) -> torch.device:
    """The device that is asked for. A GPU is this job's alone; if all are taken, it is waited for."""
    if name != "cpu":
        take_gpu(job)
    return choose_device(name)


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """The forward pass's precision; losses are always computed in float32, outside of it."""
    dtype = PRECISIONS[precision]
    return torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext()
