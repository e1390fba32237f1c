"""Fixtures for tests of several parts of the package."""

import pytest

from support.services.clock import Clock


@pytest.fixture
def clock():
    """A clock at 0 seconds; a test sets its time."""
    return Clock()


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory):
    """A folder of eight classes with six images each; tests change copies of it."""
    from support.datasets.glyphs import make_glyphs  # imports matplotlib, which few tests need

    return make_glyphs(tmp_path_factory.mktemp("images") / "glyphs", classes=8, per_class=6, size=40)
