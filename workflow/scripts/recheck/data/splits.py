"""Split schemes, which assign a role (train, val, test, …) to every image, and the split file.

A scheme is a function ``scheme(images, options) -> folds`` with an entry in ``SCHEMES``. A fold maps each role to image
numbers in the dataset's order; images of a class are never shuffled.

The split file has the scheme with its options (including the seed, if any), the hash of the index, the folds, and for
each fold the SHA-256 of every role's list of image numbers.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from recheck.errors import UserError, nearest
from recheck.files import read_json
from recheck.names import check_scheme

log = logging.getLogger("recheck")
Fold = dict[str, list[int]]
Roles = dict[str, np.ndarray]
REMEDY = "correct the roles in the dataset's table, or choose another scheme"


@dataclass(frozen=True)
class Images:
    """The input of a scheme: columns of the index, for the images of the chosen classes."""

    labels: np.ndarray
    super_labels: np.ndarray
    roles: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.labels)


@dataclass(frozen=True)
class Scheme:
    """The implementation of a scheme of ``recheck.names.SCHEMES``."""

    split: Callable[[Images, dict], list[Roles]]
    share: tuple[frozenset[str], ...] = ()  # pairs of roles that may share classes


def subset(labels: Iterable[int], classes: dict | None) -> np.ndarray:
    """The sorted labels to use: all, ``{every: k}`` (every k-th, starting with the first) or ``{first: n}``.

    With both, ``first`` counts the classes that ``every`` leaves.
    """
    values = np.unique(np.asarray(labels, dtype=np.int64))
    known = ("every", "first")
    for word, number in (classes or {}).items():
        if word not in known:
            raise UserError(f"Unknown key '{word}' in 'classes'; {nearest(word, known)}.")
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UserError(f"'classes.{word}' must be a whole number of at least 1, found {number!r}.")
    every, first = ((classes or {}).get(word) for word in known)
    values = values[::every]
    if first is not None and first > len(values):
        left = f" after 'classes.every' ({every})" if every else ""
        raise UserError(f"'classes.first' is {first}, but the dataset has only {len(values)} classes{left}: lower it.")
    return values[:first]


def make_split(
    labels: Iterable[int],
    scheme: dict,
    classes: dict | None = None,
    super_labels: Sequence[str] | None = None,
    roles: Sequence[str] | None = None,
    note: bool = True,
) -> dict:
    """The split by a scheme, such as ``{scheme: class_disjoint_folds, folds: 4}``, of the chosen classes.

    ``labels``, ``super_labels`` and ``roles`` are columns of the index. The result has the scheme, the number of
    classes, the folds and their hashes; image numbers refer to the whole dataset.
    """
    labels = np.asarray(labels, dtype=np.int64)
    options = check_scheme(scheme)
    chosen = subset(labels, classes)
    images = np.flatnonzero(np.isin(labels, chosen))
    if note:
        _note_single_images(labels[images])
    selected = Images(labels[images], *(_column(column, len(labels))[images] for column in (super_labels, roles)))
    folds = [
        {role: images[members].tolist() for role, members in fold.items()}
        for fold in SCHEMES[scheme["scheme"]].split(selected, options)
    ]
    hashes = [{role: list_sha256(members) for role, members in fold.items()} for fold in folds]
    return {"scheme": dict(scheme), "classes": len(chosen), "folds": folds, "sha256": hashes}


def list_sha256(images: Iterable[int]) -> str:
    """The hash of a role's list: its image numbers as decimals, one per line."""
    return hashlib.sha256("\n".join([*map(str, images), ""]).encode()).hexdigest()


def _column(values: Sequence[str] | None, length: int) -> np.ndarray:
    return np.full(length, "") if values is None else np.asarray(values, dtype=str)


# The schemes


def class_disjoint_folds(images: Images, options: dict) -> list[Roles]:
    """The second half of the classes is the test set; each fold divides the first half into training and validation.

    With n classes, N = n / 2 in the first half, and k ``folds``, fold p starts at class p·N // k, takes N − V classes
    for training and the next V = n // 2k for validation, wrapping around at the end of the first half. Unless n is a
    multiple of 2k, some classes are in no validation set. This is the rule of "A Metric Learning Reality Check".
    """
    number = options["folds"]
    values, ranks = np.unique(images.labels, return_inverse=True)
    n = len(values)
    half, held_out = n // 2, n // (2 * number)
    least = 4 * number
    if n < least or held_out < 2:
        fewer = f", or at most {n // 4} folds" if n >= 8 else ""  # a split has two folds or more
        raise UserError(
            f"{n} classes are too few for {number} folds: each fold needs at least 2 validation classes, but would "
            f"have {held_out}. Use at least {least} classes{fewer}."
        )
    if n % 2:
        raise UserError(
            f"Split scheme 'class_disjoint_folds' needs an even number of classes, found {n}: add `classes: {{first: "
            f"{n - 1}}}` to the dataset's entry in the study."
        )
    folds = []
    for fold in range(number):
        order = (fold * half // number + np.arange(half)) % half
        train, val = order[: half - held_out], order[half - held_out :]
        roles = {"train": train, "val": val, "test": np.arange(half, n)}
        folds.append({role: np.flatnonzero(np.isin(ranks, members)) for role, members in roles.items()})
    return folds


def class_halves(images: Images, options: dict) -> list[Roles]:
    """The first half of the classes, by label, for training; the second half for testing.

    Of an odd number of classes, the second half gets one more. No class is held out for validation. Most papers split
    CUB and Cars like this.
    """
    seen = _seen(images, "class_halves")
    return [{"train": np.flatnonzero(seen), "test": np.flatnonzero(~seen)}]


def official(images: Images, options: dict) -> list[Roles]:
    """The dataset's own division: the roles in its index, such as train and test, or train, query and gallery."""
    names = sorted(set(images.roles.tolist()))
    if names in ([], [""]):
        raise UserError(
            "Split scheme 'official' needs roles, but the column 'role' of the dataset's images.csv is empty: choose "
            "another scheme, or (parser csv) add a column 'role' with train, test and so on to the table."
        )
    if "" in names:
        label = images.labels[np.flatnonzero(images.roles == "")[0]]
        raise UserError(
            "Split scheme 'official' needs a role for every image, but the column 'role' of images.csv is empty for "
            f"{(images.roles == '').sum()} of {len(images.roles)} images (the first has label {label}): add the "
            "missing roles, or choose another scheme."
        )
    if "train" not in names:
        raise UserError(
            f"Split scheme 'official' needs images with the role 'train', but images.csv has only {', '.join(names)}: "
            f"{REMEDY}."
        )
    return [{name: np.flatnonzero(images.roles == name) for name in sorted(names, key=_official_order)}]


def halves_with_validation(images: Images, options: dict) -> list[Roles]:
    """``class_halves``, with the last training classes held out for validation (see ``_with_validation``)."""
    return _with_validation(class_halves(images, {}), images, options["train_percent"])


def official_with_validation(images: Images, options: dict) -> list[Roles]:
    """``official``, with the last training classes held out for validation (see ``_with_validation``)."""
    return _with_validation(official(images, {}), images, options["train_percent"])


def _with_validation(folds: list[Roles], images: Images, percent: int) -> list[Roles]:
    """Folds that keep only the first ``percent`` % of the training classes (rounded down), by label, for training."""
    new_folds = []
    for fold in folds:
        classes = np.unique(images.labels[fold["train"]])
        first = np.isin(images.labels[fold["train"]], classes[: len(classes) * percent // 100])
        if first.all() or not first.any():
            raise UserError(
                f"'train_percent' ({percent}) must leave classes for training and for validation, but {len(classes)} "
                f"training classes give {len(classes) * percent // 100} for training: change it, or use more classes."
            )
        others = {role: members for role, members in fold.items() if role != "train"}
        new_folds.append({"train": fold["train"][first], "val": fold["train"][~first], **others})
    return new_folds


def _official_order(name: str) -> tuple[int, str]:
    usual = ("train", "val", "test", "query", "gallery")
    return (usual.index(name) if name in usual else len(usual)), name


def halves_by_super_label(images: Images, options: dict) -> list[Roles]:
    """Half of the classes (rounded down) of every super-category for testing, the rest for training.

    The classes of a super-category are sorted by the SHA-256 of "seed:label", and the first half is the test set.
    Unlike a random generator, this gives the same split with every version of every library, and a class's position
    does not depend on other super-categories.
    """
    groups, codes = np.unique(images.super_labels, return_inverse=True)
    classes, places = np.unique(images.labels, return_inverse=True)
    pairs = np.unique(places * len(groups) + codes)  # one number per pair: much faster than unique rows
    pairs = np.column_stack([classes[pairs // len(groups)], pairs % len(groups)])
    labels, counts = np.unique(pairs[:, 0], return_counts=True)
    doubtful = [*labels[counts > 1].tolist(), *pairs[groups[pairs[:, 1]] == "", 0].tolist()]
    if doubtful:
        several = sorted(set(images.super_labels[images.labels == doubtful[0]].tolist()))
        raise UserError(
            f"Split scheme 'halves_by_super_label' needs one super-label per class, but class {doubtful[0]} has "
            f"{', '.join(map(repr, several))}: choose another scheme, or correct the super-labels of the dataset."
        )
    test = []
    for group in range(len(groups)):
        members = pairs[pairs[:, 1] == group, 0].tolist()
        members.sort(key=lambda label: hashlib.sha256(f"{options['seed']}:{label}".encode()).digest())
        test += members[: len(members) // 2]
    if not test:
        raise UserError(
            "Split scheme 'halves_by_super_label' leaves no class to test on, because no super-label has two classes: "
            "choose another scheme."
        )
    tested = np.isin(images.labels, test)
    return [{"train": np.flatnonzero(~tested), "test": np.flatnonzero(tested)}]


def lists_or_halves(images: Images, options: dict) -> list[Roles]:
    """The roles of the dataset's published lists, if they could be fetched; else ``halves_by_super_label``."""
    return official(images, {}) if (images.roles != "").any() else halves_by_super_label(images, options)


def seen_unseen(images: Images, options: dict) -> list[Roles]:
    """Queries of seen (trained) and of unseen classes, against one index of all classes.

    The first half of the classes is seen, the second unseen. Of every class, the first ``index_shots`` images (in the
    order of the dataset's index) are indexed, and the next ``query_shots`` images are queries. The remaining images are
    for training (seen classes) or form a separate test set (unseen classes).
    """
    index_shots, query_shots = options["index_shots"], options["query_shots"]
    seen = _seen(images, "seen_unseen")
    classes, counts = np.unique(images.labels, return_counts=True)
    if counts.min() < index_shots + query_shots:
        fewest = counts.argmin()
        raise UserError(
            f"Split scheme 'seen_unseen' needs {index_shots} + {query_shots} images of every class, but class "
            f"{classes[fewest]} has only {counts[fewest]}: lower 'index_shots' or 'query_shots'."
        )
    place = np.empty(len(images.labels), dtype=np.int64)  # position of an image within its class
    place[np.argsort(images.labels, kind="stable")] = np.arange(len(place)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    indexed, queries = place < index_shots, (place >= index_shots) & (place < index_shots + query_shots)
    rest = ~indexed & ~queries
    if not (rest & seen).any():
        raise UserError("Split scheme 'seen_unseen' leaves no image to train on: lower 'index_shots' or 'query_shots'.")
    roles = {
        "train": rest & seen,
        "test": rest & ~seen,
        "index": indexed,
        "seen_queries": queries & seen,
        "unseen_queries": queries & ~seen,
    }
    return [{role: np.flatnonzero(members) for role, members in roles.items()}]


def _seen(images: Images, scheme: str) -> np.ndarray:
    """A mask of the images in the first half of the classes."""
    classes = images.classes
    if len(classes) < 2:
        raise UserError(f"Split scheme '{scheme}' needs at least 2 classes, found {len(classes)}: use more classes.")
    return np.isin(images.labels, classes[: len(classes) // 2])


def _pairs(*pairs: tuple[str, str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(pair) for pair in pairs)


SCHEMES: dict[str, Scheme] = {
    "class_disjoint_folds": Scheme(class_disjoint_folds),
    "class_halves": Scheme(class_halves),
    "official": Scheme(official, _pairs(("query", "gallery"))),
    "halves_with_validation": Scheme(halves_with_validation),
    "official_with_validation": Scheme(official_with_validation, _pairs(("query", "gallery"))),
    "halves_by_super_label": Scheme(halves_by_super_label),
    "lists_or_halves": Scheme(lists_or_halves),
    "seen_unseen": Scheme(
        seen_unseen,
        _pairs(
            ("train", "index"), ("train", "seen_queries"), ("index", "seen_queries"),
            ("test", "index"), ("test", "unseen_queries"), ("index", "unseen_queries"),
        ),
    ),
}  # fmt: skip


def _note_single_images(labels: np.ndarray) -> None:
    values, counts = np.unique(labels, return_counts=True)
    singles = values[counts == 1]
    if len(singles):
        log.warning(
            "Classes with only one image: %d of %d (the first has label %d). Such an image can be retrieved, "
            "but has no correct match as a query.",
            len(singles), len(values), singles[0],
        )  # fmt: skip


# The split file


def read_split(path: str | Path, fold: int) -> dict[str, np.ndarray]:
    """The image numbers of each role in one fold of a split file, checked against their hashes."""
    split = read_json(path)
    folds = split.get("folds") if isinstance(split, dict) else None
    if not isinstance(folds, list) or not all(isinstance(roles, dict) and roles for roles in folds):
        raise UserError(f"{path} is not a split file: delete it and run again.")
    if not 0 <= fold < len(folds):
        raise UserError(f"{path} has no fold {fold}, only {len(folds)} folds: delete it and run again.")
    hashes = split.get("sha256", folds)
    if (
        not isinstance(hashes, list)
        or len(hashes) != len(folds)
        or not all(isinstance(roles, dict) for roles in hashes)
    ):
        raise UserError(f"{path} is not a split file: delete it and run again.")
    for role, images in folds[fold].items():
        where = f"'{role}' of fold {fold} in {path}"
        if not isinstance(images, list) or not all(type(image) is int and image >= 0 for image in images):
            raise UserError(f"{where} is not a list of image numbers: delete the file and run again.")
        if len(set(images)) != len(images):
            raise UserError(f"{where} has an image twice: delete the file and run again.")
        if "sha256" in split and list_sha256(images) != hashes[fold].get(role):
            raise UserError(f"{where} has changed since it was made (checksum): delete the file and run again.")
    return {role: np.array(images, dtype=np.int64) for role, images in folds[fold].items()}


def searched(roles: Collection[str], role: str) -> tuple[str, ...]:
    """The role whose images search each other, or the roles of the queries and of the gallery that they search.

    In splits with ``query`` and ``gallery`` instead of ``test`` (In-Shop), these two stand for ``test``.
    """
    if role in roles:
        return (role,)
    if role == "test" and {"query", "gallery"} <= set(roles):
        return "query", "gallery"
    raise UserError(
        f"The split has no images with the role '{role}', only {', '.join(roles)}: use one of these, or choose "
        "another split scheme."
    )


def embedded(roles: Collection[str]) -> tuple[str, ...]:
    """The roles to embed after a run: those of :func:`searched`, and the index with its seen and unseen queries."""
    queries = tuple(role for role in ("index", "seen_queries", "unseen_queries") if role in roles)
    return (*searched(roles, "test"), *queries)


PAIRED_IMAGES = 20_000
"""Enough images for a distribution of pair distances: they form 200 million pairs."""


def paired_training_images(fold: Roles, labels: np.ndarray) -> np.ndarray:
    """Training images for the distribution of pair distances: all, or a subset of whole classes if there are many."""
    train = np.asarray(fold["train"], np.int64)
    return train[spread_classes(labels[train], PAIRED_IMAGES)]


def spread_classes(labels: np.ndarray, limit: int) -> np.ndarray:
    """Positions of about ``limit`` images (or of all, if fewer): whole classes, evenly spread over the labels."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(labels) <= limit:
        return np.arange(len(labels))
    wanted = max(2, int(limit / counts.mean()))
    kept = classes[np.unique(np.linspace(0, len(classes) - 1, wanted).round().astype(int))]
    return np.flatnonzero(np.isin(labels, kept))


def check_disjoint(split: dict, labels: Iterable[int]) -> None:
    """Refuse a split with an image in two roles of a fold, or a class in two roles that must not share classes."""
    labels = np.asarray(labels)
    scheme = SCHEMES.get(split.get("scheme", {}).get("scheme"))
    share = scheme.share if scheme else ()
    for number, fold in enumerate(split["folds"]):
        images = {role: np.asarray(members, dtype=np.int64) for role, members in fold.items()}
        for members in images.values():
            if len(members) and members.max() >= len(labels):
                raise UserError(
                    f"Fold {number} of the split has image {members.max()}, "
                    f"but images.csv has only {len(labels)} images: delete the split file and run again."
                )
        for one, other in combinations(images, 2):
            common = np.intersect1d(images[one], images[other])
            if len(common):
                raise UserError(
                    f"Fold {number} of the split has image {common[0]} in both '{one}' and '{other}': {REMEDY}."
                )
            common = np.intersect1d(labels[images[one]], labels[images[other]])
            if len(common) and frozenset((one, other)) not in share:
                raise UserError(
                    f"Fold {number} of the split has class {common[0]} in both '{one}' and '{other}': {REMEDY}."
                )
