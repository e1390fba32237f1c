"""Interrupted, killed, out of space: running the same command again gives the same bits."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recheck.data.packed import BLOCK, PackedImages
from support.datasets.glyphs import make_glyphs
from support.faults import kills
from support.faults.disks import private_mounts
from support.suite.hang import HANG_SECONDS, wait_until

RUN = "results/letters/glyphs/triplet/seed0/fold0"
MODEL = f"{RUN}/model.safetensors"
LOG = "logs/letters/glyphs/triplet/seed0/fold0/train.log"
STATE = "results/state/letters/glyphs/triplet/seed0/fold0/state.bin"
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
LONGER = ("epochs: 2, steps_per_epoch: 3", "epochs: 1000000, steps_per_epoch: 3")


@pytest.fixture
def long(project):
    """A study whose runs end only when they are interrupted."""
    project.edit("config/studies/letters.yaml", *LONGER)
    return project


def wait_for(condition, process):
    """Wait for an event in a process that does not end by itself. The condition may be false again afterwards."""
    assert wait_until(lambda: condition() or process.poll() is not None, pause=0.05)
    assert process.poll() is None, process.communicate(timeout=HANG_SECONDS)[0]


def kill(process):
    """Kill the process group; return when all of its processes have closed their output, that is, have ended."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=HANG_SECONDS)


def stop(process, number):
    """Send a signal to all processes of the group, and return what they printed.

    Snakemake gets TERM first, the others when it says that it waits for them: its TERM handler takes a lock that it
    already holds while it handles the end of a job, and then it would never end. Shells get none: old versions of bash
    run a job as their child, and would report its end before it has saved its state.
    """
    said = []
    if number == signal.SIGTERM:
        os.kill(process.pid, number)
        said = list(itertools.takewhile(lambda line: "Will exit after finishing" not in line, process.stdout))
        for each in kills.members(process.pid):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if each != process.pid and Path(f"/proc/{each}/comm").read_text().strip() not in ("bash", "sh"):
                    os.kill(each, number)
    else:
        os.killpg(process.pid, number)
    said += process.stdout.readlines()
    process.wait(HANG_SECONDS)
    return "".join(said)


def shorten(project):
    """Return to the short run; its configuration differs, so the state of the long run must not be used."""
    project.edit("config/studies/letters.yaml", *reversed(LONGER))


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 0), (signal.SIGTERM, 2)])
def test_interrupted_in_the_middle_of_training(long, finished, number, workers):
    """Ctrl-C in a terminal reaches the whole process group, and so does TERM here, including loader workers."""
    process = long.start("--cores", "1", "--config", f"workers={workers}", "--", MODEL)
    wait_for(long.path(STATE).exists, process)
    output = stop(process, number)
    assert process.returncode != 0
    assert "state saved: run the same command again to resume" in output
    assert "1 job was stopped by a signal. Run the same command again to resume." in output
    assert "failed for good" not in output
    assert not long.path(MODEL).exists()
    assert long.path(STATE).exists()
    # the next run resumes, and the state of another configuration is never used
    process = long.start("--cores", "1", "--", MODEL)
    wait_for(lambda: long.path(LOG).exists() and "Resuming at epoch" in long.read(LOG), process)
    kill(process)
    shorten(long)
    shutil.rmtree(long.path(".snakemake/locks"))  # as `--unlock` does
    long.succeed("--cores", "1", "--", MODEL)
    assert "belongs to a run with other settings or data" in long.read(LOG)
    assert long.path(MODEL).read_bytes() == finished.path(MODEL).read_bytes()


IMPATIENT = """
import os
import signal
from pathlib import Path

from small_net import SmallNet


class Impatient(SmallNet):
    \"\"\"Receives TERM in the first of two batches of the second evaluation, but only in the first job.\"\"\"

    def forward(self, images):
        if not self.training:
            done = Path("evaluated").stat().st_size if Path("evaluated").exists() else 0
            with Path("evaluated").open("a") as file:
                file.write(".")
            if done == 2:
                os.kill(os.getpid(), signal.SIGTERM)
        return super().forward(images)
"""


def test_terminated_in_the_middle_of_an_evaluation(project, finished):
    """The signal ends the evaluation before its next batch, and the resumed run ends with the same weights."""
    project.write("impatient.py", IMPATIENT)
    project.edit("config/studies/letters.yaml", "small_net:SmallNet", "impatient:Impatient")
    output = project.fail("--cores", "1", "--", MODEL)
    assert "Stopped by SIGTERM at step 3, state saved: run the same command again to resume." in output
    assert "1 job was stopped by a signal." in output and "failed for good" not in output
    assert project.read("evaluated") == "..."
    project.succeed("--cores", "1", "--", MODEL)
    assert "Resuming at epoch 0, step 3" in project.read(LOG)
    one, other = (load_file(of.path(MODEL)) for of in (project, finished))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_damaged_state_files_are_not_used(long, finished):
    """With one file truncated and one bit flipped in the other, training starts over and gives the same bits."""
    process = long.start("--cores", "1", "--", MODEL)
    wait_for(long.path(STATE).exists, process)
    kill(process)
    for path in long.path(STATE).parent.iterdir():
        data = bytearray(path.read_bytes())
        if data:  # the kill may have come while the next state was still empty
            data[len(data) // 2] ^= 1
        path.write_bytes(data if path.name == "state.bin" else data[:500])
    shorten(long)
    long.succeed("--unlock")
    output = long.succeed("--cores", "1", "--", MODEL)
    assert "is damaged. Ignoring it" in output
    assert long.path(MODEL).read_bytes() == finished.path(MODEL).read_bytes()


def test_killed_in_the_middle_of_packing(fresh):
    """Snakemake removes a job's outputs, but finished blocks are kept beside them and completed.

    Packing waits after its first block, so that it is killed there however fast the machine is.
    """
    make_glyphs(fresh.path("glyphs"), classes=26, per_class=12)
    folder, size = "resources/datasets/glyphs/packed", "exact40x40"
    target, journal = f"{folder}/{size}/pack.json", fresh.path(f"{folder}/.{size}.partial/journal")
    noted = "    journal.flush()\n"
    wait = "    while Path('wait').exists():\n        __import__('time').sleep(0.01)\n"
    fresh.edit("workflow/scripts/recheck/data/packed.py", noted, noted + wait)
    fresh.write("wait", "")
    process = fresh.start("--cores", "1", "--", target)
    wait_for(lambda: journal.exists() and journal.read_text(), process)
    kill(process)
    assert not fresh.path(target).exists()
    fresh.path("wait").unlink()
    shutil.rmtree(fresh.path(".snakemake/locks"))  # as `--unlock` does
    fresh.succeed("--cores", "2", "--", target)
    assert f"{BLOCK} of 312 images are already packed" in fresh.read(f"logs/datasets/glyphs/pack/{size}.log")
    PackedImages(fresh.path(target).parent).verify()
    assert sorted(path.name for path in fresh.path(folder).iterdir()) == [size]


def on_a_small_disk(project, folder, options, *arguments):
    """Run Snakemake with ``folder`` on a temporary disk; return its output and the files left there."""
    command = " && ".join(
        [
            f"mkdir -p {folder}",
            f"mount -t tmpfs -o {options} tmpfs {folder}",
            f"({SNAKEMAKE} {' '.join(arguments)}; echo EXIT $?; find {folder} -type f)",
        ]
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [*private_mounts(), "sh", "-c", command],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    output, _, left = done.stdout.partition("EXIT ")
    assert left and not left.startswith("0"), output
    return output, left


def test_a_read_only_results_directory_is_reported_at_once(fresh):
    output, _ = on_a_small_disk(fresh, "results", "size=1m,ro", "--cores 1")
    assert "pathvars.results" in output and "read-only" in output
    assert "Traceback" not in output


def test_no_space_for_the_pack(fresh):
    target = "resources/datasets/glyphs/packed/original/pack.json"
    output, left = on_a_small_disk(fresh, "resources", "size=60k", "--cores 1", target)
    assert "MB are free" in output and "packed" in output
    assert "pixels.bin" not in left


def test_a_full_disk_while_training(project):
    """A limit on file sizes gives the same error as a full disk, on every machine. The network's file sets it."""
    shutil.rmtree(project.path("results"))
    limit = "import resource\n\nresource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
    project.write("small_net.py", f"{limit}\n{project.read('small_net.py')}")
    output = project.fail("--cores", "1", "--", MODEL)
    assert "No space left while writing results/" in output
    left = [path.name for path in project.path("results").rglob("*") if path.is_file()]
    assert not [name for name in left if "state" in name or "model" in name], left
