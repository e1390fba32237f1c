"""Dockerfile and apptainer.def belong to the conda environments as they are.

No image is built, because that needs an engine and packages of several gigabytes.
"""

import hashlib
import os
import re

import pytest
import yaml

from support.project import ROOT
from support.project.containers import CONDA, CUDA, FILES, containerized

ENVIRONMENTS = sorted((ROOT / "envs").glob("*.yaml"))
STALE = "The file does not belong to envs/: run `make containers`."


def instructions():
    """(instruction, arguments) of the Dockerfile, without comments, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]


def sections():
    """Section → lines of apptainer.def; the header is the section ''."""
    lines, name = {"": []}, ""
    for line in (ROOT / "apptainer.def").read_text(encoding="utf-8").splitlines():
        if line.startswith("%"):
            name = line[1:]
            lines[name] = []
        elif line.strip() and not line.startswith("#"):
            lines[name].append(line.strip())
    return lines


def prefix(path):
    """The folder of an environment in the image: Snakemake looks for it by the hash of the file."""
    return f"/conda-envs/{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"


def test_the_dockerfile_creates_every_environment():
    expected = [(f"envs/{path.name}", f"{prefix(path)}/environment.yaml") for path in ENVIRONMENTS]
    parsed = instructions()
    assert [tuple(arguments.split()) for name, arguments in parsed if name == "COPY"] == expected, STALE
    assert {name for name, _ in parsed} == {"FROM", "ENV", "LABEL", "RUN", "COPY"}
    assert parsed[0][0] == "FROM" and ("ENV", CUDA) in parsed
    *made, cleaned = (command.strip() for command in parsed[-1][1].split("&&"))
    assert made == [
        f"conda env create --prefix {prefix(path)} --file {file}"
        for path, (_, file) in zip(ENVIRONMENTS, expected, strict=True)
    ]
    assert cleaned == "conda clean --all -y"


def test_the_apptainer_definition_creates_the_same():
    parsed, docker = sections(), instructions()
    assert parsed["files"] == [arguments for name, arguments in docker if name == "COPY"], STALE
    assert parsed[""] == ["Bootstrap: docker", f"From: {docker[0][1]}"]
    commands = [arguments for name, arguments in docker if name == "RUN"]
    assert parsed["post"] == [f"export {CUDA}", *commands[:-1], *(each.strip() for each in commands[-1].split("&&"))]
    labels = [arguments.replace("=", " ").replace('"', "") for name, arguments in docker if name == "LABEL"]
    assert parsed["labels"] == labels


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_snakemake_writes_the_same_file(kind):
    assert containerized(kind) == (ROOT / FILES[kind]).read_text(encoding="utf-8"), STALE


def test_the_profile_gives_containers_the_gpu_and_shared_memory():
    profile = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    assert profile["apptainer-args"].split() == ["--nv", "--bind", "/dev/shm"]


# Stands in for Apptainer: notes its arguments and runs the command, as if the image had every environment.
APPTAINER = """#!/bin/sh
if [ "$1" = --version ]; then echo 'apptainer version 1.4.0'; exit; fi
echo "$*" >> {calls}
for command; do :; done
case "$command" in "[ -d "*) exit 0 ;; esac
exec sh -c "$command"
"""


@pytest.mark.slow
def test_jobs_run_in_the_image_if_asked_for(fresh, monkeypatch):
    """Snakemake looks in the image for the environments of the Dockerfile; the profile has the image's arguments."""
    programs, calls = fresh.path("programs"), fresh.path("calls.txt")
    for name, script in (("apptainer", APPTAINER.format(calls=calls)), ("conda", CONDA)):
        fresh.write(f"programs/{name}", script)
        programs.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    target = "resources/datasets/glyphs/verified.json"
    fresh.succeed("--cores", "1", target)
    assert not calls.exists()
    fresh.path(target).unlink()
    fresh.fail("--cores", "1", "--sdm", "conda", "apptainer", "--config", "container=/images/recheck.sif", "--", target)
    looked, *_, ran = (line for line in calls.read_text(encoding="utf-8").splitlines() if "/conda-envs/" in line)
    assert f"[ -d '{prefix(ROOT / 'envs/data.yaml')}' ]" in looked
    for call in (looked, ran):
        assert "--nv --bind /dev/shm" in call and " /images/recheck.sif " in call
    assert "verify.py" in ran
