"""The checks of the target `doctor`, each with the fault that it is for."""

import errno
import os
import socket
import types
from pathlib import Path

import pytest
import torch

from recheck.doctor import devices, disks, network, slurm, system
from recheck.doctor.finding import Finding, note, ok, problem
from recheck.doctor.trial import tried
from support.project import ROOT
from support.project.runs import CONFIGURATION
from support.suite.hang import HANG_SECONDS

SUBMITTED = {
    "profile": "mine",
    "unknown": [],
    "file": "",
    "rules": {
        "pack": {"partitions": ["cpu"], "runtime": 720},
        "train": {"partitions": ["gpu"], "gpu": 1, "runtime": 1440},
        "embed": {"partitions": ["gpu", "old"], "gres": "gpu:1"},
    },
}


def states(findings):
    return [(finding.state, finding.name) for finding in findings]


def filesystem(monkeypatch, free, files=10**6):
    about = types.SimpleNamespace(f_bavail=free, f_frsize=1, f_files=files and 10**9, f_favail=files)
    monkeypatch.setattr(os, "statvfs", lambda path: about)


def test_a_finding_is_a_line_and_what_to_do():
    assert list(ok("disk", "20 GB free").lines()) == ["ok       disk             20 GB free"]
    line, remedy = problem("disk", "full", "free some space").lines()
    assert line == "problem  disk             full"
    assert remedy.strip() == "→ free some space"


@pytest.mark.parametrize(
    ("free", "files", "state"),
    [(5e8, 10**6, "problem"), (5e9, 10**6, "note"), (5e10, 10**6, "ok"), (5e10, 100, "problem"), (5e10, 0, "ok")],
)
def test_space(monkeypatch, tmp_path, free, files, state):
    """File systems that do not count files report 0."""
    filesystem(monkeypatch, free, files)
    assert disks.space("disk", tmp_path).state == state


def test_speed_of_a_folder_that_works_and_of_one_that_does_not(monkeypatch, tmp_path):
    finding = disks.speed("speed", tmp_path)
    assert "MB/s" in finding.text and finding.state in ("ok", "note")
    assert list(tmp_path.iterdir()) == []
    refused = disks.speed("speed", Path("/proc"))
    assert refused.state == "problem" and "cannot be written to /proc" in refused.text
    assert refused.remedy.startswith("make /proc writable, or choose other folders: --config")

    def full(file):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in disks.speed("speed", tmp_path).text
    assert list(tmp_path.iterdir()) == []


def test_slow_disks_and_disks_that_lie(monkeypatch, tmp_path):
    monkeypatch.setattr(disks, "SLOW_READ", 1e12)
    assert disks.speed("speed", tmp_path).state == "note"
    monkeypatch.setattr(os, "pread", lambda file, count, place: bytes(count))
    assert disks.speed("speed", tmp_path).state == "problem"


def test_folders_of_one_disk_are_measured_once(tmp_path):
    findings = list(disks.folders({"results": tmp_path / "not" / "yet", "resources": tmp_path}))
    assert [finding.name for finding in findings] == ["disk: results", "speed: results", "disk: resources"]


def test_shared_memory(monkeypatch):
    filesystem(monkeypatch, 64e6)
    assert system.shared_memory(1, 0).state == "ok"
    finding = system.shared_memory(2, 7)
    assert finding.state == "problem"
    assert "64 MB free" in finding.text and "need 1,080 MB" in finding.text and "--shm-size" in finding.remedy
    filesystem(monkeypatch, 2e9)
    assert system.shared_memory(2, 7).state == "ok"


@pytest.mark.parametrize(("limit", "state"), [(64, "problem"), (512, "note"), (1024, "ok"), (-1, "ok")])
def test_open_files(monkeypatch, limit, state):
    monkeypatch.setattr(system.resource, "getrlimit", lambda kind: (limit, limit))
    assert system.open_files().state == state


def test_packages(tmp_path):
    assert states(system.python(ROOT / "requirements.txt"))[0] == ("ok", "Python")
    pins = tmp_path / "requirements.txt"
    pins.write_text("numpy==0.1 \\\n    --hash=sha256:00\nno-such-package==1\npytest==1 ; a\npytest==2 ; b\n")
    *_, finding = system.python(pins)
    assert finding.state == "note"
    assert finding.text.startswith("numpy ") and finding.text.endswith(" instead of 0.1")


def partitions(monkeypatch, tmp_path, sinfo, **changes):
    monkeypatch.setattr(slurm, "SECONDS", HANG_SECONDS)
    programs = tmp_path / "bin"
    programs.mkdir()
    if sinfo is not None:
        (programs / "sinfo").write_text(f"#!/bin/sh\n{sinfo}\n", encoding="utf-8")
        (programs / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin" if sinfo else str(programs))
    return list(slurm.partitions({**SUBMITTED, **changes}, {"train": 30, "embed": 25}))


def test_no_slurm(monkeypatch, tmp_path):
    assert states(partitions(monkeypatch, tmp_path, None)) == [("ok", "SLURM")]


def test_slurm_that_does_not_answer(monkeypatch, tmp_path):
    (finding,) = partitions(monkeypatch, tmp_path, "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert finding.state == "note" and "Unable to contact slurm controller" in finding.text


def test_a_profile_that_cannot_be_used(monkeypatch, tmp_path):
    (finding,) = partitions(monkeypatch, tmp_path, "true", error="the profile cannot be read (why)")
    assert (finding.state, finding.text) == ("problem", "the profile cannot be read (why)")


def test_no_profile(monkeypatch, tmp_path):
    (finding,) = partitions(monkeypatch, tmp_path, "true", profile="")
    assert finding.state == "note" and "--profile" in finding.remedy


def test_partitions_that_fit(monkeypatch, tmp_path):
    lines = "echo 'cpu*|up|infinite|(null)'; echo 'gpu|up|2-00:00:00|(null)'; echo 'gpu|up|2-00:00:00|gpu:a100:4'"
    findings = partitions(monkeypatch, tmp_path, f"{lines}; echo 'old|up|1:00:00|gpu:1'")
    assert states(findings) == [("ok", "SLURM: cpu"), ("ok", "SLURM: gpu"), ("ok", "SLURM: old")]
    assert findings[1].text == "up; used by train, embed"


def test_partitions_that_do_not_fit(monkeypatch, tmp_path):
    findings = partitions(monkeypatch, tmp_path, "echo 'cpu|down|1:00|(null)'; echo 'gpu|up|12:00:00|(null)'")
    texts = [f"{finding.name}: {finding.text}" for finding in findings if finding.state == "problem"]
    assert texts == [
        "SLURM: cpu: the partition is down, and pack would wait",
        "SLURM: gpu: the partition has no GPU, but these jobs ask for one: train, embed",
        "SLURM: gpu: the partition allows 720 minutes, but these jobs ask for more: train 1,440",
        "SLURM: old: no such partition for embed; known: cpu, gpu",
    ]


def test_limits_of_rows_count_where_the_profile_sets_none(monkeypatch, tmp_path):
    lines = "echo 'cpu|up|1:00:00|(null)'; echo 'gpu|up|20:00|gpu:1'; echo 'old|up|1:00:00|gpu:1'"
    findings = [finding for finding in partitions(monkeypatch, tmp_path, lines) if finding.remedy]
    assert [f"{each.name}: {each.text}" for each in findings] == [
        "SLURM: cpu: the partition allows 60 minutes, but these jobs ask for more: pack 720",
        "SLURM: gpu: the partition allows 20 minutes, but these jobs ask for more: train 1,440, embed 25",
    ]
    assert ["resumes" in each.remedy for each in findings] == [False, True]


@pytest.mark.parametrize(
    ("lines", "changes", "finding"),
    [
        ("echo 'all*|up|infinite|gpu:1'", {}, ("ok", "SLURM: all", "up; used by pack")),
        ("echo 'all|up|infinite|gpu:1'", {}, ("problem", "SLURM", "no partition for pack, and the cluster has no")),
        ("echo 'all*|up|infinite|gpu:1'", {"file": "p.yaml"}, ("note", "SLURM", "the partition of pack was not check")),
        ("true", {"rules": {}, "unknown": ["pack"]}, ("note", "SLURM", "the partition of pack depends on the job")),
    ],
)
def test_jobs_without_a_known_partition(monkeypatch, tmp_path, lines, changes, finding):
    rules = {"pack": {"partitions": [None]}}
    (actual,) = partitions(monkeypatch, tmp_path, lines, **({"rules": rules} | changes))
    assert (actual.state, actual.name) == finding[:2] and actual.text.startswith(finding[2])


def test_hosts_of_the_shipped_datasets_and_weights(monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    addresses = network.hosts(sorted((ROOT / "config").glob("*s/*.yaml")))
    assert {"npm", "Google Drive", "Hugging Face", "data.caltech.edu", "download.pytorch.org"} <= addresses.keys()
    assert addresses["Hugging Face"] == "https://huggingface.co/"
    assert addresses["ftp.cs.stanford.edu"] == "http://ftp.cs.stanford.edu/"


def test_hosts_that_answer_and_refuse(server, closed):
    findings = list(network.answers({"good": f"{server.url}/", "closed": f"{closed}/"}, HANG_SECONDS))
    assert [finding.state for finding in findings] == ["ok", "note"]
    assert findings[0].text == "reached good"
    assert "not reached: closed (" in findings[1].text and "refused" in findings[1].text


def test_a_host_that_keeps_silent():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        (finding,) = network.answers({"silent": f"http://127.0.0.1:{silent.getsockname()[1]}/"}, 0.1)
    assert finding.state == "note" and "not reached: silent (" in finding.text


def test_offline_is_one_line_per_reason(closed, monkeypatch):
    monkeypatch.setenv("PATH", "")
    offline, npm = network.answers({"first": f"{closed}/", "npm": "", "other": f"{closed}/"}, HANG_SECONDS)
    assert offline.state == "note" and "first, other" in offline.text and "resources/drop" in offline.remedy
    assert npm.state == "note" and "'npm' was not found" in npm.text


def test_a_step_and_a_search_on_the_cpu():
    result = tried({"configuration": CONFIGURATION, "resize": {"exact": [32, 32]}, "threads": 1, "device": "cpu"})
    assert result.pop("step") > 0 and result.pop("search") > 0
    assert result.pop("cuda") == torch.version.cuda
    assert result == {"name": "CPU", "device": "cpu", "searched_on": "cpu", "agrees": True}


def test_results_of_a_trial():
    good = {"name": "NVIDIA A100", "device": "cuda", "cuda": "13.0", "step": 1.0, "search": 0.1}
    agrees = {**good, "searched_on": "cuda", "agrees": True}
    assert devices._finding("GPU 0", agrees, "row") == ok(
        "GPU 0",
        "NVIDIA A100 with CUDA 13.0: one step and evaluation of 'row' in 1.0 s, one search in 0.10 s",
    )
    assert devices._finding("GPU 0", {**agrees, "agrees": False}, "row").state == "problem"
    on_cpu = devices._finding("GPU 0", {**agrees, "searched_on": "cpu"}, "row")
    assert isinstance(on_cpu, Finding) and on_cpu.state == note("", "", "").state
    failed = devices._finding("GPU 0", {"error": "The driver is too old: install a newer one."}, "row")
    assert failed == problem("GPU 0", "The driver is too old", "install a newer one.")


@pytest.mark.parametrize(
    ("error", "text", "remedy"),
    [
        ("The GPU failed (CUDA error: no image): check it.", "The GPU failed (CUDA error: no image)", "check it."),
        ("'precision: float64' is not possible: use float32.", "'precision: float64' is not possible", "use float32."),
        ("the training step failed (KeyError: 'x')", "the training step failed (KeyError: 'x')", devices.ON_CPU),
        ("failed (f(x): y) at once: wait.", "failed (f(x): y) at once: wait.", devices.ON_CPU),
    ],
)
def test_advice_is_behind_the_first_colon_outside_quotes_and_brackets(error, text, remedy):
    assert devices._finding("GPU 0", {"error": error}, "row") == problem("GPU 0", text, remedy)


def test_no_gpu_although_the_config_asks_for_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (finding,) = devices.devices("cuda", {}, "row")
    assert finding.state == "problem" and "no GPU is visible" in finding.text and "device=cpu" in finding.remedy
