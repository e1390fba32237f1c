"""The files that a test left behind."""

from pathlib import Path


def left_in(folder: Path) -> list[str]:
    """Paths of all files below a folder, relative to it and sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
