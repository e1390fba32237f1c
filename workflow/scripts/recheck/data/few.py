"""A handful of images to try a study with, from what is already on the disk; nothing is fetched or written."""

from pathlib import Path
from typing import Any

import numpy as np

from recheck.data.fold import FoldData
from recheck.data.images import decode, reading_of, resized
from recheck.data.index import make_index, read_index
from recheck.data.packed import PackedImages, read_about
from recheck.data.splits import make_split, searched
from recheck.files import sha256
from recheck.resize import Resize

CLASSES, PER_CLASS = 8, 4
"""Classes of a role that is evaluated, and images per class."""
INVENTED_CLASSES, INVENTED_PER_CLASS, LARGE = 264, 8, 256


class DecodedImages:
    """The images of an index, decoded on access."""

    def __init__(self, paths: list[Path], resize: Resize, reading: dict[str, Any]):
        self.paths, self.resize, self.reading = paths, resize, reading

    def image(self, number: int) -> np.ndarray:
        return decode(self.paths[number], self.resize, self.reading)


class InventedImages:
    """Noise around one colour per class, in a different shade for each image, so that the classes overlap."""

    def __init__(self, labels: np.ndarray, side: int):
        self.labels, self.side = labels, side

    def image(self, number: int) -> np.ndarray:
        colour = np.random.RandomState(self.labels[number]).randint(96, 160, 3)
        shade = np.random.RandomState(number)
        return (colour + shade.randint(-32, 32, 3) + shade.randint(-64, 64, (self.side, self.side, 3))).astype(np.uint8)


def few_images(source: dict[str, Any]) -> tuple[FoldData, str]:
    """Images of the first fold, and a sentence about where they come from.

    ``source`` describes a dataset of a study: its ``index``, ``pack``, ``root``, ``parser``, ``reading``, ``resize``,
    ``scheme`` and ``classes``, and whether it has ``downloads``. The training role keeps all of its images; other roles
    keep a few images of a few classes. Without images on the disk, noise replaces them.
    """
    index, pack = Path(source["index"]), Path(source["pack"])
    if index.is_file():
        table, about = read_index(index), str(index)
    elif not source["downloads"]:
        table, about = make_index(source["parser"], index.parent, source["root"]), str(source["root"])
    else:
        return noise(source["resize"]), (
            f"noise instead of images, because {index} does not exist yet (`snakemake --cores all data --config "
            f"datasets=[{source['parser']['name']}]` creates it)"
        )
    images: Any
    is_packed = index.is_file() and (pack / "pack.json").is_file()
    if is_packed and read_about(pack / "pack.json")["index_sha256"] == sha256(index):
        images, about = PackedImages(pack), f"{about}, packed in {pack}"
    else:
        paths = [Path(source["root"], path) for path in table["path"]]
        if not paths[0].is_file():
            return noise(source["resize"]), f"noise instead of images, because {paths[0]} does not exist"
        images = DecodedImages(paths, source["resize"], reading_of(source["reading"]))
    columns = {"super_labels": table["super_label"], "roles": table["role"]}
    split = make_split(table["label"], source["scheme"], source["classes"], **columns, note=False)
    labels = table["label"].to_numpy()
    roles = {role: np.array(numbers, np.int64) for role, numbers in split["folds"][0].items()}
    small = {role: numbers if role == "train" else _handful(numbers, labels) for role, numbers in roles.items()}
    return FoldData(images, labels, small, table["super_label"].to_numpy().astype(str)), f"images of {about}"


def noise(resize: Resize) -> FoldData:
    """Noise instead of the images of a dataset with this resize."""
    return _invented(min(resized(LARGE, LARGE, resize)))


def _handful(numbers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The first images of the first classes that have two or more."""
    values, counts = np.unique(labels[numbers], return_counts=True)
    chosen = [numbers[labels[numbers] == value][:PER_CLASS] for value in values[counts > 1][:CLASSES]]
    return np.sort(np.concatenate(chosen)) if chosen else numbers[:PER_CLASS]


def _invented(side: int) -> FoldData:
    labels = np.repeat(np.arange(INVENTED_CLASSES), INVENTED_PER_CLASS)
    train = np.flatnonzero(labels < INVENTED_CLASSES - CLASSES)
    other = _handful(np.flatnonzero(labels >= INVENTED_CLASSES - CLASSES), labels)
    roles = {"train": train, **dict.fromkeys(("val", "test", "index", "seen_queries", "unseen_queries"), other)}
    return FoldData(InventedImages(labels, side), labels, roles, np.where(labels % 2, "odd", "even"))


def evaluated_role(data: FoldData) -> str:
    """The role to evaluate if the study names none: validation images, or test images."""
    return "val" if "val" in data.roles else searched(data.roles, "test")[0]
