"""Whether PyTorch can compute on the visible GPU, and if not, why and what to do.

Pure: facts in, a sentence or None out. ``recheck.training.device`` collects the facts.
"""

from dataclasses import dataclass

ON_CPU = "compute on the CPU with `--config device=cpu`"
NO_GPU = (
    "Config 'device' is 'cuda', but no GPU is visible: check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or " + ON_CPU + "."
)
NO_MPS = (
    "Config 'device' is 'mps', but no Mac GPU was found: use a Mac with Apple silicon and macOS 14 or newer, or "
    + ON_CPU
    + "."
)
NOT_GIVEN = (
    "This job has reserved a GPU, but sees none: check how the profile requests GPUs (docs/cluster.md), or "
    + ON_CPU
    + "."
)
# Oldest driver for each major version of CUDA: NVIDIA's "CUDA Toolkit Release Notes", table of minimum driver versions
# for minor version compatibility.
DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}


def no_such_gpu(named: str) -> str:
    """The sentence for a CUDA_VISIBLE_DEVICES that names no GPU of this machine."""
    return f"CUDA_VISIBLE_DEVICES is '{named}', but this machine has no such GPU: correct or unset it, or {ON_CPU}."


@dataclass(frozen=True)
class Facts:
    """What is known about the GPU of a job, its driver and PyTorch's build.

    ``error`` is CUDA's reason for not starting, empty if it started. ``visible`` has the GPUs that the driver or
    CUDA_VISIBLE_DEVICES names; ``name`` and ``capability`` are known only after CUDA has started.
    """

    error: str
    torch: str
    cuda: str | None
    architectures: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    driver: str | None = None
    name: str = "The GPU"
    capability: tuple[int, int] | None = None


def problem(facts: Facts) -> str | None:
    """Why PyTorch cannot compute on the GPU, in one sentence that says what to do; None if it can."""
    if not facts.error:
        return _architecture(facts)
    gpus = ", ".join(f"GPU {name}" if name.isdecimal() else name for name in facts.visible) or "the GPU"
    if facts.cuda is None:
        return (
            f"PyTorch {facts.torch} is a build without CUDA and cannot use {gpus}: install the build that "
            f"requirements.txt pins (`make setup`), or {ON_CPU}."
        )
    needed = DRIVERS.get(int(facts.cuda.split(".")[0]))
    if facts.driver is None:
        return (
            f"No NVIDIA driver was found for {gpus}: install driver {needed or 'for CUDA ' + facts.cuda} or newer (in "
            f"a container, start it with access to the GPU), unset CUDA_VISIBLE_DEVICES, or {ON_CPU}."
        )
    if needed and _numbers(facts.driver) < _numbers(needed):
        return (
            f"The NVIDIA driver {facts.driver} is too old for CUDA {facts.cuda}, which PyTorch {facts.torch} uses: "
            f"install driver {needed} or newer, or {ON_CPU}."
        )
    return (
        f"CUDA {facts.cuda} did not start on {gpus} with driver {facts.driver} ({facts.error}): check the GPU with "
        f"`nvidia-smi`, or {ON_CPU}."
    )


def supported(capability: tuple[int, int], architectures: tuple[str, ...]) -> bool:
    """Whether a build for these architectures (``sm_86``, ``compute_90``) has code for a GPU.

    Machine code runs on GPUs of the same major version with the same or a higher minor version; PTX (``compute_``) runs
    on all newer GPUs. Builds for other vendors' GPUs are not judged.
    """
    built = {name: _version(name) for name in architectures if name.startswith(("sm_", "compute_"))}
    return not built or any(
        version <= capability and (name.startswith("compute_") or version[0] == capability[0])
        for name, version in built.items()
    )


def _architecture(facts: Facts) -> str | None:
    if facts.capability is None or supported(facts.capability, facts.architectures):
        return None
    built = ", ".join("{}.{}".format(*_version(name)) for name in facts.architectures)
    return (
        f"{facts.name} has compute capability {facts.capability[0]}.{facts.capability[1]}, but PyTorch {facts.torch} "
        f"is built for {built}: use a GPU with one of these capabilities, or {ON_CPU}."
    )


def _version(architecture: str) -> tuple[int, int]:
    """(8, 6) for ``sm_86``, (9, 0) for ``sm_90a``."""
    digits = "".join(filter(str.isdigit, architecture))
    return int(digits[:-1]), int(digits[-1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number.isdecimal())
