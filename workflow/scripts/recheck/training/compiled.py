"""``compile: true``: PyTorch's compiler for the network."""

import os
from collections.abc import Callable

import torch

from recheck.errors import UserError


def compiled(network: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> Callable:
    """A function that computes the same as the network; it is compiled when it is first called.

    Every batch size is compiled separately. Otherwise PyTorch would compile for all sizes once it has seen two, and the
    bits of a step would depend on what this process ran before it, so that a resumed run could differ.
    """
    # Compile in this process: a pool of processes would use more cores than the job has.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    try:
        torch.compile(_probe, dynamic=False)(torch.ones(2, device=device))
    except Exception as error:  # the compiler raises errors of many kinds
        reason = next(line for line in (*str(error).splitlines(), type(error).__name__) if line.strip()).strip()
        raise UserError(
            f"'compile: true' needs a working C++ compiler, but PyTorch could not compile a test function "
            f"({reason.rstrip('.')[:200]}): install g++ and Python's header files, or remove 'compile'."
        ) from error

    # Wrapped in a function, because PyTorch does not compile the `forward` of its own modules (nn.Sequential).
    def call(images: torch.Tensor) -> torch.Tensor:
        return network(images)

    return torch.compile(call, dynamic=False)


def _probe(values: torch.Tensor) -> torch.Tensor:
    return values.sin() + 1
