"""CUB-200-2011: 11,788 photos of 200 bird species.

Labels are 0–199 in the order of classes.txt, which sorts the class folders by name; images are in the order of
images.txt. The dataset's own train_test_split.txt is meant for classification (both sides have all classes) and is not
used.
"""

from pathlib import Path, PurePosixPath

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

FOLDER = "CUB_200_2011"


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from images.txt, image_class_labels.txt and classes.txt."""
    home = annotations.home(images, FOLDER, lambda folder: (folder / "images.txt").is_file())
    listed, paths = _table(dataset, home, "images.txt", ["image_id", "path"])
    labelled, labels = _table(dataset, home, "image_class_labels.txt", ["image_id", "class_id"])
    named, classes = _table(dataset, home, "classes.txt", ["class_id", "class_name"])
    _check_same_ids(paths.index, labels.index, listed, labelled, "image")
    _check_same_ids(classes.index.astype(str), labels["class_id"], named, labelled, "class")

    rows = paths.join(labels)
    rows["label"] = annotations.whole_numbers(rows, "class_id", labelled) - 1
    rows["class_name"] = classes["class_name"].reindex(rows["class_id"]).to_numpy()
    _check_classes(classes, rows, named, listed)
    folder = home / "images"
    annotations.compare(rows["path"], annotations.images_below(folder), listed, folder, dataset)
    below = folder.relative_to(images).as_posix()
    return annotations.index(rows.assign(path=below + "/" + rows["path"]).reset_index(drop=True))


def _table(dataset: dict, home: Path, name: str, columns: list[str]) -> tuple[Path, pd.DataFrame]:
    path = annotations.find(name, [home], dataset)
    table = annotations.read_rows(path, columns)
    annotations.unique(table, columns[0], path)
    return path, table.set_index(columns[0])


def _check_same_ids(one, other, first: Path, second: Path, noun: str) -> None:
    """Refuse two tables that do not list the same ids."""
    for left, right, listing, lacking in ((one, other, first, second), (other, one, second, first)):
        missing = sorted(set(left) - set(right), key=lambda value: (len(value), value))
        if missing:
            raise UserError(
                f"{lacking} does not list {noun} {annotations.some(missing)} of {listing}: one of the two files is "
                "damaged; restore both and run again."
            )


def _check_classes(classes: pd.DataFrame, rows: pd.DataFrame, named: Path, listed: Path) -> None:
    numbers = annotations.whole_numbers(classes.reset_index(), "class_id", named)
    in_order = classes["class_name"].to_numpy()[numbers.argsort()]
    if sorted(numbers) != list(range(1, len(numbers) + 1)) or sorted(in_order) != list(in_order):
        raise UserError(
            f"{named} is damaged (the classes are not numbered 1, 2, … in the order of their names): "
            "restore it and run again."
        )
    folders = rows["path"].map(lambda path: str(PurePosixPath(path).parent))
    wrong = rows[folders != rows["class_name"]]
    if len(wrong):
        row = wrong.iloc[0]
        raise UserError(
            f"{listed} lists {row['path']}, but its class is {row['class_name']}: the annotation files do not match; "
            "restore them and run again."
        )
