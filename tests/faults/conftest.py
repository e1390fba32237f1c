"""Fixtures for the fault tests: a small study, run without faults."""

import json
from pathlib import Path

import pytest

from support.faults import kills
from support.project import Project


@pytest.fixture(scope="session")
def quiet(shared) -> kills.Usual:
    """The undisturbed study of kills.py, with the number of its changes to the disk."""

    def make(folder: Path) -> Project:
        with kills.slow_server() as server:
            project = kills.make_project(folder, server)
            usual = kills.undisturbed(project, cores=2)
        project.write("usual.json", json.dumps(vars(usual), default=str))
        return project

    project = shared("quiet", make)
    return kills.Usual(**{**json.loads(project.read("usual.json")), "folder": project.folder})


@pytest.fixture
def begun(tmp_path):
    """The same study before its first job, and a server for its file."""
    with kills.slow_server() as server:
        yield kills.make_project(tmp_path / "project", server)
