"""The index of a dataset: one row per image, in the dataset's order.

``images.csv`` has the columns ``path`` (below the image root), ``label`` (a whole number), ``class_name``,
``super_label`` and ``role`` (the dataset's own division into train, test, query, …); the last two may be empty. The
number of an image, everywhere else, is its row in this table.

A parser creates the index. It is a function ``parser(dataset, downloads, images) -> pandas.DataFrame``: ``dataset`` is
the dataset's YAML as a dict, ``downloads`` the folder of its verified files, and ``images`` its image root, which has
the images or receives them from the parser. A dataset names a built-in parser, or any importable function as
``module:function``.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.blame import user_code
from recheck.data.splits import check_disjoint, make_split
from recheck.errors import UserError, nearest
from recheck.files import atomic
from recheck.parts import load

if TYPE_CHECKING:  # a run needs only the labels, and importing pandas takes as long as reading them
    import pandas as pd

log = logging.getLogger("recheck")
COLUMNS = ["path", "label", "class_name", "super_label", "role"]
REMEDY = "correct the dataset's table or its parser and run again"
CORRECT = "restore the published files, or correct 'expected' in the dataset's YAML"
BUILT_IN = {
    "cars196": "recheck.data.cars196:parse",
    "csv": "recheck.data.folder:parse_csv",
    "cub200": "recheck.data.cub200:parse",
    "emoji": "recheck.data.emoji:parse",
    "folder": "recheck.data.folder:parse_folder",
    "inaturalist": "recheck.data.inaturalist:parse",
    "inaturalist2018": "recheck.data.inaturalist2018:parse",
    "inshop": "recheck.data.inshop:parse",
    "sop": "recheck.data.sop:parse",
}


def make_index(dataset: dict, downloads: str | Path, images: str | Path, workers: int = 1) -> pd.DataFrame:
    """Run the dataset's parser and return its index, checked against the dataset's expected counts."""
    import pandas as pd

    function = parser(dataset["parser"])
    with user_code("parser", function, dataset=dataset, downloads=Path(downloads), images=Path(images)):
        table = function(dataset, Path(downloads), Path(images), workers)
    if not isinstance(table, pd.DataFrame):
        raise UserError(
            f"The parser '{dataset['parser']}' must return a pandas.DataFrame, found {type(table).__name__}."
        )
    counted = check(table, dataset.get("expected") or {}, f"The index of '{dataset['name']}'")
    log.info(
        "%s has %d images of %d classes (%d with only one image)",
        dataset["name"],
        counted["images"],
        counted["classes"],
        counted["singles"],
    )
    return table[COLUMNS].reset_index(drop=True)


def write_index(path: str | Path, index: pd.DataFrame) -> None:
    with atomic(path) as temporary:
        index[COLUMNS].to_csv(temporary, index=False, lineterminator="\n")


def read_index(path: str | Path) -> pd.DataFrame:
    import pandas as pd

    try:
        index = pd.read_csv(path, dtype=dict.fromkeys(COLUMNS, str) | {"label": "int64"}, keep_default_na=False)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: run the workflow to create it.") from None
    except (ValueError, OverflowError) as error:
        raise UserError(f"{path} is not an index of images ({error}): delete it and run again.") from None
    if not isinstance(index.index, pd.RangeIndex):
        raise UserError(f"{path} has rows with more values than columns: delete it and run again.")
    check(index, {}, path, "delete it and run again")
    return index


def read_labels(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """The labels and super-labels of an index, not checked again: its hash shows that it was checked when made."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [(int(row["label"]), row["super_label"]) for row in csv.DictReader(file)]
    return np.array([label for label, _ in rows], np.int64), np.array([super_label for _, super_label in rows], str)


def check(table: pd.DataFrame, expected: dict, name: str | Path, remedy: str = REMEDY) -> dict[str, int]:
    """Refuse a table that is not a valid index or not the expected one; return its counts.

    Classes with only one image are allowed (they can be distractors) and counted as ``singles``.
    """
    import pandas as pd

    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        columns = "column" if len(missing) == 1 else "columns"
        raise UserError(f"{name} is missing the {columns} {', '.join(missing)}: {remedy}.")
    if table.empty:
        raise UserError(f"{name} has no images: {remedy}.")
    if not pd.api.types.is_integer_dtype(table["label"]):
        raise UserError(
            f"{name} has labels that are not whole numbers (their type is {table['label'].dtype}): {remedy}."
        )
    pathless = table["path"].isna() | (table["path"].astype(str) == "")
    if pathless.any():
        raise UserError(f"{name} has a row without a path (label {table['label'][pathless].iloc[0]}): {remedy}.")
    repeated = table["path"][table["path"].duplicated()]
    if len(repeated):
        raise UserError(f"{name} has duplicate paths ({len(repeated)}), such as '{repeated.iloc[0]}': {remedy}.")
    nameless = table["class_name"].isna() | (table["class_name"].astype(str) == "")
    if nameless.any():
        raise UserError(f"{name} has no class name for label {table['label'][nameless].iloc[0]}: {remedy}.")
    names = table.groupby("label")["class_name"].nunique()
    if (names > 1).any():
        raise UserError(f"{name} gives label {names.index[names > 1][0]} to several class names: {remedy}.")
    sizes = table["label"].value_counts()
    counted = {"images": len(table), "classes": len(sizes), "singles": int((sizes == 1).sum())}
    for key, number in expected.items():
        if key == "splits":
            continue
        if key not in counted:
            raise UserError(f"{name}: unknown key '{key}' in 'expected'; {nearest(key, [*counted, 'splits'])}.")
        if counted[key] != number:
            raise UserError(f"{name} has {counted[key]} {key}, expected {number}: {CORRECT}.")
    for split in expected.get("splits", []):
        _check_split(table, split, name)
    return counted


def _check_split(table: pd.DataFrame, expected: dict, name: str | Path) -> None:
    """Compare with the sizes of a published split: ``{scheme: class_halves, images: {train: 5864, test: 5924}}``.

    ``sha256`` also compares every image and label, by the hash of each role's list (:func:`names_sha256`).
    """
    scheme = {key: value for key, value in expected.items() if key not in ("images", "sha256")}
    columns = {"super_labels": table["super_label"], "roles": table["role"]}
    split = make_split(table["label"], scheme, **columns, note=False)
    check_disjoint(split, table["label"])
    for number, fold in enumerate(split["folds"]):
        sizes = {role: len(images) for role, images in fold.items()}
        if sizes != expected["images"]:
            raise UserError(
                f"{name}, split by {scheme['scheme']}, has {_sizes(sizes)} images in fold {number}, expected "
                f"{_sizes(expected['images'])}: {CORRECT}."
            )
        for role, known in expected.get("sha256", {}).items():
            if names_sha256(table.iloc[fold[role]]) != known:
                raise UserError(
                    f"{name}, split by {scheme['scheme']}, differs from the published list of '{role}' images and "
                    f"labels (sha256 {known[:12]}…): {CORRECT}."
                )


def names_sha256(rows: pd.DataFrame) -> str:
    """The hash of the sorted "label name" lines of a list; it ignores the list's order and the images' folders."""
    names = rows["path"].str.rsplit("/", n=1).str[-1]
    lines = sorted(f"{label} {name}\n" for label, name in zip(rows["label"], names, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{role} {number}" for role, number in sizes.items())


def parser(name: str) -> Callable[[dict, Path, Path, int], pd.DataFrame]:
    """A built-in parser by name, or a user's parser given as ``module:function``."""
    if name in BUILT_IN:
        return load(BUILT_IN[name], "parser")
    if ":" not in name:
        raise UserError(f"Unknown parser '{name}'; {nearest(name, BUILT_IN)}, or your own as module:function.")
    function = load(name, "parser")
    return functools.wraps(function)(lambda dataset, downloads, images, workers: function(dataset, downloads, images))
