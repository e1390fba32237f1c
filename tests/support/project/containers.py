"""Dockerfile and apptainer.def, as `snakemake --containerize` writes them from the conda environments."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FILES = {"dockerfile": "Dockerfile", "apptainer": "apptainer.def"}
# conda-forge's CUDA build of PyTorch can otherwise be installed only where a GPU is (docs/conda.md).
CUDA = "CONDA_OVERRIDE_CUDA=13.0"
ADDED = {
    "dockerfile": ('LABEL io.github.snakemake.containerized="true"\n', f"ENV {CUDA}\n"),
    "apptainer": ("%post\n", f"    export {CUDA}\n"),
}
# Snakemake asks conda for its version and platform. Only environments with lists of exact builds depend on them.
CONDA = """#!/bin/sh
case "$1" in
  info) echo '{"conda_prefix": "/", "platform": "linux-64"}' ;;
  config) echo '{"get": {"channel_priority": "strict"}}' ;;
  *) echo 'conda 26.1.0' ;;
esac
"""


def containerized(kind: str, folder: Path = ROOT) -> str:
    """The text of the Dockerfile or of apptainer.def, for the project in a folder."""
    with tempfile.TemporaryDirectory() as programs:
        conda = Path(programs, "conda")
        conda.write_text(CONDA, encoding="utf-8")
        conda.chmod(0o755)
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        command = [str(Path(sys.executable).with_name("snakemake")), "--containerize", kind]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    place, line = ADDED[kind]
    before, matched, after = done.stdout.partition(place)
    if not matched:
        raise RuntimeError(f"Snakemake's {kind} has no line '{place.strip()}'.")
    return before + (line + matched if kind == "dockerfile" else matched + line) + after


if __name__ == "__main__":
    for kind, name in FILES.items():
        (ROOT / name).write_text(containerized(kind), encoding="utf-8")
