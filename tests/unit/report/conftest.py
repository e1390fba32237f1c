"""Fixtures for tests of reports."""

import pytest


@pytest.fixture
def files(tmp_path):
    """The two files of a figure, not yet written."""
    return {"png": tmp_path / "a.png", "svg": tmp_path / "a.svg"}
