"""iNaturalist 2018 with the lists of Smooth-AP: 461,939 photos of 8,142 species.

Images are in the order of the training list, then of the test list. The label is the number that names a species'
folder, the super-label is the folder above it (Aves, Fungi, …), and roles are those of the lists (train: 325,846 images
of 5,690 species, test: 136,093 images of 2,452 species).
"""

from pathlib import Path

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

FOLDER = "train_val2018"
LISTS = "Inat_dataset_splits"
ROLES = {"train": "Inaturalist_train_set1.txt", "test": "Inaturalist_test_set1.txt"}
PATTERN = rf"{FOLDER}/(?P<super_label>[A-Za-z]\w*)/(?P<number>\d{{1,9}})/[^/]+"


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from the two lists."""
    rows = pd.concat([_rows(dataset, downloads, images, role) for role in ROLES], ignore_index=True)
    present = {f"{FOLDER}/{name}" for name in annotations.images_below(images / FOLDER)}
    annotations.compare(rows["path"], present, " and ".join(ROLES.values()), images, dataset)
    return annotations.index(rows)


def _rows(dataset: dict, downloads: Path, images: Path, role: str) -> pd.DataFrame:
    path = annotations.find(ROLES[role], [images / LISTS, downloads / LISTS, images, downloads], dataset)
    table = annotations.read_rows(path, ["path"])
    parts = table["path"].str.extract(f"^{PATTERN}$")
    wrong = table["path"][parts["number"].isna()]
    if len(wrong):
        raise UserError(
            f"{path} is damaged (it lists '{wrong.iloc[0][: annotations.LONGEST]}', expected "
            f"{FOLDER}/<group>/<species>/<image>): restore it and run again."
        )
    return pd.DataFrame(
        {
            "path": table["path"],
            "label": parts["number"].astype("int64"),
            "class_name": parts["super_label"] + " " + parts["number"],
            "super_label": parts["super_label"],
            "role": role,
        }
    )
