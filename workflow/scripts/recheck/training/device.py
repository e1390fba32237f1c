"""Device and precision of a run."""

import contextlib
from collections.abc import Iterator

import torch

from recheck.errors import UserError
from recheck.training.gpus import take_gpu

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": None}


def choose_device(name: str) -> torch.device:
    """Device by name; ``auto`` is the GPU if PyTorch sees one, else the CPU.

    TF32 is switched off: newer GPUs would otherwise round the inputs of float32 convolutions to ten bits.
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("Config 'device' is 'cuda', but PyTorch sees no GPU: use `--config device=auto`.")
    return torch.device(name)


def reserve_device(name: str, job: str) -> torch.device:
    """Device by name, with a GPU reserved for this job; waits while all GPUs are taken."""
    if name != "cpu":
        take_gpu(job)
    return choose_device(name)


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """Context that sets the precision of the forward pass. Losses are computed outside of it, in float32."""
    dtype = PRECISIONS[precision]
    return torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext()


@contextlib.contextmanager
def parameters_of(precision: str) -> Iterator[None]:
    """Context in which modules are built: their numbers are float64 if that is the precision, else float32."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if precision == "float64" else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)
