"""The target `doctor` through the command line, on a machine with faults."""

import re

from support.project import PACKAGE
from support.services.gpus import listed, pretend_gpus
from support.suite.hang import HANG_SECONDS


def test_a_machine_with_faults(fresh, tmp_path, monkeypatch, closed):
    """A GPU with an old driver, a SLURM without the profile's partitions, and no network."""
    pretend_gpus(monkeypatch, tmp_path, *listed("GPU-aaaa"), driver="470.82.01")
    for name, limit in (("slurm", "SECONDS = 20"), ("devices", "SECONDS = 300")):
        fresh.edit(f"{PACKAGE}doctor/{name}.py", limit, f"SECONDS = {HANG_SECONDS}")
    sinfo = tmp_path / "bin" / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'cpu*|up|infinite|(null)'\n", encoding="utf-8")
    sinfo.chmod(0o755)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, closed)
        monkeypatch.setenv(name.upper(), closed)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    output = fresh.fail("--cores", "1", "doctor")
    lines = [line.split(maxsplit=1) for line in output.splitlines()]
    states = {rest[0].partition("  ")[0]: state for state, *rest in filter(None, lines) if rest}
    assert states["Python"] == "ok"
    assert "disk: results" in states
    assert re.search(r"shared memory +[\d,]+ MB free in", output), "a run with a GPU has loader processes"
    assert states["SLURM: cpu"] == "ok"
    assert states["SLURM: gpu"] == "problem"
    assert states["network"] == "note"
    assert states["GPU 0"] == "problem"
    assert "The NVIDIA driver 470.82.01 is too old for CUDA" in output
    assert re.search(
        r"of these checks found a problem that would stop a run: .*\bSLURM: gpu, GPU 0\. Follow the advice above",
        output,
    )
    assert "GPU-aaaa" in fresh.read("logs/doctor.log")
    assert not fresh.path("results").exists()
