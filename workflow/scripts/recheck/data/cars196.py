"""Cars196: 16,185 photos of 196 car models, in any of the forms that are still available.

The official site is gone. Three forms of the dataset are in circulation:

- the original form: a folder of images numbered 1–16185 (car_ims) and cars_annos.mat,
- the devkit form, for classification: two folders of images, each numbered from 1 (cars_train, cars_test), the
  development kit with cars_train_annos.mat and cars_meta.mat, and cars_test_annos_withlabels.mat,
- the mirror form: one folder per class, with a .mat file of class names.

Mirrors rename and nest files, so file and folder names are not relied on: a table is recognised by its fields, and its
folder by the images that the table lists.

The forms hold the same images under different names and in different orders; only the bytes of an image are the same
everywhere. The index is therefore sorted by label (1–196, the tables' `class`), then by the SHA-256 of the image file.
Every form gives an image the same number, so no result depends on the form used. The dataset's own division into
training and test images is meant for classification and is not used.
"""

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.io

from recheck.data import annotations
from recheck.data.isolated import isolated
from recheck.data.parallel import ordered_map
from recheck.errors import UserError
from recheck.files import sha256, walk

LARGEST_CLASS = 1_000_000
WHERE_FROM = "docs/datasets.md lists the files of both official forms"


class Table(NamedTuple):
    """A .mat file with one row per image; the competition's test table has no classes."""

    file: Path
    names: list[str]
    classes: np.ndarray | None


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index, in an order that does not depend on the form."""
    originals, devkit, class_names = _tables([downloads, images])
    folders = _folders(images)
    if _assign(originals[:1], folders):
        rows = _by_table(originals[:1], folders, images, dataset)
        _check_known(rows, originals[0], images, dataset)
    elif _assign(devkit, folders):
        rows = _by_table(_labelled(devkit), folders, images, dataset)
    else:
        rows = _by_folder(folders, class_names, originals + devkit, images)
    rows["class_name"] = _named(rows["label"], class_names)
    files = [images / path for path in rows["path"]]
    rows["sha256"] = list(ordered_map(sha256, files, workers, total=len(files), description="Hashing images"))
    rows = rows.sort_values(["label", "sha256", "path"], ignore_index=True)
    return annotations.index(rows[["path", "label", "class_name"]])


# The tables, recognised by their fields


def _tables(places: list[Path]) -> tuple[list[Table], list[Table], list[str]]:
    """The tables of the original form, the tables of the devkit form, and the class names."""
    originals, devkit, class_names = [], [], []
    files = (Path(entry.path) for place in places for entry in walk(place) if entry.name[0] != ".")
    for file in sorted(path for path in files if path.suffix == ".mat"):
        content = _load(file)
        fields = np.asarray(content.get("annotations")).dtype.names or ()
        if "relative_im_path" in fields and "class" in fields:
            originals.append(_table(file, content["annotations"], "relative_im_path"))
        elif "fname" in fields:
            devkit.append(_table(file, content["annotations"], "fname"))
        if "class_names" in content:
            class_names = class_names or [str(name) for name in np.atleast_1d(content["class_names"])]
    return originals, _distinct(devkit), class_names


def _load(file: Path) -> dict[str, np.ndarray]:
    """The known variables of a file. SciPy raises almost anything on damaged files, and some crash it."""
    try:
        return isolated(_known_variables, file)
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise UserError(
            f"{file} is not a readable MATLAB file ({reason}): replace it with the published file and run again."
        ) from None


def _known_variables(file: Path) -> dict[str, np.ndarray]:
    return scipy.io.loadmat(file, squeeze_me=True, variable_names=["annotations", "class_names"])


def _table(file: Path, records: np.ndarray, name: str) -> Table:
    records = np.atleast_1d(records)
    if not records.size:
        raise UserError(f"{file} lists no images: replace it with the published file and run again.")
    classes = np.array([_class(file, value) for value in records["class"]]) if "class" in records.dtype.names else None
    return Table(file, [str(value) for value in records[name]], classes)


def _class(file: Path, value: object) -> int:
    """A class as a whole number from 1; MATLAB may store it as a floating-point number. A huge number means damage."""
    if isinstance(value, (int, float, np.number)) and 1 <= value <= LARGEST_CLASS and value == int(value):
        return int(value)
    raise UserError(
        f"{file} has the class {value!r}, expected a whole number of at least 1: replace it with the published "
        "file and run again."
    )


def _distinct(tables: list[Table]) -> list[Table]:
    """The tables without duplicates: the kit's cars_test_annos.mat is the labelled test table without its labels."""
    labelled = [frozenset(table.names) for table in tables if table.classes is not None]
    kept: dict[tuple, Table] = {}
    for table in tables:
        names = frozenset(table.names)
        if table.classes is not None:
            kept.setdefault((names, table.classes.tobytes()), table)
        elif names not in labelled:
            kept.setdefault((names, None), table)
    return list(kept.values())


def _labelled(tables: list[Table]) -> list[Table]:
    unlabelled = [table for table in tables if table.classes is None]
    if unlabelled:
        raise UserError(
            f"{unlabelled[0].file} has no classes for its {len(unlabelled[0].names)} images, and no other table "
            "has them: put cars_test_annos_withlabels.mat beside it and run again."
        )
    return tables


# The image folders, recognised by the images that a table lists


def _key(name: str) -> str:
    """An image's name in lower case without folders, leading zeros and suffix."""
    return PurePosixPath(name).stem.lower().lstrip("0")


def _folders(images: Path) -> dict[str, list[str]]:
    """The image files of every folder that contains any."""
    folders: dict[str, list[str]] = {}
    for path in sorted(annotations.images_below(images)):
        folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
    return folders


def _distance(table: Table, folder: str, files: list[str]) -> tuple[int, bool] | None:
    """How many images of a folder and a table do not match; None if a quarter or more do not.

    Both folders of the devkit form are numbered from 1, but one has more images. The word "train" or "test" in the
    names breaks a tie.
    """
    listed, present = {_key(name) for name in table.names}, {_key(name) for name in files}
    if 4 * len(listed & present) <= 3 * max(len(listed), len(present)):
        return None
    words = [set(re.findall("train|test", name.lower())) for name in (table.file.name, folder)]
    return len(listed ^ present), not words[0] & words[1]


def _assign(tables: list[Table], folders: dict[str, list[str]]) -> dict[int, str]:
    """The folder of each table, by the table's position: best matches first, each folder used once."""
    pairs = [
        (distance, number, folder)
        for number, table in enumerate(tables)
        for folder, files in folders.items()
        if (distance := _distance(table, folder, files)) is not None
    ]
    assigned: dict[int, str] = {}
    for _, number, folder in sorted(pairs):
        if number not in assigned and folder not in assigned.values():
            assigned[number] = folder
    return assigned


def _by_table(tables: list[Table], folders: dict[str, list[str]], images: Path, dataset: dict) -> pd.DataFrame:
    """Path, label and listed name of every image in the tables' folders."""
    assigned, rows = _assign(tables, folders), []
    for number, table in enumerate(tables):
        if number not in assigned:
            raise UserError(
                f"No folder below {images} contains the {len(table.names)} images listed in {table.file} (such as "
                f"{table.names[0]}): {WHERE_FROM}."
            )
        folder = assigned[number]
        paths = _paths(folders[folder])
        names = [_key(name) for name in table.names]
        shown = {key: PurePosixPath(path).name for key, path in paths.items()}
        annotations.compare(
            [shown.get(key, PurePosixPath(name).name) for key, name in zip(names, table.names, strict=True)],
            set(shown.values()),
            table.file,
            images / folder,
            dataset,
        )
        rows += [
            (paths[key], int(label), name) for key, label, name in zip(names, table.classes, table.names, strict=True)
        ]
    return pd.DataFrame(rows, columns=["path", "label", "name"])


def _paths(files: list[str]) -> dict[str, str]:
    paths: dict[str, str] = {}
    for path in files:
        if _key(path) in paths:
            raise UserError(f"{path} and {paths[_key(path)]} have the same image number: remove one of them.")
        paths[_key(path)] = path
    return paths


def _by_folder(
    folders: dict[str, list[str]], class_names: list[str], tables: list[Table], images: Path
) -> pd.DataFrame:
    """Path and label of every image of a mirror with one folder per class, named after the class."""
    if not folders:
        raise UserError(f"{images} contains no images: {WHERE_FROM}.")
    labels = {_letters(name): label for label, name in enumerate(class_names, start=1)}
    strange = [folder for folder in folders if _letters(PurePosixPath(folder).name) not in labels]
    if strange and tables:
        raise UserError(
            f"The images below {images} (such as {folders[strange[0]][0]}) do not match those listed in "
            f"{tables[0].file} (such as {tables[0].names[0]}): use images and tables of the same form; {WHERE_FROM}."
        )
    if not class_names:
        raise UserError(
            f"No table lists the images below {images}: add cars_annos.mat (original form), or cars_train_annos.mat, "
            f"cars_test_annos_withlabels.mat and cars_meta.mat (devkit form); {WHERE_FROM}."
        )
    if strange:
        raise UserError(
            f"Image folders below {images} must be named after one of the {len(class_names)} classes, found "
            f"{annotations.some(strange)}; {WHERE_FROM}."
        )
    rows = [(path, labels[_letters(PurePosixPath(folder).name)]) for folder, files in folders.items() for path in files]
    return pd.DataFrame(rows, columns=["path", "label"])


def _letters(name: str) -> str:
    """Only the letters and digits of a class name: no folder can be called `Ram C/V Cargo Van Minivan 2012`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(labels: pd.Series, class_names: list[str]) -> pd.Series:
    if not class_names:
        return labels.map("class {}".format)
    outside = labels[~labels.between(1, len(class_names))]
    if len(outside):
        raise UserError(
            f"A table of Cars196 has class {outside.iloc[0]}, but only {len(class_names)} classes have a name: "
            "replace the tables with the published files and run again."
        )
    return labels.map(dict(enumerate(class_names, start=1)))


def _check_known(rows: pd.DataFrame, table: Table, images: Path, dataset: dict) -> None:
    """Refuse a copy whose known images are named differently in the table: the mirror has renumbered its images."""
    paths = dict(zip(rows["name"], rows["path"], strict=True))
    for name, known in ((dataset.get("options") or {}).get("known_images") or {}).items():
        if name not in paths:
            raise UserError(
                f"{table.file} does not list {name}, which 'options.known_images' of the dataset names: "
                "replace the table with the published file and run again."
            )
        md5 = hashlib.md5((images / paths[name]).read_bytes(), usedforsecurity=False).hexdigest()
        if md5 != known:
            raise UserError(
                f"{images / paths[name]} is not the image that {table.file} calls {name} (expected md5 {known}, found "
                f"{md5}): the images of this copy were renumbered, so their labels would be wrong. Use another copy; "
                f"{WHERE_FROM}."
            )
