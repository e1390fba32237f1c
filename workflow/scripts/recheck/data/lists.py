"""Published lists of the images of each role, which make a split comparable with published numbers.

A row of a list is ``path,super_label,class_id``. Only the last folder and the name of a path count: lists differ in the
folder that they start from.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.data.patience import Patience
from recheck.data.sources import Unavailable, fetch, inside
from recheck.errors import UserError
from recheck.files import read_json

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("recheck")
COLUMNS = 3
RESTORE = "delete it and run again"
COMPARE = "restore the dataset, or delete the lists and run again"


def fetch_lists(
    lists: Mapping[str, Mapping[str, Any]], folder: Path, drop: str, patience: Patience | None = None
) -> dict[str, Any]:
    """Get the lists of all roles into ``folder`` and return the content of ``lists.json``.

    Without them a dataset is still complete, so a list that no source has is recorded, but is not an error.
    """
    try:
        for file in lists.values():
            fetch(dict(file), inside(folder, file["path"]), drop, patience)
    except Unavailable as error:
        log.warning("%s Until then, the split is generated.", error)
        return {"available": False, "reason": str(error)}
    return {"available": True, "files": {role: file["path"] for role, file in lists.items()}}


def read_roles(record: str | Path, index: pd.DataFrame) -> list[str] | None:
    """The role that the lists give to every image of the index; None if they could not be fetched."""
    about = read_json(record)
    available = about.get("available") if isinstance(about, dict) else None
    if available is False:
        return None
    if available is not True or not isinstance(about.get("files"), dict):
        raise UserError(f"{record} does not name the published lists: {RESTORE}.")
    unmatched: dict[str, tuple[str, str]] = {}
    folder = Path(record).with_name("downloads")
    for role, name in about["files"].items():
        path = folder / name
        for image, label in _rows(path):
            if image in unmatched:
                raise UserError(f"{path} lists the image '{image}', which is already listed: {RESTORE}.")
            unmatched[image] = (role, label)
    roles = []
    for path, label in zip(index["path"], index["label"], strict=True):
        role, listed = unmatched.pop(_short(path), ("", ""))
        if listed != str(label):
            problem = f"give class {listed} to" if role else "do not have"
            raise UserError(
                f"The published lists in {folder} {problem} the image '{path}' of class {label}: {COMPARE}."
            )
        roles.append(role)
    if unmatched:
        raise UserError(
            f"The published lists in {folder} have {len(unmatched)} images that the dataset does not have, such as "
            f"{next(iter(unmatched))}: {COMPARE}."
        )
    return roles


def _rows(path: Path) -> list[tuple[str, str]]:
    """Last folder and name, and class, of every image in a list."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read ({error}): {RESTORE}.") from None
    for number, row in enumerate(rows, start=1):
        if len(row) != COLUMNS:
            raise UserError(f"{path} is damaged (line {number} has {len(row)} fields, expected {COLUMNS}): {RESTORE}.")
    return [(_short(row[0]), row[2].strip()) for row in rows]


def _short(path: str) -> str:
    return "/".join(path.split("/")[-2:])
