"""Time and memory limits of training and embedding jobs, for Snakemake to plan with: cheap, and without torch.

Limits are generous. A limit that is still too short costs little: the job is submitted again and resumes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from recheck.cost.counts import stored
from recheck.cost.estimate import GIB, Estimate, estimate, fits
from recheck.cost.gpus import Gpu
from recheck.cost.sizes import Sizes
from recheck.cost.steps import whole
from recheck.study.model import Run, Study

SAFETY = 3
"""A limit is this many times the estimated time, plus ``START`` minutes for training or ``EMBEDDING`` for embedding."""
START = 30
LONGEST, UNKNOWN, EMBEDDING = 1440, 1440, 20
"""Minutes: the longest limit of all, the limit of a training job of unknown cost, the shortest limit of embedding."""
BASE_MB, UNKNOWN_MB, CACHED_MB = 3500, 8000, 4000
"""Megabytes: for Python, torch and CUDA; for a run of unknown cost; and the most of a pack that is worth caching."""
LOADERS, QUEUED = 8, 2
"""Loader processes, and batches that each of them prepares."""


@dataclass(frozen=True)
class Limits:
    """Minutes and megabytes of the first attempt; Snakemake multiplies them by the attempt."""

    train_minutes: int = UNKNOWN
    embed_minutes: int = EMBEDDING
    megabytes: int = UNKNOWN_MB


def limits(run: Run, sizes: Sizes | None, gpu: Gpu, pack: int | None) -> Limits:
    """The limits of a row on a dataset, with ``pack`` bytes of packed images (None: not known)."""
    cost = estimate(run.settings, sizes, run.trained, stored)
    if cost is None:
        return Limits()
    speed = gpu.speed(cost.precision)
    training = (cost.most.training + cost.most.evaluating) / speed / 60
    embedding = cost.most.embedding / speed / 60
    return Limits(
        min(LONGEST, _rounded(START + SAFETY * training, 10)),
        min(LONGEST, _rounded(EMBEDDING + SAFETY * embedding, 5)),
        _megabytes(cost, pack),
    )


def _megabytes(cost: Estimate, pack: int | None) -> int:
    """Host memory: the program, two copies of the state, prepared batches, results, and the cached pack."""
    needed = 2 * cost.state + LOADERS * QUEUED * cost.batch_bytes + 3 * cost.disk
    cached = CACHED_MB if pack is None else min(CACHED_MB, pack / 1e6)
    return _rounded(BASE_MB + needed / 1e6 + cached, 500)


def _rounded(value: float, unit: int) -> int:
    return -int(-value // unit) * unit


def too_large(study: Study, sizes_of: Callable[[str], Sizes | None], gpu: Gpu) -> list[str]:
    """One sentence per group of rows whose training needs more memory than the GPU has."""
    rows: dict[str, dict[str, None]] = {}
    for dataset, runs in study.runs.items():
        for row, run in runs.items():
            cost = estimate(run.settings, sizes_of(dataset), run.trained, stored) if run.trained else None
            if cost and not fits(cost.memory, gpu):
                rows.setdefault(_advice(run, cost, gpu), {})[row] = None
    return [f"{study.path}, {_named(names)}: {sentence}" for sentence, names in rows.items()]


def _named(rows: Iterable[str]) -> str:
    names = [f"'{row}'" for row in rows]
    return f"{'row' if len(names) == 1 else 'rows'} {', '.join(names)}"


def _advice(run: Run, cost: Estimate, gpu: Gpu) -> str:
    forward = run.settings.get("forward") or {}
    ways = [f"Lower 'sampler.batch' ({run.settings['sampler']['batch']})"]
    if "passes" in forward:
        ways.append(f"lower 'forward.passes' ({forward['passes']})")
    elif forward.get("class", "Single") in ("Single", "InTurns"):
        parts = whole(forward, "parts")
        more = next((more for more in range(2 * parts, cost.batch, parts) if cost.batch % more == 0), cost.batch)
        ways.append(f"set 'forward: {{class: Recomputed, parts: {more}}}'")
    if cost.precision not in ("float16", "bfloat16"):
        ways.append("set 'precision: bfloat16'")
    each = ""
    if gpu.share > 1:
        each = f" for each of {gpu.share} jobs"
        ways.append("lower config 'gpu_share'")
    return (
        f"a training step needs at least {cost.memory / GIB:.1f} GiB of GPU memory, but {gpu.title} has "
        f"{gpu.available:g} GiB{each}. {', '.join(ways)}, or use a larger GPU and name it in config 'gpu' "
        f"(now {gpu.name})."
    )
