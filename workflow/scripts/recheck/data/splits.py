"""Which images are for what: split schemes, and the split file.

A scheme is a function ``scheme(labels, options) -> folds`` in ``SCHEMES``. A fold maps a role (train, val,
test, or others) to image numbers in the dataset's order; nothing is shuffled.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from recheck.errors import UserError, nearest
from recheck.files import read_json

log = logging.getLogger("recheck")
Fold = dict[str, list[int]]


def subset(labels: Iterable[int], classes: dict | None) -> np.ndarray:
    """The label values that take part, sorted: all, ``{every: k}`` (each k-th, from the first) or ``{first: n}``."""
    values = np.unique(np.asarray(labels, dtype=np.int64))
    if not classes:
        return values
    known = {"every", "first"}
    word = next(iter(classes))
    if len(classes) != 1 or word not in known:
        raise UserError(f"`classes` has one key, not {', '.join(map(repr, classes))}: {nearest(word, known)}.")
    number = classes[word]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UserError(f"`classes: {{{word}: …}}` needs a whole number of at least 1, not {number!r}.")
    if word == "first" and number > len(values):
        raise UserError(f"`classes: {{first: {number}}}` asks for more classes than the {len(values)} of the dataset.")
    return values[::number] if word == "every" else values[:number]


def make_split(labels: Iterable[int], scheme: dict, classes: dict | None = None) -> dict:
    """Apply a scheme (``{scheme: class_disjoint_folds, folds: 4}``) to the images of the chosen classes.

    The result has the scheme, the number of classes and the folds; image numbers are those of the whole dataset.
    """
    labels = np.asarray(labels, dtype=np.int64)
    name = scheme.get("scheme", "")
    if name not in SCHEMES:
        raise UserError(f"There is no split scheme '{name}': {nearest(str(name), SCHEMES)}.")
    options = {key: value for key, value in scheme.items() if key != "scheme"}
    chosen = subset(labels, classes)
    images = np.flatnonzero(np.isin(labels, chosen))
    _note_single_images(labels[images])
    folds = [
        {role: images[members].tolist() for role, members in fold.items()}
        for fold in SCHEMES[name](labels[images], options)
    ]
    return {"scheme": dict(scheme), "classes": len(chosen), "folds": folds}


def class_disjoint_folds(labels: np.ndarray, options: dict) -> list[dict[str, np.ndarray]]:
    """The second half of the classes is the test set; the first half is cut into training and validation, per fold.

    With N classes in the first half and ``folds`` k, fold p starts at class p·N // k, takes N − V classes for
    training and the next V = n // 2k for validation, going round the first half. When n is no multiple of 2k,
    some classes are in no validation set. This is the rule of A Metric Learning Reality Check.
    """
    number = _folds(options)
    values, ranks = np.unique(labels, return_inverse=True)
    n = len(values)
    half, held_out = n // 2, n // (2 * number)
    if n % 2:
        raise UserError(
            f"The scheme class_disjoint_folds needs an even number of classes, not {n}: "
            "choose a subset, e.g. `classes: {first: " + str(n - 1) + "}`."
        )
    if held_out < 2:
        raise UserError(
            f"{n} classes are too few for {number} folds: each would validate on {held_out} of them, but at least 2 "
            f"are needed. Use {4 * number} classes or more, or fewer folds."
        )
    folds = []
    for fold in range(number):
        order = (fold * half // number + np.arange(half)) % half
        train, val = order[: half - held_out], order[half - held_out :]
        roles = {"train": train, "val": val, "test": np.arange(half, n)}
        folds.append({role: np.flatnonzero(np.isin(ranks, members)) for role, members in roles.items()})
    return folds


def _folds(options: dict) -> int:
    unknown = [key for key in options if key != "folds"]
    if unknown:
        raise UserError(
            f"The scheme class_disjoint_folds has no option '{unknown[0]}': {nearest(unknown[0], ['folds'])}."
        )
    number = options.get("folds")
    if not isinstance(number, int) or isinstance(number, bool) or number < 2:
        raise UserError(f"`folds` of the split scheme must be a whole number of at least 2, not {number!r}.")
    return number


def _note_single_images(labels: np.ndarray) -> None:
    values, counts = np.unique(labels, return_counts=True)
    singles = values[counts == 1]
    if len(singles):
        log.warning(
            "%d of %d classes have one image only (the first is label %d): such an image can be retrieved, "
            "but nothing can be retrieved for it.",
            len(singles), len(values), singles[0],
        )  # fmt: skip


def read_split(path: str | Path, fold: int) -> dict[str, np.ndarray]:
    """One fold of a split file: the image numbers of each role, checked to be such."""
    split = read_json(path)
    folds = split.get("folds") if isinstance(split, dict) else None
    if not isinstance(folds, list) or not all(isinstance(roles, dict) and roles for roles in folds):
        raise UserError(f"{path} is not a split file: delete it and run again.")
    if not 0 <= fold < len(folds):
        raise UserError(f"{path} has {len(folds)} folds, so there is no fold {fold}.")
    for role, images in folds[fold].items():
        where = f"'{role}' of fold {fold} in {path}"
        if not isinstance(images, list) or not all(type(image) is int and image >= 0 for image in images):
            raise UserError(f"{where} is not a list of image numbers: delete the file and run again.")
        if len(set(images)) != len(images):
            raise UserError(f"{where} repeats an image: delete the file and run again.")
    return {role: np.array(images, dtype=np.int64) for role, images in folds[fold].items()}


def check_disjoint(split: dict, labels: Iterable[int], roles: Iterable[str] = ("train", "val", "test")) -> None:
    """Refuse a split in which a class, and so an image, has two of the roles in one fold."""
    labels, roles = np.asarray(labels), list(roles)
    for number, fold in enumerate(split["folds"]):
        seen: dict[int, str] = {}
        for role in roles:
            images = np.asarray(fold.get(role, []), dtype=np.int64)
            if len(images) and images.max() >= len(labels):
                raise UserError(
                    f"Fold {number} names image {images.max()}, but the index has only {len(labels)} images."
                )
            for label in np.unique(labels[images]).tolist():
                if label in seen:
                    raise UserError(f"Fold {number} has the class {label} in '{seen[label]}' and in '{role}'.")
                seen[label] = role


SCHEMES: dict[str, Callable[[np.ndarray, dict], list[dict[str, np.ndarray]]]] = {
    "class_disjoint_folds": class_disjoint_folds,
}
