"""What the tests of faults share: one small study that was made without any."""

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from support.faults import kills


@pytest.fixture(scope="session")
def quiet(tmp_path_factory) -> kills.Usual:
    """The undisturbed study of kills.py; test processes that run side by side share it, as they do `finished`."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    folder, notes = base / "quiet", base / "quiet.json"
    with FileLock(base / "quiet.lock"):
        if not notes.exists():
            with kills.slow_server() as server:
                usual = kills.undisturbed(kills.make_project(folder, server), cores=2)
            notes.write_text(json.dumps(vars(usual), default=str), encoding="utf-8")
    stored = json.loads(notes.read_text(encoding="utf-8"))
    return kills.Usual(**{**stored, "folder": Path(stored["folder"])})


@pytest.fixture
def begun(tmp_path):
    """The same study with nothing made yet, and a server for its file."""
    with kills.slow_server() as server:
        yield kills.make_project(tmp_path / "project", server)
