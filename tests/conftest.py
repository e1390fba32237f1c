"""What tests of every kind share."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[1]


def pytest_configure():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden() -> Path:
    """Inputs and outputs of the original implementations; another set of the same names may be given."""
    return Path(os.environ.get("RECHECK_GOLDEN", ROOT / "tests" / "golden"))
