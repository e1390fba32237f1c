"""In-Shop (DeepFashion): 52,712 photos of 7,982 pieces of clothing.

Images are in the order of list_eval_partition.txt. Labels number the items in the order of their first appearance, and
roles are the official ones: train, query and gallery.
"""

from pathlib import Path

import pandas as pd

from recheck.data import annotations
from recheck.errors import UserError

LIST = "list_eval_partition.txt"
ROLES = ("train", "query", "gallery")
FOLDERS = (".", "Img", "In-shop Clothes Retrieval Benchmark", "In-shop Clothes Retrieval Benchmark/Img")


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """The index from the official partition."""
    path = annotations.find(LIST, [downloads, images, images / "Eval", images / "Anno"], dataset)
    table = annotations.read_rows(path, ["path", "item", "role"], skip=2)
    _check(path, table)
    home = _home(images)
    present = {f"img/{name}" for name in annotations.images_below(home / "img")}
    annotations.compare(table["path"], present, path, home, dataset)
    below = home.relative_to(images).as_posix()
    return pd.DataFrame(
        {
            "path": table["path"] if below == "." else below + "/" + table["path"],
            "label": pd.factorize(table["item"])[0],
            "class_name": table["item"],
            "super_label": table["path"].str.split("/").str[1:3].str.join("/"),
            "role": table["role"],
        }
    )


def _check(path: Path, table: pd.DataFrame) -> None:
    count = annotations.read_text(path).split(maxsplit=1)[0]
    if count != str(len(table)):
        raise UserError(
            f"{path} is damaged ({len(table)} rows, but its first line says {count}): restore it and run again."
        )
    unknown = table[~table["role"].isin(ROLES)]
    if len(unknown):
        raise UserError(
            f"{path} is damaged (role '{unknown['role'].iloc[0]}' of {unknown['path'].iloc[0]}, expected one of "
            f"{', '.join(ROLES)}): restore it and run again."
        )

    folder = table["path"].str.split("/").str[-2]
    wrong = table[folder != table["item"]]
    if len(wrong):
        raise UserError(
            f"{path} gives {wrong['path'].iloc[0]} the item {wrong['item'].iloc[0]}, which is not the name of its "
            "folder: restore it and run again."
        )


def _home(images: Path) -> Path:
    """The folder that contains `img`."""
    for folder in FOLDERS:
        if (images / folder / "img").is_dir():
            return images / folder
    high = next((images / folder for folder in FOLDERS if (images / folder / "img_highres").is_dir()), None)
    if high is not None:
        raise UserError(
            f"{high}/img_highres has the high-resolution images, but the benchmark uses the images of img.zip "
            "(256 pixels): unpack img.zip instead."
        )
    raise UserError(f"Folder img of In-Shop is missing below {images}: unpack img.zip there.")
