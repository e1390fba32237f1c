"""Tests that this machine cannot run."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip the test. In CI, fail it instead: .ci/run installs what the tests need, so nothing may go untested."""
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
