"""Every job has a GPU of its own: real processes, real locks, real kills; only the list of GPUs is made up."""

import os
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from gpus import listed, pretend_gpus

from recheck.errors import UserError
from recheck.training import gpus

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
# takes a GPU, says which, and keeps it until it is told to end
JOB = """
import logging, os, sys
from recheck.training.gpus import take_gpu
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
taken = take_gpu(sys.argv[1])
print(taken, os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
sys.stdin.readline()
"""
MIG = [
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a0)",
    "  MIG 3g.20gb     Device  0: (UUID: MIG-1111-aa)",
    "  MIG 3g.20gb     Device  1: (UUID: MIG-2222-bb)",
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b1)",
]


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    return lambda *lines: pretend_gpus(monkeypatch, tmp_path, *lines)


@pytest.fixture
def start():
    """Jobs that are ended with the test."""
    started = []

    def begin(name="job", code=JOB):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), name],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def taken_by(process):
    """The GPU that a job says it has, which must be all that CUDA would see."""
    name, visible = process.stdout.readline().split()
    assert name == visible
    return name


def finish(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ["GPU-aa11", "GPU-aa22", "GPU-cc33"]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("2,0", ["GPU-cc33", "GPU-aa11"]),
        (" 1 , 2 ", ["GPU-aa22", "GPU-cc33"]),
        ("0,-1,2", ["GPU-aa11"]),  # as CUDA does: what follows an unknown device does not count
        ("0,7,2", ["GPU-aa11"]),
        ("7", []),
        ("1,1", ["GPU-aa22"]),
        ("GPU-cc33,GPU-aa11", ["GPU-cc33", "GPU-aa11"]),
        ("GPU-cc", ["GPU-cc33"]),  # CUDA takes the beginning of a UUID
        ("GPU-aa", []),  # of one only
        ("GPU-dd44", []),
        ("NoDevFiles", []),
    ],
)
def test_only_visible_gpus_are_candidates_in_their_order(pretend, monkeypatch, named, expected):
    pretend(*listed("GPU-aa11", "GPU-aa22", "GPU-cc33"))
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus.visible_gpus() == expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ["MIG-1111-aa", "MIG-2222-bb", "GPU-b1"]),
        ("MIG-2222-bb", ["MIG-2222-bb"]),
        ("MIG-2222-bb,MIG-1111-aa", ["MIG-2222-bb", "MIG-1111-aa"]),
        ("MIG-GPU-a0/1/0", ["MIG-GPU-a0/1/0"]),  # how older drivers name them
        ("1,0", ["GPU-b1", "MIG-1111-aa", "MIG-2222-bb"]),
        ("GPU-b1", ["GPU-b1"]),
    ],
)
def test_mig_instances_are_devices(pretend, monkeypatch, named, expected):
    pretend(*MIG)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus.visible_gpus() == expected


def test_without_a_list_the_names_are_taken_as_they_are(pretend, monkeypatch):
    pretend("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert gpus.visible_gpus() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 1")
    assert gpus.visible_gpus() == ["3", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus.visible_gpus() == []


def test_without_a_gpu_nothing_is_taken(pretend, monkeypatch, tmp_path):
    pretend()
    assert gpus.take_gpu("job") is None
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert not list((tmp_path / "locks").iterdir())


def test_slurm_has_chosen_already(pretend, monkeypatch, tmp_path):
    pretend(*listed("GPU-a", "GPU-b"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpus.take_gpu("job") is None
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert not list((tmp_path / "locks").iterdir())


def test_several_gpus_of_one_slurm_job_are_shared_out(pretend, monkeypatch, start):
    pretend(*listed("GPU-a", "GPU-b"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert {taken_by(start()), taken_by(start())} == {"GPU-a", "GPU-b"}


def test_numbers_of_different_slurm_jobs_are_different_gpus(pretend, monkeypatch, start):
    pretend()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert taken_by(start()) == "0"
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert taken_by(start()) == "0"


def test_jobs_at_once_have_different_gpus_and_the_next_waits(pretend, start):
    pretend(*listed("GPU-a", "GPU-b"))
    jobs = [start("first"), start("second")]
    names = [taken_by(job) for job in jobs]
    assert set(names) == {"GPU-a", "GPU-b"}
    third = start("third")
    said = third.stderr.readline()
    assert "All 2 GPUs are taken" in said and "third waits" in said and "--resources gpu=2" in said
    for job, name in zip(jobs, ("first", "second"), strict=True):
        assert f"process {job.pid}: {name}" in said
    assert third.poll() is None
    finish(jobs[1])
    assert taken_by(third) == names[1]
    finish(third)


def test_a_killed_job_leaves_its_gpu_to_the_next(pretend, start):
    pretend(*listed("GPU-a"))
    first = start("first")
    assert taken_by(first) == "GPU-a"
    second = start("second")
    assert "waits" in second.stderr.readline()
    os.kill(first.pid, signal.SIGKILL)
    assert taken_by(second) == "GPU-a"


def test_what_a_dead_process_wrote_locks_nothing(pretend, start, tmp_path):
    pretend(*listed("GPU-a"))
    first = start("first")
    taken_by(first)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    (file,) = (tmp_path / "locks").rglob("GPU-a")
    assert file.read_text() == f"process {first.pid}: first\n"
    second = start("second")
    assert taken_by(second) == "GPU-a"
    assert file.read_text() == f"process {second.pid}: second\n"


def test_a_loader_worker_that_outlives_its_job_does_not_keep_the_gpu(pretend, start):
    pretend(*listed("GPU-a"))
    forking = JOB.replace("sys.stdin.readline()", "os.fork() or os.close(1)\nimport time\ntime.sleep(60)")
    first = start("first", forking)
    assert taken_by(first) == "GPU-a"
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    while not (alive := [int(child) for child in children.read_text().split()]):
        pass
    try:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        os.kill(alive[0], 0)
        second = start("second")
        assert taken_by(second) == "GPU-a"
        os.kill(alive[0], 0)
    finally:
        os.kill(alive[0], signal.SIGKILL)


def test_a_waiting_job_can_be_stopped(pretend, start):
    pretend(*listed("GPU-a"))
    taken_by(start("first"))
    second = start("second")
    assert "waits" in second.stderr.readline()
    second.terminate()
    assert second.wait(timeout=30) == -signal.SIGTERM


def test_two_orders_of_the_same_gpus_agree(pretend, monkeypatch, start):
    pretend(*listed("GPU-a", "GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert taken_by(start()) == "GPU-b"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-a")
    assert taken_by(start()) == "GPU-a"


def test_many_jobs_never_share(pretend, start):
    """Each job notes when it had its GPU: no two intervals on one GPU overlap."""
    pretend(*listed("GPU-a", "GPU-b", "GPU-c"))
    code = """
    import sys, time
    from recheck.training import gpus
    gpus.POLL_SECONDS = 0.01
    taken = gpus.take_gpu(sys.argv[1])
    started = time.monotonic()
    time.sleep(0.1)
    print(taken, started, time.monotonic(), flush=True)
    """
    jobs = [start(f"job {number}", code) for number in range(9)]
    rows = [job.communicate(timeout=60)[0].split() for job in jobs]
    assert {row[0] for row in rows} == {"GPU-a", "GPU-b", "GPU-c"}
    for gpu in ("GPU-a", "GPU-b", "GPU-c"):
        times = sorted((float(begin), float(end)) for name, begin, end in rows if name == gpu)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_a_folder_of_someone_else_is_refused(pretend, tmp_path):
    pretend(*listed("GPU-a"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks" / f"recheck-gpus-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="not a folder of yours"):
        gpus.take_gpu("job")


def test_nothing_that_a_run_imports_asks_cuda_first(start):
    """CUDA reads CUDA_VISIBLE_DEVICES once, so no import may ask it anything before a GPU is taken."""
    imports = {
        line
        for script in ("train.py", "embed.py")
        for line in (SCRIPTS / script).read_text(encoding="utf-8").splitlines()
        if line.startswith(("import ", "from "))
    }
    spy = """
    import torch
    def asked(*args, **kwargs): raise SystemExit("CUDA was asked")
    for name in ("_cuda_getDeviceCount", "_cuda_init"):
        if hasattr(torch._C, name): setattr(torch._C, name, asked)
    assert hasattr(torch._C, "_cuda_getDeviceCount")
    import faiss
    faiss.get_num_gpus = asked
    """
    process = start("spy", "\n".join([textwrap.dedent(spy), *sorted(imports), "print('nothing asked')"]))
    output, errors = process.communicate(timeout=120)
    assert output.strip() == "nothing asked", errors
