"""What the parsers of published datasets share: reading their tables, and comparing them with the images on the disk.

Whatever does not fit is an error that names the file and the first few of what is wrong: a benchmark number on part
of a dataset, or on shifted labels, is worse than none.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from recheck.data.folder import SUFFIXES
from recheck.errors import UserError, nearest

SHOWN = 5


def find(name: str, folders: Iterable[Path], dataset: dict) -> Path:
    """The annotation file in the first of the folders that has it."""
    folders = list(folders)
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"The annotation file {name} of '{dataset['name']}' is missing: it should be in {_or(map(str, folders))}; "
        "put it there, or delete the dataset's folder and run again."
    )


def read_rows(path: Path, columns: list[str], skip: int = 0) -> pd.DataFrame:
    """A table of fields that are separated by blanks; ``skip`` lines at its head are not rows."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file: it is damaged, restore it and run again.") from None
    rows = [line.split() for line in lines[skip:]]
    while rows and not rows[-1]:
        rows.pop()
    for number, row in enumerate(rows, start=skip + 1):
        if len(row) != len(columns):
            raise UserError(
                f"{path}, line {number}: expected {len(columns)} fields ({', '.join(columns)}), found "
                f"'{lines[number - 1][:80]}'; the file is damaged, restore it and run again."
            )
    if not rows:
        raise UserError(f"{path} has no rows: it is damaged, restore it and run again.")
    return pd.DataFrame(rows, columns=columns)


def whole_numbers(table: pd.DataFrame, column: str, path: Path) -> pd.Series:
    wrong = table[column][~table[column].str.fullmatch(r"\d{1,18}")]
    if len(wrong):
        raise UserError(f"{path}: '{wrong.iloc[0]}' in the column {column} is not a number.")
    return table[column].astype("int64")


def unique(table: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a table that says something twice."""
    repeated = table[column][table[column].duplicated()].unique()
    if len(repeated):
        raise UserError(f"{path} has {_count(repeated, 'value')} of {column} more than once: {some(repeated)}.")


def images_below(folder: Path) -> set[str]:
    """Paths of the image files below a folder; hidden ones (and the `._` files of macOS) do not count."""
    found: set[str] = set()
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        below = Path(where).relative_to(folder).as_posix()
        prefix = "" if below == "." else f"{below}/"
        found.update(
            f"{prefix}{name}"
            for name in files
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 (half a million)
        )
    return found


def compare(listed: Iterable[str], present: set[str], table: str | Path, folder: Path, dataset: dict) -> None:
    """Every image has a label and every label an image; ``options: {unlisted: ignore}`` forgives images without one."""
    listed = pd.Series(list(listed), dtype=str)
    repeated = listed[listed.duplicated()].unique()
    if len(repeated):
        raise UserError(f"{table} lists {_count(repeated, 'image')} more than once: {some(repeated)}.")
    named = set(listed)
    missing = sorted(named - present)
    if missing:
        raise UserError(
            f"{table} lists {_count(missing, 'image')} that {'are' if len(missing) > 1 else 'is'} not in {folder}: "
            f"{some(missing)}; restore the images (delete the dataset's folder to unpack it again) and run again."
        )
    extra = sorted(present - named)
    if extra and choice(dataset, "unlisted", ("refuse", "ignore")) == "refuse":
        raise UserError(
            f"{folder} has {_count(extra, 'image')} without a label in {table}: {some(extra)}; remove what does not "
            "belong to the dataset, or write `options: {unlisted: ignore}` into "
            f"config/datasets/{dataset['name']}.yaml."
        )


def choice(dataset: dict, option: str, known: tuple[str, ...]) -> str:
    """One of the dataset's options; the first known value is the default."""
    value = (dataset.get("options") or {}).get(option, known[0])
    if value not in known:
        raise UserError(
            f"`options.{option}` of the dataset '{dataset['name']}' is {value!r}: {nearest(str(value), known)}."
        )
    return value


def home(images: Path, name: str, has: Callable[[Path], bool]) -> Path:
    """Where a dataset's tree begins: the archive's own folder below the image root, or the root itself."""
    return next((folder for folder in (images / name, images) if has(folder)), images / name)


def index(rows: pd.DataFrame) -> pd.DataFrame:
    """An index from its columns; what a dataset does not have is empty."""
    return rows.assign(**{column: "" for column in ("super_label", "role") if column not in rows.columns})


def some(names: Iterable) -> str:
    """The first few of many names."""
    names = [str(name) for name in names]
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _count(what: Iterable, noun: str) -> str:
    number = len(list(what))
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _or(words: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(words))
