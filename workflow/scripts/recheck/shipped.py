"""Where studies, datasets, methods, schemas and published numbers are, in a clone and in an installed package.

Their only source is the clone: building the package copies them to its folder ``shipped/`` (pyproject.toml).
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_INSTALLED = PACKAGE / "shipped"
_CLONE = PACKAGE.parents[2]


def path(name: str) -> Path:
    """A shipped file or folder by its path in the clone, such as ``config/studies`` or ``workflow/schemas``."""
    return (_INSTALLED if _INSTALLED.is_dir() else _CLONE) / name
