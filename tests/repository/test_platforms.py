"""The pinned packages exist for Linux and macOS, on x86-64 and ARM."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.project import ROOT
from support.suite.hang import HANG_SECONDS
from support.suite.unavailable import unavailable

# What exists only on Linux, or works only there without doubt → what happens elsewhere (docs/platforms.md)
LINUX = re.compile(r"""/proc/|/dev/shm|sched_|pidfd|prctl|RLIMIT_AS|ru_maxrss|["']fork["']""")
ELSEWHERE = {
    "circumstances.py": "only a hint in a message",
    "data/isolated.py": "forks; memory is not limited",
    "data/parallel.py": "forks",
    "doctor/system.py": "not limited by such a folder",
    "training/gpus.py": "nvidia-smi is asked first, and a Mac has no NVIDIA GPU",
    "training/loading.py": "forks if `workers` asks for it; none by default on a Mac",
    "training/record.py": "the processor's name comes from sysctl",
}
UV = Path(sys.executable).with_name("uv")
# PyTorch needs macOS 14. CUDA's packages are for x86-64 and ARM servers alike.
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_pinned_packages_can_be_installed(platform, tmp_path):
    """uv resolves requirements.txt, from the registry's lists of files; nothing is downloaded or built."""
    command = [str(UV), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", "3.11"]
    command += ["--python-platform", platform, "requirements.txt", "-o", str(tmp_path / "resolved.txt")]
    environment = os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0", "UV_HTTP_TIMEOUT": str(HANG_SECONDS)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if "error sending request" in done.stderr:
        unavailable("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr
    packages = set(re.findall(r"^([a-z0-9-]+)==", (tmp_path / "resolved.txt").read_text(encoding="utf-8"), re.M))
    assert {"torch", "snakemake", "timm"} <= packages
    with_cuda = platform.startswith("x86_64")
    assert ("faiss-gpu" if with_cuda else "faiss-cpu") in packages
    assert not packages & ({"faiss-cpu"} if with_cuda else {"faiss-gpu"})
    assert any(name.startswith("nvidia-") for name in packages) is not platform.endswith("darwin")


def test_code_for_linux_only_is_known():
    package = ROOT / "workflow/scripts/recheck"
    names = {str(path.relative_to(package)) for path in package.rglob("*.py") if LINUX.search(path.read_text("utf-8"))}
    assert names == set(ELSEWHERE)
