"""Inputs that disappear, clocks that jump, a second Snakemake: on the command line and inside a job."""

import errno
import os
import signal
import socket
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from recheck import retries
from recheck.data import download
from recheck.errors import UserError
from recheck.job import job, warn_once
from support.faults.kills import content, differences
from support.project import Project
from support.suite.hang import wait_until

YEAR = 365 * 24 * 3600
PAUSE = """\
    Path("begun").touch()
    while not Path("go").exists():
        __import__("time").sleep(0.01)
"""


def pretend(tmp_path):
    wildcards = SimpleNamespace(study="letters", dataset="glyphs", method="triplet")
    log = [str(tmp_path / "logs" / "a.log")]
    return SimpleNamespace(log=log, wildcards=wildcards, input=[], output=[])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "results/split.json"),
            "results/split.json has disappeared: run the same command again to recreate it.",
        ),
        (
            OSError(errno.EIO, "Input/output error", "images.csv"),
            "The disk of images.csv failed (Input/output error): ",
        ),
        (
            OSError(errno.ENOSPC, "No space left", "a.csv"),
            "No space left on the disk of a.csv: free some space and run",
        ),
        (OSError(errno.EMFILE, "Too many open files"), "Too many files are open: raise the limit (`ulimit -n 4096`)"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "The network failed ("),
        (socket.gaierror(-2, "Name or service not known"), "check the internet connection or the proxy, and run"),
        (urllib.error.URLError("timed out"), "The network failed (<urlopen error timed out>): check the internet"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."), "The GPU has too little memory (CUDA"),
        (RuntimeError("CUDA error: device-side assert triggered"), "The GPU failed (CUDA error: device-side assert"),
        (MemoryError(), "The machine has too little memory (MemoryError): run fewer jobs at once"),
        (
            RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that"),
            "add `--config workers=0`, or more memory",
        ),
        (OSError("of a library"), "a file: of a library. Check its disk and its permissions"),
        (UserError("One sentence."), "One sentence."),
        (ValueError("x"), "Unexpected ValueError: x (this is a bug in Recheck: please report it; the traceback is in"),
    ],
)
def test_a_failed_job_ends_with_one_line(tmp_path, capsys, error, sentence):
    with pytest.raises(SystemExit) as ended, job(pretend(tmp_path)):
        raise error
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert sentence in said
    assert "Traceback" not in said
    corrected_by_the_user = isinstance(error, (UserError, torch.OutOfMemoryError))
    assert retries.failed_for_good([tmp_path / "logs" / "a.log"], since=0) is corrected_by_the_user
    assert "Traceback" in (tmp_path / "logs" / "a.log").read_text()


def test_inputs_dated_in_the_future_are_reset_to_now(tmp_path, capsys, monkeypatch):
    """Otherwise Snakemake would delete the job's outputs, because they are older than the inputs."""
    here, past = pretend(tmp_path), time.time() - YEAR
    for name, moment in (("future", time.time() + YEAR), ("past", past)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))
        here.input.append(str(tmp_path / name))
    here.input.append("gone")
    with job(here):
        assert (tmp_path / "future").stat().st_mtime <= time.time()
        assert (tmp_path / "past").stat().st_mtime == pytest.approx(past)
    assert "future has a modification time in the future (2" in (warning := capsys.readouterr().err)
    assert "so some clock is wrong. Its time was reset to now." in warning
    os.utime(tmp_path / "future", (time.time() + YEAR, time.time() + YEAR))
    monkeypatch.setattr(os, "utime", refuse)
    with pytest.raises(SystemExit), job(here):
        pytest.fail("the job must not begin")
    assert "future has a modification time in the future (2" in (error := capsys.readouterr().err)
    assert "so Snakemake would delete this job's outputs as outdated: correct the clock, or touch the file." in error


def refuse(path):
    raise PermissionError(errno.EPERM, "Operation not permitted", str(path))


@pytest.mark.parametrize("jump", [-10 * YEAR, 10 * YEAR])
def test_a_wrong_clock_does_not_prolong_retry_after(monkeypatch, jump):
    """Retry-After may be a date, which is in the past or years away if the clock is wrong."""
    real, waits = time.time, []
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    monkeypatch.setattr(time, "sleep", waits.append)
    attempts = iter([download.TryAgain("busy", after=download._seconds("Wed, 21 Oct 2026 07:28:00 GMT")), None])

    def attempt():
        if error := next(attempts):
            raise error

    download.persist(attempt, lambda: 0, "file", download.Watch(download.Patience(waits=(0.5,), longest=300)))
    assert len(waits) == 1 and 0.5 <= waits[0] <= 300


def test_vanished_inputs_a_jumping_clock_and_a_second_snakemake(quiet, tmp_path):
    """Some files of a finished tree are missing, others are dated next year or decades ago; everything that depends on
    them is recreated with the same content. Meanwhile a second Snakemake is refused without a traceback."""
    project = Project(quiet.folder).copy(tmp_path / "project")
    now = time.time()
    for path in [*project.folder.glob("results/letters/**/*"), project.path("resources/datasets/glyphs/images.csv")]:
        if path.name in ("embeddings.safetensors", "separated.json", "concatenated.json", "table.md", "index.html"):
            path.unlink()
        elif path.name in ("split.json", "images.csv"):
            os.utime(path, (now + YEAR, now + YEAR))
        elif path.name == "model.safetensors":
            os.utime(path, (now - 30 * YEAR, now - 30 * YEAR))
    (project.path("resources/datasets/glyphs/packed/exact96x96/pixels.bin")).unlink()
    project.edit("workflow/scripts/pack.py", "with job(snakemake):\n", f"with job(snakemake):\n{PAUSE}")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(project.succeed, "--cores", "2")
        try:
            assert wait_until(lambda: first.done() or project.path("begun").exists())
            output = project.fail("--cores", "1")  # the first holds its locks however slow the second is
        finally:
            project.write("go", "")
        first.result()
    assert "cannot be locked" in output and "Traceback" not in output
    assert differences(content(project), quiet.content) == []


def test_a_signal_ends_a_job_at_once_and_is_not_a_failure(tmp_path, capsys):
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as when a job starts
    try:
        with pytest.raises(SystemExit) as ended, job(pretend(tmp_path)):
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("the job went on")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 128 + signal.SIGTERM
    assert "Stopped by SIGTERM: run the same command again to resume." in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.failed"))


def test_every_job_logs_a_warning_that_the_terminal_shows_once(tmp_path, capsys):
    for number in (0, 1):
        here = pretend(tmp_path)
        here.log = [str(tmp_path / "logs" / f"{number}.log")]
        with job(here):
            warn_once(tmp_path / "warned", "3 of 9 images are small.")
        assert "3 of 9 images are small." in (tmp_path / "logs" / f"{number}.log").read_text()
    assert capsys.readouterr().err.count("3 of 9 images are small.") == 1
