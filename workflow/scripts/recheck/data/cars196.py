"""Cars196: 16,185 photos of 196 models of cars, in whichever form it survived.

The official site is gone. What people have is one of three trees:

- the original: a folder of images numbered 1–16185 (car_ims) and cars_annos.mat,
- the one for classification: two folders of images numbered from 1 (cars_train, cars_test), the development kit with
  cars_train_annos.mat and cars_meta.mat, and cars_test_annos_withlabels.mat,
- a mirror's: one folder a class, with a .mat file that has the names of the classes.

Mirrors rename and nest. So nothing is recognised by the name of a file or folder: a table is what its fields say, and
the folder that belongs to it is the one whose images it names.

All forms have the same images under other names and in another order, and only the bytes of an image are the same in
all of them. So the order of the index is by label (1–196, the `class` of the tables), then by the SHA-256 of the
image's file: every form gives the same images the same numbers, and no result depends on the form that a user happened
to find. The dataset's own division into training and test images is for classification and is not used.
"""

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.io

from recheck.data import annotations
from recheck.data.parallel import ordered_map
from recheck.errors import UserError
from recheck.files import sha256

WHERE_FROM = "docs/datasets.md says which files the two official forms consist of"


class Table(NamedTuple):
    """A .mat file with a row an image; no classes in the one that was made for a competition."""

    file: Path
    names: list[str]
    classes: np.ndarray | None


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index, in an order that does not depend on the form."""
    originals, parts, class_names = _tables([downloads, images])
    folders = _folders(images)
    if _assign(originals[:1], folders):
        rows = _by_table(originals[:1], folders, images, dataset)
        _check_known(rows, originals[0], images, dataset)
    elif _assign(parts, folders):
        rows = _by_table(_labelled(parts), folders, images, dataset)
    else:
        rows = _by_folder(folders, class_names, originals + parts, images)
    rows["class_name"] = _named(rows["label"], class_names)
    files = [images / path for path in rows["path"]]
    rows["sha256"] = list(ordered_map(sha256, files, workers, total=len(files), description="Hashing images"))
    rows = rows.sort_values(["label", "sha256", "path"], ignore_index=True)
    return annotations.index(rows[["path", "label", "class_name"]])


# The tables, recognised by what they hold


def _tables(places: list[Path]) -> tuple[list[Table], list[Table], list[str]]:
    """The original's table, those of the other form, and the names of the classes."""
    originals, parts, class_names = [], [], []
    for file in sorted(path for place in places for path in place.rglob("[!.]*.mat")):
        content = _load(file)
        fields = content["annotations"].dtype.names or () if "annotations" in content else ()
        if "relative_im_path" in fields and "class" in fields:
            originals.append(_table(file, content["annotations"], "relative_im_path"))
        elif "fname" in fields:
            parts.append(_table(file, content["annotations"], "fname"))
        if "class_names" in content:
            class_names = class_names or [str(name) for name in np.atleast_1d(content["class_names"])]
    return originals, _distinct(parts), class_names


def _load(file: Path) -> dict:
    try:
        return scipy.io.loadmat(file, squeeze_me=True)
    except Exception as error:  # scipy raises almost anything on files that are damaged
        raise UserError(
            f"{file} is not a MATLAB file that can be read ({error}): replace it by the published one and run again."
        ) from None


def _table(file: Path, records: np.ndarray, name: str) -> Table:
    records = np.atleast_1d(records)
    classes = np.array([int(value) for value in records["class"]]) if "class" in records.dtype.names else None
    return Table(file, [str(value) for value in records[name]], classes)


def _distinct(parts: list[Table]) -> list[Table]:
    """Without tables that say the same again: the kit's cars_test_annos.mat is the labelled one without labels."""
    labelled = [frozenset(part.names) for part in parts if part.classes is not None]
    kept: dict[tuple, Table] = {}
    for part in parts:
        names = frozenset(part.names)
        if part.classes is not None:
            kept.setdefault((names, part.classes.tobytes()), part)
        elif names not in labelled:
            kept.setdefault((names, None), part)
    return list(kept.values())


def _labelled(parts: list[Table]) -> list[Table]:
    without = [part for part in parts if part.classes is None]
    if without:
        raise UserError(
            f"{without[0].file} has no classes, and no other table has them for its {len(without[0].names)} images: "
            "cars_test_annos_withlabels.mat is missing, put it beside and run again."
        )
    return parts


# The images, recognised by the table that names them


def _key(name: str) -> str:
    """What is left of an image's name when folders, zeros in front and the spelling of the suffix are left out."""
    return PurePosixPath(name).stem.lower().lstrip("0")


def _folders(images: Path) -> dict[str, list[str]]:
    """The image files of every folder that has some."""
    found: dict[str, list[str]] = {}
    for path in sorted(annotations.images_below(images)):
        found.setdefault(str(PurePosixPath(path).parent), []).append(path)
    return found


def _distance(table: Table, folder: str, files: list[str]) -> tuple[int, bool] | None:
    """How much the images of a folder differ from what a table names; None if a quarter or more does.

    Both parts of the second form are numbered from 1, but one of them goes further. In case of doubt the word train or
    test decides.
    """
    wanted, found = {_key(name) for name in table.names}, {_key(name) for name in files}
    if 4 * len(wanted & found) <= 3 * max(len(wanted), len(found)):
        return None
    words = [set(re.findall("train|test", name.lower())) for name in (table.file.name, folder)]
    return len(wanted ^ found), not words[0] & words[1]


def _assign(tables: list[Table], folders: dict[str, list[str]]) -> dict[int, str]:
    """The folder of each table (by its place in the list): the pair that fits best first, a folder only once."""
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
    """Images of the folders that belong to the tables, with the classes of the tables."""
    assigned, rows = _assign(tables, folders), []
    for number, table in enumerate(tables):
        if number not in assigned:
            raise UserError(
                f"No folder below {images} has the {len(table.names)} images that {table.file} names (such as "
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
            raise UserError(f"{path} and {paths[_key(path)]} have the same number: remove the one that is a copy.")
        paths[_key(path)] = path
    return paths


def _by_folder(
    folders: dict[str, list[str]], class_names: list[str], tables: list[Table], images: Path
) -> pd.DataFrame:
    """A mirror with a folder for each class, called by the name of the class."""
    if not folders:
        raise UserError(f"There are no images below {images}: {WHERE_FROM}.")
    labels = {_letters(name): label for label, name in enumerate(class_names, start=1)}
    strange = [folder for folder in folders if _letters(PurePosixPath(folder).name) not in labels]
    if strange and tables:
        raise UserError(
            f"The images below {images} (such as {folders[strange[0]][0]}) are not those that {tables[0].file} names "
            f"(such as {tables[0].names[0]}): images and tables must be of the same form; {WHERE_FROM}."
        )
    if not class_names:
        raise UserError(
            f"There is no table of the images below {images}: cars_annos.mat is missing, or, for the other form, "
            f"cars_train_annos.mat, cars_test_annos_withlabels.mat and cars_meta.mat; {WHERE_FROM}."
        )
    if strange:
        raise UserError(
            f"{len(strange)} folders of images below {images} are not called like one of the {len(class_names)} "
            f"classes: {annotations.some(strange)}; {WHERE_FROM}."
        )
    rows = [(path, labels[_letters(PurePosixPath(folder).name)]) for folder, files in folders.items() for path in files]
    return pd.DataFrame(rows, columns=["path", "label"])


def _letters(name: str) -> str:
    """A class by its letters and digits alone: a folder can't be called `Ram C/V Cargo Van Minivan 2012`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(labels: pd.Series, class_names: list[str]) -> pd.Series:
    if not class_names:
        return labels.map("class {}".format)
    outside = labels[~labels.between(1, len(class_names))]
    if len(outside):
        raise UserError(f"A table of Cars196 has the class {outside.iloc[0]}, but there are {len(class_names)} names.")
    return labels.map(dict(enumerate(class_names, start=1)))


def _check_known(rows: pd.DataFrame, table: Table, images: Path, dataset: dict) -> None:
    """Images whose content is known must be what the table calls them: a mirror may have numbered anew."""
    paths = dict(zip(rows["name"], rows["path"], strict=True))
    for name, known in ((dataset.get("options") or {}).get("known_images") or {}).items():
        if name not in paths:
            raise UserError(f"{table.file} has no {name}, which `options.known_images` of the dataset names.")
        found = hashlib.md5((images / paths[name]).read_bytes(), usedforsecurity=False).hexdigest()
        if found != known:
            raise UserError(
                f"{images / paths[name]} is not the image that {table.file} calls {name} (md5 {found}, known is "
                f"{known}): this copy's images were numbered anew, so their labels would be wrong; take another, "
                f"{WHERE_FROM}."
            )
