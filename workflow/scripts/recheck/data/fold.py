"""The images of one fold, with their labels and roles."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recheck.data.index import read_labels
from recheck.data.packed import PackedImages
from recheck.data.splits import read_split
from recheck.errors import UserError
from recheck.files import read_json, sha256


@dataclass(frozen=True)
class FoldData:
    """The packed images, their labels and super-labels, and the image numbers of each role (train, val, test, …)."""

    images: PackedImages
    labels: np.ndarray
    roles: dict[str, np.ndarray]
    super_labels: np.ndarray | None = None

    @property
    def shapes(self) -> np.ndarray:
        """Height and width of each image that has a role."""
        return self.images.shapes[np.unique(np.concatenate(list(self.roles.values())))]

    @classmethod
    def load(cls, index: str | Path, split: str | Path, pack: str | Path, fold: int) -> "FoldData":
        """Read index, split and packed images, and check that all three belong together.

        Only an image's number links its label to its pixels, so a mismatch would go unnoticed. An ensemble may have
        more members than the split has folds; the members then cycle through the folds.
        """
        images, expected, stored = PackedImages(pack), sha256(index), read_json(split)
        if not isinstance(stored, dict) or not isinstance(stored.get("folds"), list):
            raise UserError(f"{split} is not a split file: delete it and run again.")
        for source, made_from in ((pack, images.about["index_sha256"]), (split, stored.get("index_sha256"))):
            if made_from != expected:
                raise UserError(f"{source} was made from another version of {index}: delete it and run again.")
        labels, super_labels = read_labels(index)
        roles = read_split(split, fold % max(len(stored["folds"]), 1))
        return cls(images, labels, roles, super_labels)
