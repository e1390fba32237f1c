"""run.json: everything needed to trace a number in a table back to the run that produced it."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from recheck.data.packed import read_about
from recheck.files import fingerprint, sha256
from recheck.parts import own_files

PACKAGES = ("torch", "torchvision", "timm", "pytorch-metric-learning", "numpy")


def data_hashes(split: str | Path, pack: str | Path) -> dict[str, str]:
    """SHA-256 of the split and of the packed pixels that the run uses."""
    return {"split": sha256(split), "pixels": read_about(pack)["sha256"]}


def run_fingerprint(configuration: dict[str, Any], seed: int, fold: int, data: dict[str, str]) -> str:
    """Fingerprint of a run: equal fingerprints mean equal results on the same hardware and package versions."""
    files = {path: sha256(path) for path in own_files(configuration)}
    return fingerprint({"configuration": configuration, "seed": seed, "fold": fold, "data": data, "own_files": files})


def code_hash() -> str:
    """Hash of the package's source. All runs of a table should share it; the page reports if they don't."""
    package = Path(__file__).parents[1]
    return fingerprint({str(path.relative_to(package)): sha256(path) for path in sorted(package.rglob("*.py"))})


def machine(device: torch.device, threads: int) -> dict[str, Any]:
    import faiss  # imported late: embedding jobs don't need it

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": device.type,
        "device_name": name,
        "threads": threads,
        "cpu_threads": torch.get_num_threads(),
        "versions": {
            "recheck": code_hash()[:12],
            "python": platform.python_version(),
            "faiss": faiss.__version__,
            **{package: version(package) for package in PACKAGES},
        },
    }
