"""Helpers for the parsers of published datasets: read annotation tables and compare them with the images on the disk.

Every inconsistency is an error that names the file and the first few offending entries: a benchmark result from an
incomplete dataset, or from shifted labels, is worse than no result.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from recheck.data.found_images import SUFFIXES
from recheck.errors import UserError, nearest
from recheck.files import below, check_name, walk

SHOWN, LONGEST = 5, 200
"""How many names a message shows, and how many characters of each."""


def find(name: str, folders: Iterable[Path], dataset: dict) -> Path:
    """The path of an annotation file, in the first folder that contains it."""
    folders = list(folders)
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"The annotation file {name} of dataset '{dataset['name']}' is missing from {_or(map(str, folders))}: "
        "put it there, or delete the dataset's folder and run again."
    )


def read_text(path: Path) -> str:
    """The text of an annotation file in UTF-8; a byte order mark, which some editors add, is left out."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is damaged (not a text file in UTF-8): restore it and run again.") from None


def read_rows(path: Path, columns: list[str], skip: int = 0) -> pd.DataFrame:
    """A table of whitespace-separated fields, without its first ``skip`` lines."""
    lines = read_text(path).splitlines()
    rows = [line.split() for line in lines[skip:]]
    while rows and not rows[-1]:
        rows.pop()
    for number, row in enumerate(rows, start=skip + 1):
        if len(row) != len(columns):
            raise UserError(
                f"{path} is damaged (line {number} is '{lines[number - 1][:LONGEST]}', expected {len(columns)} fields: "
                f"{', '.join(columns)}): restore it and run again."
            )
    if not rows:
        raise UserError(f"{path} is damaged (it has no rows): restore it and run again.")
    return pd.DataFrame(rows, columns=columns)


def whole_numbers(table: pd.DataFrame, column: str, path: Path) -> pd.Series:
    wrong = table[column][~table[column].str.fullmatch(r"\d{1,18}")]
    if len(wrong):
        raise UserError(
            f"{path} is damaged (column {column} has '{wrong.iloc[0][:LONGEST]}', expected a whole number): "
            "restore it and run again."
        )
    return table[column].astype("int64")


def unique(table: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a table with repeated values in a column."""
    repeated = table[column][table[column].duplicated()].unique()
    if len(repeated):
        raise UserError(
            f"{path} is damaged (column {column} repeats {_count(repeated, 'value')}: {some(repeated)}): "
            "restore it and run again."
        )


def images_below(folder: Path) -> set[str]:
    """Relative paths of all image files below a folder; hidden files, such as macOS's `._` files, are ignored."""
    images: set[str] = set()
    for entry in walk(folder, skip=lambda name: name[0] == "." or name == "__MACOSX"):
        if os.path.splitext(entry.name)[1].lower() in SUFFIXES:  # noqa: PTH122 (half a million)
            check_name(entry.path)
            images.add(below(entry, folder))
    return images


def compare(listed: Iterable[str], present: set[str], table: str | Path, folder: Path, dataset: dict) -> None:
    """Refuse labels without an image and images without a label (unless ``options: {unlisted: ignore}``)."""
    listed = pd.Series(list(listed), dtype=str)
    repeated = listed[listed.duplicated()].unique()
    if len(repeated):
        raise UserError(
            f"{table} lists {_count(repeated, 'image')} more than once: {some(repeated)}; restore it and run again."
        )
    named = set(listed)
    missing = sorted(named - present)
    if missing:
        raise UserError(
            f"{table} lists {_count(missing, 'image')} missing from {folder}: {some(missing)}; restore the images "
            "(or delete the dataset's folder, to unpack it again) and run again."
        )
    extra = sorted(present - named)
    if extra and choice(dataset, "unlisted", ("refuse", "ignore")) == "refuse":
        raise UserError(
            f"{folder} has {_count(extra, 'image')} without a label in {table}: {some(extra)}; remove images that do "
            "not belong to the dataset, or set `options: {unlisted: ignore}` in "
            f"config/datasets/{dataset['name']}.yaml."
        )


def choice(dataset: dict, option: str, known: tuple[str, ...]) -> str:
    """The value of a dataset's option, checked; the first known value is the default."""
    value = (dataset.get("options") or {}).get(option, known[0])
    if value not in known:
        raise UserError(
            f"'options.{option}' of dataset '{dataset['name']}' is {value!r}; {nearest(str(value), known)}."
        )
    return value


def home(images: Path, name: str, has: Callable[[Path], bool]) -> Path:
    """The folder in which a dataset's tree begins: the archive's top folder below the image root, or the root."""
    return next((folder for folder in (images / name, images) if has(folder)), images / name)


def index(rows: pd.DataFrame) -> pd.DataFrame:
    """An index with all columns: super_label and role are empty if the dataset has none."""
    return rows.assign(**{column: "" for column in ("super_label", "role") if column not in rows.columns})


def some(names: Iterable) -> str:
    """The first few names, and how many more there are."""
    names = [str(name)[:LONGEST] for name in names]
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _count(items: Iterable, noun: str) -> str:
    number = len(list(items))
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _or(words: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(words))
