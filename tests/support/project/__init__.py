"""A copy of the project in a temporary directory, with a study small enough for tests, run through the real CLI."""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.datasets.glyphs import make_glyphs
from support.services import forks

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "workflow" / "scripts"
PACKAGE = "workflow/scripts/recheck/"
PARTS = ("Snakefile", "config", "envs", "profiles", "slurm", "workflow", "resources/published")

DATASET = """
description: Letters in the typefaces that matplotlib carries.
parser: folder
root: glyphs
"""

STUDY = """
title: Letters
seeds: [0]
datasets:
  glyphs: {}
protocol:
  split: {scheme: class_disjoint_folds, folds: 2}
  transforms:
    resize:
    train: [{random_resized_crop: {size: 32, scale: [0.6, 1.0], ratio: [0.75, 1.333]}}]
    eval: [{center_crop: {size: 32}}]
  model:
    backbone: {name: "small_net:SmallNet", weights: none}
    head: {class: Linear, dim: 16}
  sampler: {class: MPerClass, batch: 8, per_class: 2, length: 64}
  optimisers:
    backbone: {class: Adam, lr: 0.001}
    head: {class: Adam, lr: 0.001}
    loss: {class: Adam, lr: 0.01}
  schedule: {epochs: 2, steps_per_epoch: 3, evaluate_every: 1}
  selection: {role: val, metric: MAP@R, also: [P@1]}
  evaluation:
    metrics: [P@1, RP, MAP@R, R@1, R@2, R@4, NMI]
    table: [P@1, RP, MAP@R]
methods:
  pretrained:
    label: Pretrained
    members: 1
    model: {head: {class: Identity}}
    schedule: {epochs: 0}
    reduction: {kind: pca, dims: {separated: 8, concatenated: 16}}
  triplet:
    label: Triplet
    loss: {class: TripletMarginLoss, margin: 0.1}
  proxy_nca:
    label: ProxyNCA
    loss: {class: ProxyNCALoss}
    sampler: {per_class: 1}
"""


def small_study(protocol: dict[str, Any] | None = None, **changes: Any) -> str:
    """YAML of a study that takes seconds; ``changes`` replace keys of the study, ``protocol`` keys of its protocol."""
    if not protocol and not changes:
        return STUDY
    study = yaml.safe_load(STUDY)
    study |= {**changes, "protocol": {**study["protocol"], **(protocol or {})}}
    return yaml.safe_dump(study, sort_keys=False, default_flow_style=None, width=1000)


class Project:
    """A project directory, and the commands a user types in it."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, classes: int = 12, per_class: int = 5) -> "Project":
        folder.mkdir(parents=True)
        for name in PARTS:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("recheck"))
            else:
                shutil.copy(source, target)
        shutil.copytree(_package(), folder / PACKAGE, copy_function=_copy_or_link)
        project = cls(folder)
        for path in project.folder.glob("config/studies/*.yaml"):
            path.unlink()  # every command would read them
        make_glyphs(folder / "glyphs", classes, per_class)
        shutil.copy(Path(__file__).with_name("small_net.py"), folder)
        project.write("config/datasets/glyphs.yaml", DATASET)
        project.write("config/studies/letters.yaml", small_study())
        project.edit("config/config.yaml", "study: quickstart", "study: letters")
        # so that runs of a second have a state to resume from
        project.edit("config/config.yaml", "save_every: 60", "save_every: 0")
        return project

    def add_shipped_studies(self) -> "Project":
        """This project, with all studies of the repository."""
        shutil.copytree(ROOT / "config/studies", self.path("config/studies"), dirs_exist_ok=True)
        return self

    def copy(self, folder: Path) -> "Project":
        """A copy of the project with its times and links, so that finished jobs stay finished."""
        shutil.copytree(self.folder, folder, symlinks=True, copy_function=_copy_or_link)
        return Project(folder)

    def path(self, name: str) -> Path:
        return self.folder / name

    def read(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        self._write_bytes(name, textwrap.dedent(text).encode())

    def _write_bytes(self, name: str, content: bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith(PACKAGE):
            path.unlink(missing_ok=True)  # other projects link to this file
        path.write_bytes(content)

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text, f"'{old}' is not in {name}"
        self.write(name, text.replace(old, new, 1))

    @contextlib.contextmanager
    def restored(self, *names: str) -> Iterator["Project"]:
        """This project; on exit, the named files get their old content back, or are deleted if they were missing.

        For tests in which no job runs: a copy of the project takes as long as a small Snakemake command.
        """
        before = {name: self.path(name).read_bytes() if self.path(name).exists() else None for name in names}
        try:
            yield self
        finally:
            for name, content in before.items():
                if content is None:
                    self.path(name).unlink(missing_ok=True)
                else:
                    self._write_bytes(name, content)

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("snakemake")), *arguments],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **options,
        )

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        code, output = forks.run(arguments, self.folder, _environment())
        return subprocess.CompletedProcess(arguments, code, output)

    def succeed(self, *arguments: str) -> str:
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def fail(self, *arguments: str) -> str:
        done = self.snakemake(*arguments)
        assert done.returncode != 0, f"this should have failed:\n{done.stdout}"
        return done.stdout

    def planned(self, *arguments: str) -> dict[str, int]:
        """Rule → number of jobs that would run now."""
        output = self.succeed("--dry-run", "--cores", "2", *arguments)
        if "Nothing to be done" in output:
            return {}
        table = output.split("Job stats:")[1].splitlines()
        counts = {}
        for line in table[3:]:
            if not line.strip():
                break
            rule, count = line.split()
            counts[rule] = int(count)
        counts.pop("total", None)
        return counts


def _copy_or_link(source: str, target: str) -> None:
    """Copy a file with its times; link a file of the package, because creating 650 files takes half a CPU second."""
    if PACKAGE in source:
        with contextlib.suppress(OSError):  # the target is on another disk
            return os.link(source, target)
    shutil.copy2(source, target)


@functools.cache
def _package() -> Path:
    """A copy of the package that the projects of this process link to, so that no test can change the repository."""
    folder = Path(tempfile.mkdtemp(prefix="recheck-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # with compiled modules, or every project would compile the package again; *.pyc.* are half-written
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("*.pyc.*"))
    return folder / PACKAGE


def _environment() -> dict[str, str]:
    """The environment of the tests, with the programs of this Python first on the PATH."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return environment
