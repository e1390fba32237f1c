"""Number formats of tensors."""

import contextlib

import torch


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float32, or in float64 if it is float64 already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """Context without mixed precision. Meta tensors, on which costs are counted, have no mixed precision at all."""
    return contextlib.nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)
