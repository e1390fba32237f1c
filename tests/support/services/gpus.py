"""Simulated GPUs: an `nvidia-smi`, first on the PATH, that lists them. Nothing else is simulated."""

import os
import tempfile
from pathlib import Path

from support.project import Project


def pretend_gpus(monkeypatch, folder: Path, *lines: str, driver: str | None = None) -> None:
    """List these lines in `nvidia-smi -L`. Locks go into the folder too, so that tests do not share them."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    listing = program.with_name("listing")
    listing.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    program.write_text(
        f"""#!/bin/sh
        case "$1" in
          -L) cat '{listing}';;
          --query-gpu=driver_version) {f"echo {driver}" if driver else "exit 9"};;
          *) exit 1;;
        esac
        """,
        encoding="utf-8",
    )
    program.chmod(0o755)
    locks = folder / "locks"
    locks.mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(locks))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "")  # so that it is restored, although a job changes it
        monkeypatch.delenv(name)


def compute_on_the_cpu(project: Project) -> None:
    """Let the jobs of a project reserve GPUs that are only simulated, and compute on the CPU."""
    project.edit(
        "workflow/scripts/recheck/training/device.py", "    known = facts()\n", '    return torch.device("cpu")\n'
    )


def listed(*uuids: str) -> list[str]:
    return [f"GPU {number}: NVIDIA A100-SXM4-40GB (UUID: {uuid})" for number, uuid in enumerate(uuids)]
