"""`snakemake --profile slurm` on a real SLURM: daemons of this machine, with GPUs that are only devices' names."""

import json
import os
import re
import subprocess
import time

import pytest
import yaml
from project import ROOT
from slurm import Unable, cluster

from recheck.files import sha256

# What is the same for every cluster stays as the profile has it; here the first look at a job need not wait 40 s.
QUICK = ("--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "20")
SITE = "'--signal=TERM@180'"
RESULTS = ("table.md", "table.csv", "table.tex")

# Losses that wait for an event of the cluster, never for a time. What they compute is what the plain loss computes.
WAITING = """
import signal, time
from pathlib import Path
from pytorch_metric_learning.losses import TripletMarginLoss


class Waiting(TripletMarginLoss):
    \"\"\"Waits once, where `events` says that it is disturbed and in its step after the first epoch's four.\"\"\"

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
        stop = signal.getsignal(signal.SIGTERM).__self__  # the run's own StopRequest
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
METHODS = """
methods:
  late: {label: Late, members: 1, loss: {class: "waiting:UntilTerm", name: late}}
  killed: {label: Killed, members: 1, loss: {class: "waiting:ForEver", name: killed}}
  hopeless: {label: Hopeless, members: 1, loss: {class: "waiting:Hopeless"}}
"""
SCHEDULE = "schedule: {epochs: 3, steps_per_epoch: 4, evaluate_every: 1}"


@pytest.fixture
def slurm(tmp_path):
    """In CI a machine that can't run SLURM is a failure: the profile would go untested."""
    try:
        with cluster(tmp_path / "slurm") as configuration:
            yield configuration
    except Unable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"SLURM can't run here: {reason}")
        pytest.skip(f"SLURM can't run here: {reason}")


def test_a_study_gives_the_same_bits_as_locally(slurm, fresh, finished):
    output = fresh.succeed("--profile", "slurm", *QUICK)
    for name in RESULTS:
        assert fresh.read(f"results/letters/glyphs/{name}") == finished.read(f"results/letters/glyphs/{name}")
    models = sorted(finished.folder.glob("results/**/*.safetensors"))
    assert models
    for path in models:
        assert sha256(fresh.path(path.relative_to(finished.folder))) == sha256(path), path

    jobs = submitted()
    assert {job["rule"] for job in jobs} == {"prepare", "pack", "train", "measure"}
    assert {job["rule"] for job in jobs if job["gpus"]} == {"train", "measure"}
    assert {job["partition"] for job in jobs if job["gpus"]} == {"gpu"}
    assert {job["partition"] for job in jobs if not job["gpus"]} == {"cpu"}
    assert all(job["gpus"] == 1 for job in jobs if job["rule"] == "measure")  # several embeddings, one after the other
    assert len([job for job in jobs if job["rule"] == "measure"]) == 3 < output.count("(Rule: embed)")
    assert "(Rule: table)" in output  # made where the command was typed: SLURM has seen no such job


def test_limits_kills_and_failures(slurm, fresh, tmp_path, monkeypatch):
    """One study, three fates: out of time again and again, killed outright, and failing for good."""
    study = fresh.read("config/studies/letters.yaml")
    study = study.replace("schedule: {epochs: 2, steps_per_epoch: 3, evaluate_every: 1}", SCHEDULE)
    fresh.write("config/studies/letters.yaml", study[: study.index("methods:")] + METHODS)
    fresh.write("waiting.py", WAITING)
    undisturbed = fresh.copy(tmp_path / "undisturbed")
    runs = [f"results/letters/glyphs/{method}/seed0/fold0" for method in ("late", "killed")]
    undisturbed.succeed("--cores", "2", "--", *(f"{run}/model.safetensors" for run in runs))

    for method in ("late", "killed"):
        fresh.write(f"events/{method}_waits", "")
    # a minute is SLURM's shortest limit; whoever is sent again has time enough, however slow the machine is
    fresh.edit("slurm/config.yaml", "runtime: 1440", 'runtime: "1 if attempt == 1 else 30"')
    fresh.edit("slurm/config.yaml", SITE, "'--signal=TERM@5'")
    process = fresh.start("--profile", "slurm", *QUICK, "--retries", "3")
    kill_once_it_waits(fresh, process, "killed")
    output, _ = process.communicate(timeout=1200)
    assert process.returncode != 0

    for run in runs:
        for name in ("model.safetensors", "embeddings.safetensors"):
            if undisturbed.path(f"{run}/{name}").exists():
                assert sha256(fresh.path(f"{run}/{name}")) == sha256(undisturbed.path(f"{run}/{name}"))
        assert history(fresh, run) == history(undisturbed, run)
    attempts = [job["comment"] for job in submitted() if job["rule"] == "train"]
    assert sum("late" in comment for comment in attempts) >= 2, output
    assert sum("killed" in comment for comment in attempts) >= 2, output
    assert sum("hopeless" in comment for comment in attempts) == 4, output  # once and three retries
    log = fresh.read("logs/letters/glyphs/late/seed0/fold0/train.log")
    assert re.search(r"continuing at epoch \d, step [1-9]", log)

    # the rest went on, and the last thing that is said is what failed
    assert fresh.path("results/letters/glyphs/killed/seed0/separated.json").exists()
    assert not fresh.path("results/letters/glyphs/table.md").exists()
    end = output[output.rindex("failed for good") :]
    assert "logs/letters/glyphs/hopeless/seed0/fold0/train.log" in end
    assert "The loss became nan at step 1" in end
    assert "killed/seed0" not in end
    assert "late/seed0" not in end


def test_every_measuring_rule_travels_with_its_embeddings():
    """A rule that `use rule` makes inherits nothing from the profile: both keys go by names."""
    rules = (ROOT / "workflow/rules/evaluate.smk").read_text(encoding="utf-8")
    names = re.findall(r"^(?:rule|use rule \w+ as) (\w+)", rules, re.MULTILINE)
    assert names == ["evaluate", "evaluate_epochs", "calibrate"]
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text(encoding="utf-8"))
    partition = profile["set-resources"]["embed"]["slurm_partition"]
    for name in names:
        assert f"{name}=measure" in profile["groups"]
        assert profile["set-resources"][name] == {"slurm_partition": partition}


def kill_once_it_waits(project, process, method):
    """KILL for every process of the job's step, in the middle of its second epoch: as when a node is switched off."""
    while not project.path(f"events/{method}_waited").exists():
        assert process.poll() is None, f"Snakemake ended before '{method}' trained:\n{process.communicate()[0]}"
        time.sleep(0.2)
    (running,) = [job for job in submitted() if f"_{method}_" in job["comment"] and job["state"] == "RUNNING"]
    subprocess.run(["scancel", "--signal=KILL", running["id"]], check=True)


def history(project, run):
    """What a run measured; not how fast it was."""
    rows = project.read(f"{run}/history.csv").splitlines()
    speed = rows[0].split(",").index("images_per_second")
    record = json.loads(project.read(f"{run}/run.json"))
    values = [[value for place, value in enumerate(row.split(",")) if place != speed] for row in rows]
    return values, record["best_epoch"], record["best_value"]


def submitted():
    """Every job that SLURM still knows, finished ones too."""
    shown = subprocess.run(["scontrol", "show", "job", "--oneliner"], capture_output=True, text=True, check=True).stdout
    jobs = []
    for line in shown.splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S+)", line))
        if "Comment" in fields:
            asked = re.search(r"gpu:(\d+)", fields.get("TresPerJob", ""))
            jobs.append(
                {
                    "id": fields["JobId"],
                    "state": fields["JobState"],
                    "partition": fields["Partition"],
                    "comment": fields["Comment"],
                    "rule": re.match(r"rule_([a-z]+)", fields["Comment"])[1],
                    "gpus": int(asked[1]) if asked else 0,
                }
            )
    return jobs
