"""run.json: all that is needed to trace a digit of a table back to how it was made."""

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
    """What the run saw: its split, and the packed pixels."""
    return {"split": sha256(split), "pixels": read_about(pack)["sha256"]}


def run_fingerprint(configuration: dict[str, Any], seed: int, fold: int, data: dict[str, str]) -> str:
    """Two runs with the same fingerprint are the same computation (on the same hardware and versions)."""
    own = {path: sha256(path) for path in own_files(configuration)}
    return fingerprint({"configuration": configuration, "seed": seed, "fold": fold, "data": data, "own_files": own})


def code_hash() -> str:
    """The package as it is: runs of one table should agree on it, and the page says if they don't."""
    package = Path(__file__).parents[1]
    return fingerprint({str(path.relative_to(package)): sha256(path) for path in sorted(package.rglob("*.py"))})


def machine(device: torch.device, threads: int) -> dict[str, Any]:
    import faiss  # only for its version: those who embed do without

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
