"""What tests of every kind share."""

import os
import sys
from pathlib import Path

import pytest

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
    """One finished study that tests copy from, so that each pays only for what it changes."""
    project = Project.create(tmp_path_factory.mktemp("finished") / "project")
    project.succeed("--cores", "2")
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished study, to be changed at will."""
    return finished.copy(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path) -> Project:
    """A project in which nothing has been made yet."""
    return Project.create(tmp_path / "project")
