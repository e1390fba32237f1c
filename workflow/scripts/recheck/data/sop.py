"""Stanford Online Products: 120,053 photos of 22,634 things that were for sale.

Ebay_train.txt and then Ebay_test.txt, in their order; labels are class_id − 1, super-labels the twelve kinds of things,
and the role is the official one (59,551 images of 11,318 classes for training, 60,502 of 11,316 for testing).
"""

from pathlib import Path

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

FOLDER = "Stanford_Online_Products"
COLUMNS = ["image_id", "class_id", "super_class_id", "path"]
ROLES = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from the two tables of the archive."""
    home = annotations.home(images, FOLDER, lambda folder: any((folder / name).is_file() for name in ROLES.values()))
    rows = pd.concat([_part(dataset, home, role) for role in ROLES], ignore_index=True)
    names = " and ".join(ROLES.values())
    annotations.compare(rows["path"], annotations.images_below(home), f"{home}/{names}", home, dataset)
    below = home.relative_to(images).as_posix()
    rows["path"] = rows["path"] if below == "." else below + "/" + rows["path"]
    return annotations.index(rows)


def _part(dataset: dict, home: Path, role: str) -> pd.DataFrame:
    path = annotations.find(ROLES[role], [home], dataset)
    table = annotations.read_rows(path, COLUMNS, skip=1)
    label = annotations.whole_numbers(table, "class_id", path) - 1
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


def _check_kinds(number: pd.Series, kind: pd.Series, path: Path) -> None:
    """A kind of thing has one number and one folder."""
    pairs = pd.DataFrame({"number": number, "kind": kind}).drop_duplicates()
    if pairs["number"].duplicated().any() or pairs["kind"].duplicated().any():
        doubtful = pairs[pairs["number"].duplicated(keep=False) | pairs["kind"].duplicated(keep=False)].iloc[0]
        raise UserError(
            f"{path}: the folder of {doubtful['kind']} and super_class_id {doubtful['number']} do not fit one another: "
            "the file is damaged, restore it and run again."
        )
