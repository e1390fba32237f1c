"""What tests of every kind share."""

import os
import sys
from pathlib import Path

import pytest
from filelock import FileLock

sys.path.insert(0, str(Path(__file__).parent))

from project import ROOT, Project


def pytest_configure():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden() -> Path:
    """Inputs and outputs of the original implementations; another set of the same names may be given."""
    return Path(os.environ.get("RECHECK_GOLDEN", ROOT / "tests" / "golden"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Project:
    """One finished study that tests copy from, so that each pays only for what it changes.

    Test processes that run side by side share it: the first makes it, the others wait.
    """
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    project = Project(base / "finished")
    with FileLock(base / "finished.lock"):
        if not project.folder.exists():
            making = Project.create(base / "making")
            making.succeed("--cores", "2")
            making.folder.rename(project.folder)
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished study, to be changed at will."""
    return finished.copy(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path) -> Project:
    """A project in which nothing has been made yet."""
    return Project.create(tmp_path / "project")
