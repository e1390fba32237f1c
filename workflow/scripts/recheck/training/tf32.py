"""TF32: products of float32 numbers whose inputs are rounded to ten bits, which newer GPUs compute much faster."""

import contextlib
import logging

import torch

log = logging.getLogger("recheck")
FIRST = (8, 0)
"""Compute capability of the first GPUs with TF32 (Ampere)."""


class TF32:
    """Context in which convolutions and matrix products on a GPU may use TF32. It can be entered more than once."""

    def __enter__(self) -> None:
        _switch(True)

    def __exit__(self, *exception: object) -> None:
        _switch(False)


def backward_pass(precision: str) -> contextlib.AbstractContextManager:
    """Context of the backward pass. Autocast needs none there, because gradients have the type of their outputs."""
    return TF32() if precision == "tf32" else contextlib.nullcontext()


def warn_if_unavailable(device: torch.device, precision: str) -> None:
    """Warn if a run asks for TF32 on a device where it has no effect."""
    if precision != "tf32":
        return
    if device.type != "cuda":
        place = "a CPU" if device.type == "cpu" else device.type
        log.warning("'precision: tf32' has no effect on %s: this run computes in float32.", place)
    elif torch.cuda.get_device_capability(device) < FIRST:
        name = torch.cuda.get_device_name(device)
        log.warning("'precision: tf32' has no effect on %s, which has no TF32: this run computes in float32.", name)


def _switch(on: bool) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = on
