"""``compile: true``: PyTorch's compiler for the backbone."""

import os

import torch

from recheck.errors import UserError


def compile_backbone(backbone: torch.nn.Module, device: torch.device) -> None:
    """Compile a backbone in place when it is first called; the names of its weights do not change.

    Every size of a batch is compiled by itself. PyTorch would otherwise compile for all sizes once it has seen two, and
    then the bits of a step would depend on what ran before it, also after a resume.
    """
    # In this process: a pool of processes would use more cores than the job has.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    try:
        torch.compile(_probe, dynamic=False)(torch.ones(2, device=device))
    except Exception as error:
        # The compiler raises errors of many kinds. Its last line with the cause is the clearest one.
        reason = next(line for line in (*str(error).splitlines(), type(error).__name__) if line.strip()).strip()
        raise UserError(
            f"'compile: true' needs a working C++ compiler, and PyTorch could not compile a test function "
            f"({reason.rstrip('.')[:200]}): install g++ and the headers of Python, or remove 'compile'."
        ) from error
    backbone.compile(dynamic=False)


def _probe(values: torch.Tensor) -> torch.Tensor:
    return values.sin() + 1
