"""Images that are already on the disk: a folder of class folders, or a table of paths and labels."""

import os
from pathlib import Path, PurePosixPath

import pandas as pd

from recheck.errors import UserError

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}


def parse_folder(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """One class a folder, in the order of their names. Hidden entries, other files and deeper folders are ignored."""
    images = Path(images)
    if not images.is_dir():
        raise UserError(
            f"The image folder {images} of '{dataset['name']}' does not exist: put one folder a class there, "
            "or set `root`."
        )
    rows = []
    for folder in sorted(entry for entry in images.iterdir() if entry.is_dir() and not entry.name.startswith(".")):
        files = sorted(entry.name for entry in folder.iterdir() if _is_image(entry))
        rows += [(f"{folder.name}/{name}", folder.name) for name in files]
    if not rows:
        raise UserError(
            f"No images in the class folders of {images}: it needs <class>/<image> with one of the suffixes "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    index = pd.DataFrame(rows, columns=["path", "class_name"])
    index["label"] = pd.factorize(index["class_name"])[0]
    return index.assign(super_label="", role="")


def parse_csv(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """A table with ``path`` (below the image root), ``label`` and, if known, ``class_name``, ``super_label``, ``role``.

    Labels that are whole numbers keep their values; anything else is a class name, numbered in sorted order.
    """
    if not dataset.get("csv"):
        raise UserError(
            f"The dataset '{dataset['name']}' has the parser csv, so it needs the key `csv`: the path of its table."
        )
    table = Path(dataset["csv"])
    if not table.is_file():
        raise UserError(f"The table {table} of '{dataset['name']}' does not exist: correct the key `csv`.")
    try:
        index = pd.read_csv(table, dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{table} is not a table of comma-separated values ({error}).") from None
    if not isinstance(index.index, pd.RangeIndex):
        raise UserError(f"{table} has rows with more values than there are columns.")
    for column in ("path", "label"):
        if column not in index.columns:
            raise UserError(f"{table} has no column '{column}'; it has: {', '.join(index.columns)}.")
    empty = index.index[index["label"].str.strip() == ""]
    if len(empty):
        raise UserError(f"{table} has no label in line {empty[0] + 2}.")
    outside = [path for path in index["path"] if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts]
    if outside:
        raise UserError(
            f"{table} has a path that leaves the image folder: '{outside[0]}'. Paths are relative to `root`."
        )
    if "class_name" not in index.columns:
        index["class_name"] = index["label"]
    index["label"] = _numbers(index["label"])
    for column in ("super_label", "role"):
        if column not in index.columns:
            index[column] = ""
    return index


def images_below(folder: str | Path) -> tuple[list[Path], int]:
    """All image files of a folder and its subfolders, by path, and how many other files there are.

    Hidden entries are ignored, and links to folders are not followed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    images, others = [], 0
    for place, folders, files in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        entries = [Path(place, name) for name in files if not name.startswith(".")]
        found = [entry for entry in entries if _is_image(entry)]
        images += found
        others += len(entries) - len(found)
    return sorted(images), others


def _refuse_folder(error: OSError) -> None:
    raise UserError(f"The folder {error.filename} cannot be read ({error.strerror}).") from error


def _is_image(entry: Path) -> bool:
    return entry.suffix.lower() in SUFFIXES and not entry.name.startswith(".") and entry.is_file()


def _numbers(labels: pd.Series) -> pd.Series:
    stripped = labels.str.strip()
    if stripped.str.fullmatch(r"-?\d{1,18}").all():
        return stripped.astype("int64")
    return pd.Series(pd.factorize(stripped, sort=True)[0], index=labels.index, dtype="int64")
