"""Number formats of tensors."""

import torch


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float32, or in float64 if it has that already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
