"""iNaturalist 2021, the small training set ("mini"): 500,000 photos of 10,000 species, 50 per species.

The label is the number at the start of a species' folder name, which is the category's id in train_mini.json; the
super-label is the supercategory (Birds, Fungi, …). Images are sorted by path, which keeps the images of a species
together.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

LIST = "train_mini.json"
KEPT = {"images", "annotations", "categories", "id", "image_id", "category_id", "file_name", "name", "supercategory"}


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from train_mini.json."""
    path = annotations.find(LIST, [images, downloads], dataset)
    listed, categories = _read(path)
    listed["label"] = _labels(listed, path)
    rows = listed.join(categories, on="category_id")
    lost = rows[rows["class_name"].isna()]
    if len(lost):
        raise UserError(
            f"{path} has {len(lost)} images of an undefined category ({lost['category_id'].iloc[0]}): "
            "restore it and run again."
        )
    outside = rows["path"][rows["path"].str.contains(r"^/|(?:^|/)\.\.(?:/|$)", regex=True)]
    if len(outside):
        raise UserError(f"{path} lists {outside.iloc[0]}, which is outside of {images}: restore it and run again.")
    top = {name.split("/")[0] for name in rows["path"]}
    present = {f"{folder}/{name}" for folder in top for name in annotations.images_below(images / folder)}
    annotations.compare(rows["path"], present, path, images, dataset)
    rows = rows.sort_values("path", ignore_index=True)
    return annotations.index(rows[["path", "label", "class_name", "super_label"]])


def _read(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of images and categories. Unused keys are dropped while reading, because the file is 200 MB."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            content = json.load(file, object_hook=lambda entry: {key: entry[key] for key in KEPT & entry.keys()})
        pictures = _table(content, "images", ["id", "file_name"])
        given = _table(content, "annotations", ["image_id", "category_id"])
        kinds = _table(content, "categories", ["id", "name", "supercategory"])
        _check_types(pictures, given, kinds)
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is not iNaturalist's list of images ({error}): restore it and run again.") from None
    annotations.unique(pictures, "id", path)
    annotations.unique(given, "image_id", path)
    annotations.unique(kinds, "id", path)
    for left, right, problem in (
        (pictures["id"], given["image_id"], "without an annotation"),
        (given["image_id"], pictures["id"], "with an annotation but no entry in 'images'"),
    ):
        lost = left[~left.isin(right)]
        if len(lost):
            raise UserError(
                f"{path} has image ids {problem} ({len(lost)}): {annotations.some(lost)}; restore it and run again."
            )
    listed = pictures.merge(given, left_on="id", right_on="image_id").rename(columns={"file_name": "path"})
    kinds = kinds.rename(columns={"name": "class_name", "supercategory": "super_label"})
    return listed[["path", "category_id"]], kinds.set_index("id")


def _table(content: Any, key: str, columns: list[str]) -> pd.DataFrame:
    entries = content.get(key) if isinstance(content, dict) else None
    complete = isinstance(entries, list) and all(
        isinstance(entry, dict) and {*columns} <= {*entry} for entry in entries
    )
    if not entries or not complete:
        raise TypeError(f"'{key}' must be a list of objects with {', '.join(columns)}")
    return pd.DataFrame(entries)[columns]


def _check_types(pictures: pd.DataFrame, given: pd.DataFrame, kinds: pd.DataFrame) -> None:
    for table in (pictures, given, kinds):
        for column in table:
            if "id" in column.split("_"):
                if not pd.api.types.is_integer_dtype(table[column]):
                    raise TypeError(f"column {column} has values that are not whole numbers")
            elif not all(isinstance(value, str) for value in table[column]):
                raise TypeError(f"column {column} has values that are not text")


def _labels(listed: pd.DataFrame, path: Path) -> pd.Series:
    folder = listed["path"].str.split("/").str[-2]
    number = folder.str.extract(r"^(\d{1,18})_", expand=False)
    wrong = listed[number.isna() | (number.fillna("-1").astype("int64") != listed["category_id"])]
    if len(wrong):
        row = wrong.iloc[0]
        raise UserError(
            f"{path} gives {row['path']} the category {row['category_id']}, which is not the number of its folder: "
            "restore it and run again."
        )
    return number.astype("int64")
