"""run.json: everything needed to trace a number in a table back to the run that produced it."""

import contextlib
import logging
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from recheck.data.packed import read_about
from recheck.files import atomic, fingerprint, sha256
from recheck.parts import own_files
from recheck.user_code import unlisted_modules

log = logging.getLogger("recheck")
PACKAGES = ("torch", "torchvision", "timm", "pytorch-metric-learning", "numpy")


def data_hashes(split: str | Path, pack: str | Path) -> dict[str, str]:
    """SHA-256 of the split and of the packed pixels that the run uses."""
    return {"split": sha256(split), "pixels": read_about(pack)["sha256"]}


def image_reading(pack: str | Path) -> dict[str, str]:
    """How the packed image files were read (``exif``, ``alpha``), for users of the model."""
    return read_about(pack).get("reading", {})


class UserFiles:
    """The user's files that a run uses, as they are now: modules, with everything they import, and weights.

    Create it before the modules are imported: they may be edited while the run trains.
    """

    def __init__(self, configuration: dict[str, Any]):
        self.hashes = {path: sha256(path) for path in own_files(configuration)}
        self.sources = {path: Path(path).read_bytes() for path in self.hashes if Path(path).suffix == ".py"}

    def copy_to(self, folder: str | Path) -> None:
        """Write the modules to a folder beside the model, under their paths; an older copy is replaced."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in self.sources.items():
            with atomic(Path(folder, path)) as temporary:
                temporary.write_bytes(content)

    def warn_of_others(self) -> None:
        """Warn of imported modules that can't be found in source text, such as modules whose names are computed."""
        for path in unlisted_modules(self.hashes):
            log.warning(
                "%s was imported, but no import statement names it, so editing it will not retrain this run: "
                "import it with an import statement.",
                path,
            )


def run_fingerprint(
    configuration: dict[str, Any], seed: int, fold: int, data: dict[str, str], own_files: dict[str, str]
) -> str:
    """Fingerprint of a run: equal fingerprints mean equal results on the same hardware and package versions.

    ``own_files`` holds the hashes of the user's files.
    """
    return fingerprint(
        {"configuration": configuration, "seed": seed, "fold": fold, "data": data, "own_files": own_files}
    )


def code_hash() -> str:
    """Hash of the package's source. All runs of a table should share it; the page reports if they don't."""
    package = Path(__file__).parents[1]
    return fingerprint({str(path.relative_to(package)): sha256(path) for path in sorted(package.rglob("*.py"))})


def _processor() -> str:
    """The CPU's model, which decides the last digits of results, and the instructions that torch uses on it."""
    cpuinfo = Path("/proc/cpuinfo")
    listed = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    return f"{_model(listed)}, {torch.backends.cpu.get_cpu_capability()}"


def _model(cpuinfo: str) -> str:
    """The CPU's model, from Linux's list of processors (on ARM by its numbers) or from macOS."""
    entries = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        entries.setdefault(key.strip(), value.strip())
    numbers = [f"{key} {entries[key]}" for key in ("CPU implementer", "CPU part") if key in entries]
    if name := entries.get("model name") or ", ".join(numbers):
        return name
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        if platform.system() == "Darwin":
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def machine(device: torch.device, threads: int) -> dict[str, Any]:
    import faiss  # imported late: embedding jobs don't need it

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": device.type,
        "device_name": name,
        "processor": _processor(),
        "threads": threads,
        "cpu_threads": torch.get_num_threads(),
        "versions": {
            "recheck": code_hash()[:12],
            "python": platform.python_version(),
            "faiss": faiss.__version__,
            **{package: version(package) for package in PACKAGES},
        },
    }
