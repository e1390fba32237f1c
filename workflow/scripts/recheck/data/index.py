"""The index of a dataset: one row an image, in the dataset's order.

``images.csv`` has the columns ``path`` (below the image root), ``label`` (a whole number), ``class_name``,
``super_label`` and ``role`` (the dataset's own division into train, test, query, …); the last two may be empty. An
image's number everywhere else is its row here.

A parser makes the index. It is a function ``parser(dataset, downloads, images) -> pandas.DataFrame``:
``dataset`` is the dataset's YAML as a dict, ``downloads`` the folder of its verified files, ``images`` its
image root, where the images are or where the parser puts them. A dataset names a built-in parser or any
importable one as ``module:function``.
"""

from __future__ import annotations

import csv
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recheck.data.splits import check_disjoint, make_split
from recheck.errors import UserError, nearest
from recheck.files import atomic
from recheck.parts import load

if TYPE_CHECKING:  # a run needs the labels alone, and pandas takes as long to load as to read them
    import pandas as pd

log = logging.getLogger("recheck")
COLUMNS = ["path", "label", "class_name", "super_label", "role"]
BUILT_IN = {
    "cars196": "recheck.data.cars196:parse",
    "csv": "recheck.data.folder:parse_csv",
    "cub200": "recheck.data.cub200:parse",
    "emoji": "recheck.data.emoji:parse",
    "folder": "recheck.data.folder:parse_folder",
    "inaturalist": "recheck.data.inaturalist:parse",
    "inshop": "recheck.data.inshop:parse",
    "sop": "recheck.data.sop:parse",
}


def make_index(dataset: dict, downloads: str | Path, images: str | Path, workers: int = 1) -> pd.DataFrame:
    """Run the dataset's parser and check what it gives, against the dataset's expected counts too."""
    import pandas as pd

    table = parser(dataset["parser"])(dataset, Path(downloads), Path(images), workers)
    if not isinstance(table, pd.DataFrame):
        raise UserError(f"The parser '{dataset['parser']}' must return a pandas.DataFrame, not {type(table).__name__}.")
    counted = check(table, dataset.get("expected") or {}, f"the index of '{dataset['name']}'")
    log.info(
        "%s: %d images, %d classes (%d with one image)",
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
        raise UserError(f"{path} does not exist: run the workflow to index the dataset.") from None
    except (ValueError, OverflowError) as error:
        raise UserError(f"{path} is not an index of images ({error}): delete it and run again.") from None
    if not isinstance(index.index, pd.RangeIndex):
        raise UserError(f"{path} has rows with more values than there are columns: delete it and run again.")
    check(index, {}, path)
    return index


def read_labels(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Labels and super-labels of an index that its hash has shown to be one that was checked before."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [(int(row["label"]), row["super_label"]) for row in csv.DictReader(file)]
    return np.array([label for label, _ in rows], np.int64), np.array([above for _, above in rows], str)


def check(table: pd.DataFrame, expected: dict, name: str | Path) -> dict[str, int]:
    """Fail loudly if the table cannot be an index or is not the expected one; return what was counted.

    A class with one image is allowed (it can be a distractor), but such classes are counted.
    """
    import pandas as pd

    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise UserError(f"{name} lacks the columns {', '.join(missing)}.")
    if table.empty:
        raise UserError(f"{name} has no images.")
    if not pd.api.types.is_integer_dtype(table["label"]):
        raise UserError(f"{name} has labels that are not whole numbers.")
    if table["path"].isna().any() or (table["path"].astype(str) == "").any():
        raise UserError(f"{name} has a row without a path.")
    repeated = table["path"][table["path"].duplicated()]
    if len(repeated):
        raise UserError(f"{name} has {len(repeated)} repeated paths, the first is '{repeated.iloc[0]}'.")
    nameless = table["class_name"].isna() | (table["class_name"].astype(str) == "")
    if nameless.any():
        raise UserError(f"{name} has a label without a class name: {table['label'][nameless].iloc[0]}.")
    names = table.groupby("label")["class_name"].nunique()
    if (names > 1).any():
        raise UserError(f"{name} gives the label {names.index[names > 1][0]} to several class names.")
    sizes = table["label"].value_counts()
    counted = {"images": len(table), "classes": len(sizes), "singles": int((sizes == 1).sum())}
    for what, number in expected.items():
        if what == "splits":
            continue
        if what not in counted:
            raise UserError(f"`expected` of {name} has the key '{what}': {nearest(what, [*counted, 'splits'])}.")
        if counted[what] != number:
            raise UserError(
                f"{name} has {counted[what]} {what}, but {number} are expected: its files are not the published ones."
            )
    for split in expected.get("splits", []):
        _check_split(table, split, name)
    return counted


def _check_split(table: pd.DataFrame, expected: dict, name: str | Path) -> None:
    """What is known of a published split, such as ``{scheme: class_halves, images: {train: 5864, test: 5924}}``.

    With ``sha256`` it is known image by image: the hash of each role's list (:func:`names_sha256`).
    """
    scheme = {key: value for key, value in expected.items() if key not in ("images", "sha256")}
    columns = {"super_labels": table["super_label"], "roles": table["role"]}
    split = make_split(table["label"], scheme, **columns, note=False)
    check_disjoint(split, table["label"])
    for number, fold in enumerate(split["folds"]):
        sizes = {role: len(images) for role, images in fold.items()}
        if sizes != expected["images"]:
            raise UserError(
                f"{name}, split by {scheme['scheme']}, has {_sizes(sizes)} images in fold {number}, but "
                f"{_sizes(expected['images'])} are expected: its files are not the published ones."
            )
        for role, known in expected.get("sha256", {}).items():
            if names_sha256(table.iloc[fold[role]]) != known:
                raise UserError(
                    f"{name}, split by {scheme['scheme']}, has other images or labels in '{role}' than the published "
                    f"list (sha256 {known[:12]}…): its files are not the published ones."
                )


def names_sha256(rows: pd.DataFrame) -> str:
    """The hash of a published list, whatever its order and the folder it is relative to: sorted "label name" lines."""
    names = rows["path"].str.rsplit("/", n=1).str[-1]
    lines = sorted(f"{label} {name}\n" for label, name in zip(rows["label"], names, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{role} {number}" for role, number in sizes.items())


def parser(name: str) -> Callable[[dict, Path, Path, int], pd.DataFrame]:
    """A built-in parser by name, or the user's own by ``module:function``."""
    if name in BUILT_IN:
        return load(BUILT_IN[name], "parser")
    if ":" not in name:
        raise UserError(f"There is no parser '{name}': {nearest(name, BUILT_IN)}, or your own as module:function.")
    function = load(name, "parser")
    return lambda dataset, downloads, images, workers: function(dataset, downloads, images)
