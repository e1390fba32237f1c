"""GPU memory: an error that names the batch, what was allocated and the keys that help."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from recheck.circumstances import out_of_gpu_memory
from recheck.errors import UserError

GIB = 2**30
# Assumed bytes of a process outside PyTorch's allocator: CUDA's context, libraries and faiss. Not measured: no GPU was
# available.
OUTSIDE = GIB
OTHERS = 0.5  # a job that has allocated less than this part of its share ran out of memory because of other programs
SMALLEST = 0.02  # share of the GPU that is always left to PyTorch


@contextlib.contextmanager
def enough_memory(configuration: Mapping[str, Any], share: int = 1, trains: bool = True) -> Iterator[None]:
    """Turn an out-of-memory error of the GPU within this context into a UserError; ``share`` jobs share the GPU."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_gpu_memory(error):
            raise
        raise UserError(sentence(str(error), configuration, trains, share, *_allocated(str(error)))) from error


def limit_memory(share: int) -> None:
    """Let PyTorch allocate at most this process's share of the GPU, so that jobs cannot starve each other."""
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction(max(1 / share - OUTSIDE / total, SMALLEST))


def sentence(text: str, configuration: Mapping[str, Any], trains: bool, share: int, allocated: int, total: int) -> str:
    """What did not fit on the GPU and which keys help; ``text`` is PyTorch's message."""
    batch, forward = configuration["sampler"]["batch"], configuration.get("forward") or {}
    passes = forward.get("passes", 1)
    views = f" in {passes} passes each" if passes > 1 else ""
    tried = re.search(r"Tried to allocate ([\d.]+ \w+)", text)
    more = f", {tried[1]} more were needed" if tried else ""
    help_ = ["stop other programs that use this GPU"] if allocated < OTHERS * total / share else []
    if trains and forward.get("class", "Single") in ("Single", "InTurns"):
        parts = _more_parts(batch, forward.get("parts", 1))
        help_.append(f"keep less for the backward pass with `forward: {{class: Recomputed, parts: {parts}}}`")
    if configuration.get("precision", "float32") in ("float32", "float64", "tf32"):
        help_.append("set `precision: bfloat16`")
    if share > 1:
        help_.append(f"lower `gpu_share`, which is {share}")
    help_.append("use a GPU with more memory")
    return (
        f"A batch of {batch} images{views} does not fit on the GPU ({allocated / GIB:.1f} of {total / GIB:.1f} GiB "
        f"were allocated by this job{more}): {', or '.join(help_)}."
    )


def _more_parts(batch: int, parts: int) -> int:
    """The next multiple of ``parts`` that divides the batch; the batch itself if there is none."""
    return next((more for more in range(2 * parts, batch, parts) if batch % more == 0), batch)


def _allocated(text: str) -> tuple[int, int]:
    """Bytes that this process had allocated, and bytes of the GPU; ``text`` is PyTorch's message."""
    if "MPS" in text:
        return torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    return torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties().total_memory
