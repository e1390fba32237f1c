"""Device and precision of a run."""

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from recheck.errors import UserError
from recheck.training.gpus import driver_version, hide_gpus, missing_gpus, take_gpu, visible_gpus
from recheck.training.memory import limit_memory
from recheck.training.tf32 import TF32
from recheck.training.usable import NO_GPU, NO_MPS, NOT_GIVEN, Facts, no_such_gpu, problem

log = logging.getLogger("recheck")
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": None, "tf32": None}


def reserve_device(config: Mapping[str, Any], job: str, resources: Mapping[str, Any] | None = None) -> torch.device:
    """Device of the config, with a GPU or a share of one reserved for this job; waits while all are taken.

    ``resources`` are Snakemake's: a job that has asked for a GPU must see one.
    """
    name, share = config["device"], config["gpu_share"]
    if name not in ("cpu", "mps"):
        take_gpu(job, share)
    device = choose_device(name, asks_for_gpu(resources or {}))
    if device.type == "cuda" and share > 1:
        limit_memory(share)
    return device


def choose_device(name: str, reserved: bool = False) -> torch.device:
    """Device by name; ``auto`` is the NVIDIA GPU if there is one, else the CPU. A GPU that cannot be used is an error.

    ``cpu`` hides all GPUs, because libraries (``torch.optim``) would otherwise start CUDA. ``reserved`` says that the
    job has reserved a GPU. TF32 is switched off: newer GPUs would otherwise round the inputs of float32 convolutions to
    ten bits.
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if name == "cpu":
        hide_gpus()
        return torch.device("cpu")
    if name == "mps":
        if not torch.backends.mps.is_available():
            raise UserError(NO_MPS)
        logging.getLogger("py.warnings").addFilter(_tell_of_fallback)
        return torch.device("mps")
    known = facts()
    if known.error and not known.visible:
        if missing := missing_gpus():
            raise UserError(no_such_gpu(missing))
        if name == "cuda" or reserved:
            raise UserError(NOT_GIVEN if reserved else NO_GPU)
        return torch.device("cpu")
    if sentence := problem(known):
        raise UserError(sentence)
    return torch.device("cuda")


def facts() -> Facts:
    """Start CUDA, and collect what ``usable.problem`` needs to know."""
    build = {"torch": torch.__version__, "cuda": torch.version.cuda, "architectures": tuple(torch.cuda.get_arch_list())}
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:  # a build without CUDA raises an AssertionError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        return Facts(reason, **build, visible=tuple(visible_gpus()), driver=driver_version())
    return Facts("", **build, name=torch.cuda.get_device_name(), capability=torch.cuda.get_device_capability())


def _tell_of_fallback(record: logging.LogRecord) -> bool:
    """If PyTorch warns that an operator has no MPS version, say so on the terminal. The log keeps the warning too."""
    if operator := re.search(r"operator '([^']+)' is not currently supported on the MPS backend", record.getMessage()):
        log.warning(
            "PyTorch has no MPS version of '%s', so the CPU computes it, and the run is slower. If it is too slow, use "
            "`--config device=cpu`.",
            operator[1],
        )
    return True


def check_precision(device: torch.device, precision: str) -> None:
    """Refuse a precision that the device does not support."""
    if device.type == "mps" and precision == "float64":
        raise UserError("'precision: float64' is not supported on MPS: use `--config device=cpu`.")


def asks_for_gpu(resources: Mapping[str, Any]) -> bool:
    """Whether Snakemake's resources of a job ask for a GPU or a part of one (``gpu: 1``, ``gres: shard:1``)."""
    return bool(resources.get("gpu")) or any(word in str(resources.get("gres", "")) for word in ("gpu", "shard"))


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """Context that sets the precision of the forward pass. Losses are computed outside of it, in float32."""
    if precision == "tf32":
        return TF32()
    dtype = PRECISIONS[precision]
    return torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext()


@contextlib.contextmanager
def parameters_of(precision: str) -> Iterator[None]:
    """Context for building modules: their tensors are float64 if that is the precision, else float32."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if precision == "float64" else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)
