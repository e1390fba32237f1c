"""Which jobs a SLURM profile submits with which resources."""

import types

import pytest
from snakemake.resources import Resources

from recheck.doctor import profile
from support.project import ROOT

PROFILE = """
executor: slurm
retries: 2
default-resources: {slurm_partition: short}
set-resources:
  train: {slurm_partition: "'gpu' if attempt < 3 else 'long'", gres: "gpu:1", runtime: 2h}
  embed: {slurm_partition: "old,new", gpu: 1}
  evaluate: {slurm_partition: "wildcards.view"}
"""


def rule(name, norun=False, **resources):
    return types.SimpleNamespace(name=name, norun=norun, resources=Resources.from_mapping(resources))


@pytest.fixture
def workflow():
    rules = [
        rule("train", runtime=lambda wildcards, attempt: wildcards.missing),
        rule("embed", runtime=lambda wildcards, attempt: wildcards.missing),
        rule("pack", runtime=lambda wildcards, attempt: 20 * attempt),
        rule("evaluate", runtime=20),
        rule("table", runtime=10),
        rule("mlrc", norun=True),
    ]
    return types.SimpleNamespace(rules=rules, _localrules={"table"})


def test_the_profile_that_the_command_names(workflow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.yaml").write_text(PROFILE, encoding="utf-8")
    command = ["--profile", "mine", "--set-resources", "pack:slurm_partition=large", "--", "doctor"]
    assert profile.submitted(workflow, command[:2] + command[4:]) == {
        "profile": "mine",
        "rules": {
            "train": {"partitions": ["gpu", "long"], "gres": "gpu:1", "runtime": 120},
            "embed": {"partitions": ["old", "new"], "gpu": 1},
            "pack": {"partitions": ["short"], "runtime": 20},
        },
        "unknown": ["evaluate"],
        "file": "",
    }
    # on the command line, a key replaces the whole key of the profile
    jobs = profile.submitted(workflow, command)
    assert jobs["rules"]["pack"] == {"partitions": ["large"], "runtime": 20}
    assert jobs["rules"]["evaluate"] == {"partitions": ["short"], "runtime": 20}
    assert jobs["unknown"] == []


def test_without_a_profile_it_is_the_shipped_one(workflow, monkeypatch):
    monkeypatch.chdir(ROOT)
    jobs = profile.submitted(workflow, ["--cores", "1", "doctor"])
    assert jobs["profile"] == "slurm" and jobs["file"] == "" and jobs["unknown"] == []
    assert jobs["rules"]["train"] == {"partitions": ["gpu"], "gpu": 1}
    assert jobs["rules"]["evaluate"] == {"partitions": ["cpu"], "runtime": 20}


def test_profiles_that_cannot_be_used(workflow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert profile.submitted(workflow, ["--cores", "1", "doctor"])["profile"] == ""
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/config.yaml").write_text("no-such-option: 1\n", encoding="utf-8")
    error = profile.submitted(workflow, ["--cores", "1", "doctor"])["error"]
    assert error.startswith("the profile cannot be read (") and "no-such-option" in error
    monkeypatch.setattr(profile, "EXECUTOR", "snakemake_executor_plugin_nowhere")
    error = profile.submitted(workflow, [])["error"]
    assert error == "the package snakemake-executor-plugin-nowhere is not installed"
