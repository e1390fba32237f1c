"""Stanford Online Products: 120,053 photos of 22,634 products.

Images are in the order of Ebay_train.txt, then Ebay_test.txt. Labels are class_id − 1, super-labels are the twelve
product categories, and roles are the official ones (train: 59,551 images of 11,318 classes, test: 60,502 images of
11,316 classes).
"""

import logging
from pathlib import Path

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

log = logging.getLogger("recheck")
FOLDER = "Stanford_Online_Products"
COLUMNS = ["image_id", "class_id", "super_class_id", "path"]
ROLES = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from the two tables of the archive."""
    home = annotations.home(images, FOLDER, lambda folder: any((folder / name).is_file() for name in ROLES.values()))
    rows = pd.concat([_rows(dataset, home, role) for role in ROLES], ignore_index=True)
    names = " and ".join(ROLES.values())
    annotations.compare(rows["path"], annotations.images_below(home), f"{home}/{names}", home, dataset)
    below = home.relative_to(images).as_posix()
    rows["path"] = rows["path"] if below == "." else below + "/" + rows["path"]
    return annotations.index(rows)


def _rows(dataset: dict, home: Path, role: str) -> pd.DataFrame:
    path = annotations.find(ROLES[role], [home], dataset)
    table = annotations.read_rows(path, COLUMNS, skip=1)
    label = annotations.whole_numbers(table, "class_id", path) - 1
    _check_classes(table, label, path)
    kind = table["path"].str.split("/").str[0].str.removesuffix("_final")
    _check_kinds(annotations.whole_numbers(table, "super_class_id", path), kind, path)
    return pd.DataFrame(
        {
            "path": table["path"],
            "label": label,
            "class_name": kind + " " + table["class_id"],
            "super_label": kind,
            "role": role,
        }
    )


def _check_classes(table: pd.DataFrame, label: pd.Series, path: Path) -> None:
    """Refuse classes that the names contradict: `bicycle_final/111085122871_0.JPG` shows item 111085122871."""
    if (label < 0).any():
        raise UserError(f"{path} is damaged (class_id 0, but classes are numbered from 1): restore it and run again.")
    item = table["path"].str.rsplit("_", n=1).str[0]
    first = label.groupby(item).transform("first")
    wrong = table[label != first]
    if len(wrong):
        row = wrong.iloc[0]
        raise UserError(
            f"{path} is damaged ({row['path']} has class_id {row['class_id']}, another photo of the same item has "
            f"{first[wrong.index[0]] + 1}): restore it and run again."
        )
    numbered = label.drop_duplicates()
    if not numbered.is_monotonic_increasing:
        log.warning("%s: classes are not in the order of their numbers. Were class ids swapped?", path)


def _check_kinds(number: pd.Series, kind: pd.Series, path: Path) -> None:
    """Refuse a table that does not give every category exactly one number and one folder."""
    pairs = pd.DataFrame({"number": number, "kind": kind}).drop_duplicates()
    if pairs["number"].duplicated().any() or pairs["kind"].duplicated().any():
        doubtful = pairs[pairs["number"].duplicated(keep=False) | pairs["kind"].duplicated(keep=False)].iloc[0]
        raise UserError(
            f"{path} is damaged (folder {doubtful['kind']} does not match super_class_id {doubtful['number']}): "
            "restore it and run again."
        )
