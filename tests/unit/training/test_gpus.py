"""Every job reserves one GPU: real processes, locks and kills; only the list of GPUs is simulated."""

import os
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from recheck.errors import UserError
from recheck.training import gpus
from support.faults.crashes import forked
from support.project import SCRIPTS
from support.services.gpus import listed, pretend_gpus
from support.suite.hang import HANG_SECONDS, wait_until

pytestmark = pytest.mark.slow

# Takes a GPU, prints its name, and keeps it until told to end.
JOB = """
import logging, os, sys
from recheck.training.gpus import take_gpu
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
taken = take_gpu(sys.argv[1], int(sys.argv[2]))
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
    """Start jobs that end with the test."""
    started = []

    def begin(name="job", code=JOB, share=1):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), name, str(share)],
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
    """GPU that a job reports; it must be the only one visible to CUDA."""
    name, visible = process.stdout.readline().split()
    assert name == visible
    return name


def finish(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait(timeout=HANG_SECONDS) == 0


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ["GPU-aa11", "GPU-aa22", "GPU-cc33"]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("2,0", ["GPU-cc33", "GPU-aa11"]),
        (" 1 , 2 ", ["GPU-aa22", "GPU-cc33"]),
        ("0,-1,2", ["GPU-aa11"]),  # like CUDA: devices after an unknown one are ignored
        ("0,7,2", ["GPU-aa11"]),
        ("7", []),
        ("1,1", ["GPU-aa22"]),
        ("GPU-cc33,GPU-aa11", ["GPU-cc33", "GPU-aa11"]),
        ("GPU-cc", ["GPU-cc33"]),  # CUDA accepts a prefix of a UUID
        ("GPU-aa", []),  # but only an unambiguous one
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
        ("MIG-GPU-a0/1/0", ["MIG-GPU-a0/1/0"]),  # names of older drivers
        ("1,0", ["GPU-b1", "MIG-1111-aa", "MIG-2222-bb"]),
        ("GPU-b1", ["GPU-b1"]),
    ],
)
def test_mig_instances_are_devices(pretend, monkeypatch, named, expected):
    pretend(*MIG)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus.visible_gpus() == expected


def test_names_are_trusted_if_gpus_cannot_be_listed(pretend, monkeypatch):
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


def test_the_only_gpu_of_a_slurm_job_is_not_locked(pretend, monkeypatch, tmp_path):
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


def test_parallel_jobs_get_different_gpus_and_the_next_one_waits(pretend, start):
    pretend(*listed("GPU-a", "GPU-b"))
    jobs = [start("first"), start("second")]
    names = [taken_by(job) for job in jobs]
    assert set(names) == {"GPU-a", "GPU-b"}
    third = start("third")
    said = third.stderr.readline()
    assert "All 2 GPUs are taken" in said and "'third' is waiting" in said and "--resources gpu=2" in said
    for job, name in zip(jobs, ("first", "second"), strict=True):
        assert f"process {job.pid}: {name}" in said
    assert third.poll() is None
    finish(jobs[1])
    assert taken_by(third) == names[1]
    finish(third)


def test_a_killed_job_frees_its_gpu(pretend, start):
    pretend(*listed("GPU-a"))
    first = start("first")
    assert taken_by(first) == "GPU-a"
    second = start("second")
    assert "is waiting" in second.stderr.readline()
    os.kill(first.pid, signal.SIGKILL)
    assert taken_by(second) == "GPU-a"


def test_the_file_of_a_dead_process_does_not_lock_its_gpu(pretend, start, tmp_path):
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
    forking = JOB.replace("sys.stdin.readline()", "os.fork() or os.close(1)\nimport time\ntime.sleep(3600)")
    first = start("first", forking)
    assert taken_by(first) == "GPU-a"
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    assert wait_until(children.read_text)
    worker = int(children.read_text())
    try:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        os.kill(worker, 0)
        second = start("second")
        assert taken_by(second) == "GPU-a"
        os.kill(worker, 0)
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_child_of_a_child_keeps_its_own_files(pretend):
    """A child closes the locks, so its files may get their descriptor numbers; a second fork must not close those."""
    pretend(*listed("GPU-a"))
    assert gpus.take_gpu("job") == "GPU-a"

    def child():
        pipes = [os.pipe() for _ in range(50)]  # one of them gets the lock's number
        code = forked(lambda: [os.fstat(end) for pipe in pipes for end in pipe] and os._exit(0))
        os._exit(code)

    assert forked(child) == 0


def test_a_waiting_job_can_be_stopped(pretend, start):
    pretend(*listed("GPU-a"))
    taken_by(start("first"))
    second = start("second")
    assert "is waiting" in second.stderr.readline()
    second.terminate()
    assert second.wait(timeout=HANG_SECONDS) == -signal.SIGTERM


def test_the_order_of_gpus_does_not_matter(pretend, monkeypatch, start):
    pretend(*listed("GPU-a", "GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert taken_by(start()) == "GPU-b"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-a")
    assert taken_by(start()) == "GPU-a"


def test_many_jobs_never_share_a_gpu(pretend, start):
    """Each job records when it held its GPU; no two intervals on the same GPU overlap. None ends before three began."""
    pretend(*listed("GPU-a", "GPU-b", "GPU-c"))
    code = """
    import os, sys, time
    from pathlib import Path
    from recheck.training import gpus
    gpus.POLL_SECONDS = 0.01
    taken = gpus.take_gpu(sys.argv[1])
    started = time.monotonic()
    begun = Path(os.environ["TMPDIR"], "begun")
    begun.mkdir(exist_ok=True)
    (begun / sys.argv[1]).touch()
    while len(list(begun.iterdir())) < 3:
        time.sleep(0.01)
    print(taken, started, time.monotonic(), flush=True)
    """
    jobs = [start(f"job {number}", code) for number in range(9)]
    rows = [job.communicate(timeout=HANG_SECONDS)[0].split() for job in jobs]
    assert {row[0] for row in rows} == {"GPU-a", "GPU-b", "GPU-c"}
    for gpu in ("GPU-a", "GPU-b", "GPU-c"):
        times = sorted((float(begin), float(end)) for name, begin, end in rows if name == gpu)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_jobs_share_gpus_evenly_and_the_next_one_waits_for_a_place(pretend, start):
    pretend(*listed("GPU-a", "GPU-b"))
    jobs = [start(f"job {number}", share=2) for number in range(2)]
    assert {taken_by(job) for job in jobs} == {"GPU-a", "GPU-b"}, "no GPU is shared while another one is free"
    jobs += [start(f"job {number}", share=2) for number in range(2, 4)]
    names = [*map(taken_by, jobs[2:])]
    assert set(names) == {"GPU-a", "GPU-b"}
    fifth = start("fifth", share=2)
    said = fifth.stderr.readline()
    assert "All 4 places on 2 GPUs are taken" in said and "--resources gpu=4" in said
    assert all(f"process {job.pid}: job {number}" in said for number, job in enumerate(jobs))
    os.kill(jobs[3].pid, signal.SIGKILL)
    assert taken_by(fifth) == names[1]


@pytest.mark.parametrize(("first", "second"), [(4, 1), (1, 4)])
def test_a_shared_gpu_is_never_given_to_a_job_that_wants_it_alone(pretend, start, first, second):
    pretend(*listed("GPU-a"))
    holder = start("holder", share=first)
    assert taken_by(holder) == "GPU-a"
    waiting = start("waiting", share=second)
    assert f"process {holder.pid}: holder" in (said := waiting.stderr.readline()) and "'waiting' is waiting" in said
    finish(holder)
    assert taken_by(waiting) == "GPU-a"


def test_a_folder_of_someone_else_is_refused(pretend, tmp_path):
    pretend(*listed("GPU-a"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks" / f"recheck-gpus-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="not a folder that belongs to you"):
        gpus.take_gpu("job")


@pytest.mark.parametrize("script", ["evaluate.py", "calibrate.py"])
def test_jobs_that_reserve_no_gpu_see_none(script):
    """The script hides all GPUs first, before any library can start CUDA."""
    body = (SCRIPTS / script).read_text(encoding="utf-8").split("with job(snakemake) as log:\n")[1]
    assert body.strip().startswith("hide_gpus()")


def test_no_import_initialises_cuda(start):
    """CUDA reads CUDA_VISIBLE_DEVICES once, so no import may initialise it before a GPU is reserved."""
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
    output, errors = process.communicate(timeout=HANG_SECONDS)
    assert output.strip() == "nothing asked", errors
