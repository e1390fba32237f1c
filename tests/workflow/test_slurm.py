"""`snakemake --profile slurm` on a real SLURM: daemons on this machine, with GPUs that are only device names."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from recheck.files import sha256
from support.project import ROOT, small_study
from support.services.slurm import MARK, Unable, cluster, remove_leftovers
from support.suite.hang import HANG_SECONDS, wait_until
from support.suite.unavailable import unavailable

# Settings for this small cluster; all other settings come from the profile. Its GPUs are names that CUDA cannot use.
QUICK = ("--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "20", "--config", "device=cpu")
SITE = "'--signal=TERM@180'"

# Losses that wait for an event of the cluster, never for a time. Their values are those of the plain loss.
WAITING = """
import signal, time
from pathlib import Path
from pytorch_metric_learning.losses import TripletMarginLoss


class Waiting(TripletMarginLoss):
    \"\"\"Waits once, in the first step after the first epoch (4 steps), if its file in `events` exists.\"\"\"

    def __init__(self, name, margin=0.05):
        super().__init__(margin)
        self.name, self.steps = name, 0

    def forward(self, *arguments):
        self.steps += 1
        waits, waited = (Path("events") / f"{self.name}_{what}" for what in ("waits", "waited"))
        if waits.exists() and self.steps == 5 and not waited.exists():
            waited.touch()
            self.wait()
        return super().forward(*arguments)


class UntilTerm(Waiting):
    def wait(self):
        stop = signal.getsignal(signal.SIGTERM).__self__  # the StopRequest of the run
        while stop.signal_number is None:
            time.sleep(0.1)


class ForEver(Waiting):
    def wait(self):
        while True:
            time.sleep(1)


class Hopeless(TripletMarginLoss):
    def forward(self, *arguments):
        return super().forward(*arguments) * float("nan")
"""
STUDY = small_study(
    protocol={"schedule": {"epochs": 3, "steps_per_epoch": 4, "evaluate_every": 1}},
    methods={
        "late": {"label": "Late", "members": 1, "loss": {"class": "waiting:UntilTerm", "name": "late"}},
        "killed": {"label": "Killed", "members": 1, "loss": {"class": "waiting:ForEver", "name": "killed"}},
        "hopeless": {"label": "Hopeless", "members": 1, "loss": {"class": "waiting:Hopeless"}},
    },
)


@pytest.fixture
def slurm(monkeypatch):
    try:
        # the path of a socket has at most 107 characters
        with tempfile.TemporaryDirectory(prefix="slurm-") as folder, cluster(Path(folder)) as running:
            monkeypatch.setenv("SLURM_CONF", str(running.configuration))
            yield running
    except Unable as reason:
        unavailable(f"SLURM can't run here: {reason}")


def test_limits_kills_and_failures(slurm, fresh, tmp_path):
    """Three runs: one exceeds its time limit, one is killed, one fails for good. The first two end with local bits.

    One study for all assertions, because every job on SLURM starts Snakemake twice.
    """
    fresh.write("config/studies/letters.yaml", STUDY)
    fresh.write("waiting.py", WAITING)
    undisturbed = fresh.copy(tmp_path / "undisturbed")
    finishing = "methods=[late,killed]"
    undisturbed.succeed("--cores", "2", "--config", finishing)

    runs = [f"results/letters/glyphs/{method}/seed0/fold0" for method in ("late", "killed")]
    for method in ("late", "killed"):
        fresh.write(f"events/{method}_waits", "")
    fresh.edit("slurm/config.yaml", SITE, "'--signal=TERM@5'")
    # Embeddings get a part of a GPU.
    fresh.edit(
        "slurm/config.yaml",
        "embed: {slurm_partition: gpu, gpu: 1}",
        "embed: {slurm_partition: gpu, gpu: 0, gres: 'shard:1'}",
    )
    process = fresh.start("--profile", "slurm", *QUICK, "--retries", "3")
    # KILL every process of the job in the middle of its second epoch, as if its node were switched off.
    slurm.kill(SLURM_JOB_ID=id_once_it_waits(fresh, process, "killed"))
    # One minute is SLURM's shortest limit. It counts from the start of the job, which may be longer ago.
    late = id_once_it_waits(fresh, process, "late")
    subprocess.run(["scontrol", "update", f"JobId={late}", "TimeLimit=1"], check=True)
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode != 0

    assert all(history(fresh, run) == history(undisturbed, run) for run in runs)
    jobs = submitted()
    attempts = [job["comment"] for job in jobs if job["rule"] == "train"]
    assert sum("late" in comment for comment in attempts) >= 2, output
    assert sum("killed" in comment for comment in attempts) >= 2, output
    assert sum("hopeless" in comment for comment in attempts) == 1, output  # a retry would fail again
    log = fresh.read("logs/letters/glyphs/late/seed0/fold0/train.log")
    assert re.search(r"Resuming at epoch \d, step [1-9]", log)

    # The other runs continued, and the output ends with what failed.
    assert fresh.path("results/letters/glyphs/killed/seed0/separated.json").exists()
    assert not fresh.path("results/letters/glyphs/table.md").exists()
    end = output[output.rindex("failed for good") :]
    assert "logs/letters/glyphs/hopeless/seed0/fold0/train.log" in end
    assert "The loss became nan at step 1" in end
    assert "killed/seed0" not in end
    assert "late/seed0" not in end

    # No GPU idles while metrics are computed.
    assert {job["rule"] for job in jobs} == {"prepare", "pack", "train", "embed", "evaluate"}
    assert {(job["gpus"], job["shards"]) for job in jobs if job["rule"] == "train"} == {(1, 0)}
    assert {(job["gpus"], job["shards"]) for job in jobs if job["rule"] == "embed"} == {(0, 1)}
    for job in jobs:
        on_gpu = job["rule"] in ("train", "embed")
        assert job["partition"] == ("gpu" if on_gpu else "cpu")
        assert on_gpu or (job["gpus"], job["shards"]) == (0, 0)

    # Tables are made where the command is typed. SLURM sees no further job.
    output = fresh.succeed("--profile", "slurm", *QUICK, finishing)
    assert "(Rule: table)" in output
    assert submitted() == jobs
    made = [*undisturbed.folder.glob("results/**/*.safetensors"), *undisturbed.folder.glob("results/**/table.*")]
    names = [path.relative_to(undisturbed.folder) for path in made]
    assert {name.name for name in names} >= {"model.safetensors", "table.md", "table.csv", "table.tex"}
    for name in names:
        assert sha256(fresh.path(name)) == sha256(undisturbed.path(name)), name


def test_leftovers_of_a_killed_test_are_removed(tmp_path):
    """The daemons, jobs and links of the tests are removed.

    Links of another cluster and a process with a reused number are kept.
    """
    system, left, other = (tmp_path / name for name in ("etc", "left", "other"))
    for folder in (system, left / "pid", other):
        folder.mkdir(parents=True)
    (left / "slurm.conf").write_text(f"\n{MARK}\n")
    (other / "gres.conf").write_text("")
    (other / "slurm.conf").write_text("ClusterName=real\n")
    links = {"slurm.conf": left, "cgroup.conf": tmp_path / "deleted", "gres.conf": other}
    for name, folder in links.items():
        (system / name).symlink_to(folder / name)
    shutil.copy(shutil.which("sleep"), tmp_path / "munged")
    of_a_job = {**os.environ, "SLURM_CONF": str(left / "slurm.conf")}
    started = [subprocess.Popen([tmp_path / "munged", "inf"]), subprocess.Popen(["sleep", "inf"], env=of_a_job)]
    unrelated = subprocess.Popen(["sleep", "inf"])
    try:
        for process, name in ((started[0], "munged"), (unrelated, "slurmctld")):
            (left / "pid" / f"{name}.pid").write_text(f"{process.pid}\n")
        remove_leftovers(system)
        assert [process.wait(HANG_SECONDS) for process in started] == [-signal.SIGTERM, -signal.SIGKILL]
        assert unrelated.poll() is None
        assert [link.name for link in system.iterdir()] == ["gres.conf"]
    finally:
        for process in (*started, unrelated):
            process.kill()
            process.wait()


def test_metrics_never_hold_a_gpu():
    """They share no SLURM job with rules that reserve one."""
    rules = (ROOT / "workflow/rules/evaluate.smk").read_text(encoding="utf-8")
    names = re.findall(r"^(?:rule|use rule \w+ as) (\w+)", rules, re.MULTILINE)
    assert names == ["evaluate", "evaluate_epochs", "evaluate_model", "calibrate"] and "gpu" not in rules
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text(encoding="utf-8"))
    grouped = {group.split("=")[0] for group in profile["groups"]}
    assert not grouped & {*names, "train", "embed"}
    assert not {*names} & {*profile["set-resources"]}


def id_once_it_waits(project, process, method):
    """SLURM's number of the job that trains a method, when its loss waits."""
    waited = project.path(f"events/{method}_waited")
    assert wait_until(lambda: waited.exists() or process.poll() is not None, pause=0.2)
    assert waited.exists(), f"Snakemake ended before '{method}' trained:\n{process.communicate()[0]}"
    (running,) = [job for job in submitted() if f"_{method}_" in job["comment"] and job["state"] == "RUNNING"]
    return running["id"]


def history(project, run):
    """History of a run without its timings."""
    rows = project.read(f"{run}/history.csv").splitlines()
    speed = rows[0].split(",").index("images_per_second")
    record = json.loads(project.read(f"{run}/run.json"))
    values = [[value for place, value in enumerate(row.split(",")) if place != speed] for row in rows]
    return values, record["best_epoch"], record["best_value"]


def submitted():
    """Every job that SLURM still knows, including finished ones."""
    shown = subprocess.run(["scontrol", "show", "job", "--oneliner"], capture_output=True, text=True, check=True).stdout
    jobs = []
    for line in shown.splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S+)", line))
        if "Comment" in fields:
            asked = re.search(r"gpu:(\d+)", fields.get("TresPerJob", ""))
            parts = re.search(r"shard:(\d+)", fields.get("TresPerNode", ""))
            jobs.append(
                {
                    "id": fields["JobId"],
                    "state": fields["JobState"],
                    "partition": fields["Partition"],
                    "comment": fields["Comment"],
                    "rule": re.match(r"rule_([a-z]+)", fields["Comment"])[1],
                    "gpus": int(asked[1]) if asked else 0,
                    "shards": int(parts[1]) if parts else 0,
                }
            )
    return jobs
