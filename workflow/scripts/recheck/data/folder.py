"""Parsers for the user's images: a folder of class folders, or a table of paths and labels."""

import logging
from pathlib import Path, PurePosixPath

import pandas as pd

from recheck.data.found_images import SUFFIXES, is_image
from recheck.errors import UserError
from recheck.files import check_name

log = logging.getLogger("recheck")
SHOWN = 3  # skipped entries that a warning names


def parse_folder(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index of a folder with one subfolder per class, in alphabetical order.

    Hidden entries are ignored. Files that are not images, images outside class folders and deeper folders are skipped,
    and one warning counts them.
    """
    images = Path(images)
    if not images.is_dir():
        raise UserError(
            f"The image folder {images} of dataset '{dataset['name']}' does not exist: create it with one subfolder "
            "per class, or correct the key 'root'."
        )
    rows, skipped = [], [entry for entry in _visible(images) if not entry.is_dir()]
    for folder in (entry for entry in _visible(images) if entry.is_dir()):
        entries = _visible(folder)
        for entry in entries:
            check_name(entry)
        rows += [(f"{folder.name}/{entry.name}", folder.name) for entry in entries if is_image(entry)]
        skipped += [entry for entry in entries if not is_image(entry)]
    if not rows:
        raise UserError(
            f"{images} has no images in class folders: add files <class>/<image> with one of the suffixes "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    if skipped:
        names = ", ".join(str(entry.relative_to(images)) for entry in skipped[:SHOWN])
        log.warning(
            "%s: skipped %d %s (%s%s), because only images directly inside class folders are used.",
            images, len(skipped), "entry" if len(skipped) == 1 else "entries", names, ", …" * (len(skipped) > SHOWN),
        )  # fmt: skip
    index = pd.DataFrame(rows, columns=["path", "class_name"])
    index["label"] = pd.factorize(index["class_name"])[0]
    return index.assign(super_label="", role="")


def parse_csv(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from a table with ``path`` (below the image root), ``label`` and optional other index columns.

    Labels that are all whole numbers keep their values; otherwise labels are class names, numbered in sorted order.
    """
    if not dataset.get("csv"):
        raise UserError(
            f"Dataset '{dataset['name']}' uses the parser csv but has no key 'csv': set it to the path of the table."
        )
    table = Path(dataset["csv"])
    if not table.is_file():
        raise UserError(f"The table {table} of dataset '{dataset['name']}' does not exist: correct the key 'csv'.")
    try:
        index = pd.read_csv(table, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{table} is not a valid CSV file ({error}): correct it and run again.") from None
    if not isinstance(index.index, pd.RangeIndex):
        raise UserError(f"{table} has rows with more values than columns: correct it and run again.")
    for column in ("path", "label"):
        if column not in index.columns:
            raise UserError(f"{table} has no column '{column}', only {', '.join(index.columns)}: add it and run again.")
    empty = index.index[index["label"].str.strip() == ""]
    if len(empty):
        raise UserError(f"{table}, line {empty[0] + 2}: the label is empty. Add it and run again.")
    outside = [path for path in index["path"] if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts]
    if outside:
        raise UserError(
            f"{table} has the path '{outside[0]}', which leads out of the image folder: paths must be relative to "
            "'root'."
        )
    if "class_name" not in index.columns:
        index["class_name"] = index["label"]
    index["label"] = _numbers(index["label"])
    for column in ("super_label", "role"):
        if column not in index.columns:
            index[column] = ""
    return index


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _numbers(labels: pd.Series) -> pd.Series:
    stripped = labels.str.strip()
    if stripped.str.fullmatch(r"-?\d{1,18}").all():
        return stripped.astype("int64")
    return pd.Series(pd.factorize(stripped, sort=True)[0], index=labels.index, dtype="int64")
