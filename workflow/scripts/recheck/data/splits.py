"""Which images are for what: split schemes, and the split file.

A scheme is a function ``scheme(images, options) -> folds`` with an entry in ``SCHEMES``. A fold maps a role (train,
val, test, or others) to image numbers in the dataset's order; nothing is shuffled among the images of a class.

The split file has the scheme with its options (a seed too, where there is one), the hash of the index, the folds, and
for each fold the SHA-256 of every role's list of image numbers.
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


@dataclass(frozen=True)
class Images:
    """What a scheme may look at: the columns of the index, for the images of the chosen classes."""

    labels: np.ndarray
    super_labels: np.ndarray
    roles: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.labels)


@dataclass(frozen=True)
class Scheme:
    """How a scheme of ``recheck.names.SCHEMES`` splits, and what its roles have in common."""

    split: Callable[[Images, dict], list[Roles]]
    share: tuple[frozenset[str], ...] = ()  # pairs of roles that may have classes in common


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


def make_split(
    labels: Iterable[int],
    scheme: dict,
    classes: dict | None = None,
    super_labels: Sequence[str] | None = None,
    roles: Sequence[str] | None = None,
    note: bool = True,
) -> dict:
    """Apply a scheme (``{scheme: class_disjoint_folds, folds: 4}``) to the images of the chosen classes.

    ``labels``, ``super_labels`` and ``roles`` are columns of the index. The result has the scheme, the number of
    classes, the folds and their hashes; image numbers are those of the whole dataset.
    """
    labels = np.asarray(labels, dtype=np.int64)
    options = check_scheme(scheme)
    chosen = subset(labels, classes)
    images = np.flatnonzero(np.isin(labels, chosen))
    if note:
        _note_single_images(labels[images])
    part = Images(labels[images], *(_column(column, len(labels))[images] for column in (super_labels, roles)))
    folds = [
        {role: images[members].tolist() for role, members in fold.items()}
        for fold in SCHEMES[scheme["scheme"]].split(part, options)
    ]
    hashes = [{role: list_sha256(members) for role, members in fold.items()} for fold in folds]
    return {"scheme": dict(scheme), "classes": len(chosen), "folds": folds, "sha256": hashes}


def list_sha256(images: Iterable[int]) -> str:
    """The hash of a role's list: its image numbers as decimals, one a line."""
    return hashlib.sha256("\n".join([*map(str, images), ""]).encode()).hexdigest()


def _column(values: Sequence[str] | None, length: int) -> np.ndarray:
    return np.full(length, "") if values is None else np.asarray(values, dtype=str)


# The schemes


def class_disjoint_folds(images: Images, options: dict) -> list[Roles]:
    """The second half of the classes is the test set; the first half is cut into training and validation, per fold.

    With N classes in the first half and ``folds`` k, fold p starts at class p·N // k, takes N − V classes for
    training and the next V = n // 2k for validation, going round the first half. When n is no multiple of 2k,
    some classes are in no validation set. This is the rule of A Metric Learning Reality Check.
    """
    number = options["folds"]
    values, ranks = np.unique(images.labels, return_inverse=True)
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


def class_halves(images: Images, options: dict) -> list[Roles]:
    """The first half of the classes, in the order of labels, is for training, the second (the larger one if their
    number is odd) for testing. No class is held out for validation: this is how most papers split CUB and Cars.
    """
    seen = _seen(images, "class_halves")
    return [{"train": np.flatnonzero(seen), "test": np.flatnonzero(~seen)}]


def official(images: Images, options: dict) -> list[Roles]:
    """The dataset's own division: the roles in its index, such as train and test, or train, query and gallery."""
    names = sorted(set(images.roles.tolist()))
    if names in ([], [""]):
        raise UserError(
            "The scheme official needs the roles of the dataset, but the column `role` of its images.csv is empty: "
            "choose another scheme, or (parser csv) give the table a column `role` with train, test, …."
        )
    if "" in names:
        label = images.labels[np.flatnonzero(images.roles == "")[0]]
        raise UserError(
            "The scheme official needs a role for every image, but the column `role` of images.csv is empty for "
            f"{(images.roles == '').sum()} of them (the first has the label {label})."
        )
    if "train" not in names:
        raise UserError(
            f"The scheme official needs images with the role 'train', but images.csv has only {', '.join(names)}."
        )
    return [{name: np.flatnonzero(images.roles == name) for name in sorted(names, key=_official_order)}]


def _official_order(name: str) -> tuple[int, str]:
    usual = ("train", "val", "test", "query", "gallery")
    return (usual.index(name) if name in usual else len(usual)), name


def halves_by_super_label(images: Images, options: dict) -> list[Roles]:
    """In every super-category half of the classes, rounded down, is for testing, the rest for training.

    Which ones is decided by ``seed``: the classes of a super-category are put in the order of the SHA-256 of
    "seed:label", and the first half is taken. Unlike a random generator's stream this is the same in every version of
    every library, and a class's place does not depend on other super-categories.
    """
    groups, codes = np.unique(images.super_labels, return_inverse=True)
    pairs = np.unique(np.column_stack([images.labels, codes]), axis=0)
    labels, counts = np.unique(pairs[:, 0], return_counts=True)
    doubtful = [*labels[counts > 1].tolist(), *pairs[groups[pairs[:, 1]] == "", 0].tolist()]
    if doubtful:
        found = sorted(set(images.super_labels[images.labels == doubtful[0]].tolist()))
        raise UserError(
            f"The scheme halves_by_super_label needs one super-label for every class, but the class {doubtful[0]} has "
            f"{', '.join(map(repr, found))}: choose another scheme, or give the dataset's index super-labels."
        )
    test = []
    for group in range(len(groups)):
        members = pairs[pairs[:, 1] == group, 0].tolist()
        members.sort(key=lambda label: hashlib.sha256(f"{options['seed']}:{label}".encode()).digest())
        test += members[: len(members) // 2]
    if not test:
        raise UserError("The scheme halves_by_super_label leaves no class to test on: no super-label has two classes.")
    tested = np.isin(images.labels, test)
    return [{"train": np.flatnonzero(~tested), "test": np.flatnonzero(tested)}]


def seen_unseen(images: Images, options: dict) -> list[Roles]:
    """Queries of classes that are trained on and of classes that are not, against one index of all classes.

    The first half of the classes is seen, the second unseen. Of every class the first ``index_shots`` images (in the
    order of the dataset's index) are indexed, the next ``query_shots`` are queries, and the rest is for training
    (seen classes) or is a test set of its own (unseen classes).
    """
    index_shots, query_shots = options["index_shots"], options["query_shots"]
    seen = _seen(images, "seen_unseen")
    classes, counts = np.unique(images.labels, return_counts=True)
    if counts.min() < index_shots + query_shots:
        fewest = counts.argmin()
        raise UserError(
            f"The scheme seen_unseen needs {index_shots} + {query_shots} images of every class, but the class "
            f"{classes[fewest]} has {counts[fewest]}: lower `index_shots` or `query_shots`."
        )
    place = np.empty(len(images.labels), dtype=np.int64)  # of an image among those of its class
    place[np.argsort(images.labels, kind="stable")] = np.arange(len(place)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    indexed, asked = place < index_shots, (place >= index_shots) & (place < index_shots + query_shots)
    rest = ~indexed & ~asked
    if not (rest & seen).any():
        raise UserError("The scheme seen_unseen leaves no image to train on: lower `index_shots` or `query_shots`.")
    roles = {
        "train": rest & seen,
        "test": rest & ~seen,
        "index": indexed,
        "seen_queries": asked & seen,
        "unseen_queries": asked & ~seen,
    }
    return [{role: np.flatnonzero(members) for role, members in roles.items()}]


def _seen(images: Images, scheme: str) -> np.ndarray:
    """Which images are of the first half of the classes."""
    classes = images.classes
    if len(classes) < 2:
        raise UserError(f"The scheme {scheme} needs at least 2 classes, not {len(classes)}.")
    return np.isin(images.labels, classes[: len(classes) // 2])


def _pairs(*pairs: tuple[str, str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(pair) for pair in pairs)


SCHEMES: dict[str, Scheme] = {
    "class_disjoint_folds": Scheme(class_disjoint_folds),
    "class_halves": Scheme(class_halves),
    "official": Scheme(official, _pairs(("query", "gallery"))),
    "halves_by_super_label": Scheme(halves_by_super_label),
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
            "%d of %d classes have one image only (the first is label %d): such an image can be retrieved, "
            "but nothing can be retrieved for it.",
            len(singles), len(values), singles[0],
        )  # fmt: skip


# The split file


def read_split(path: str | Path, fold: int) -> dict[str, np.ndarray]:
    """One fold of a split file: the image numbers of each role, checked to be such, and against their hashes."""
    split = read_json(path)
    folds = split.get("folds") if isinstance(split, dict) else None
    if not isinstance(folds, list) or not all(isinstance(roles, dict) and roles for roles in folds):
        raise UserError(f"{path} is not a split file: delete it and run again.")
    if not 0 <= fold < len(folds):
        raise UserError(f"{path} has {len(folds)} folds, so there is no fold {fold}.")
    hashes = split.get("sha256", folds)
    if not isinstance(hashes, list) or len(hashes) != len(folds) or not all(isinstance(own, dict) for own in hashes):
        raise UserError(f"{path} is not a split file: delete it and run again.")
    for role, images in folds[fold].items():
        where = f"'{role}' of fold {fold} in {path}"
        if not isinstance(images, list) or not all(type(image) is int and image >= 0 for image in images):
            raise UserError(f"{where} is not a list of image numbers: delete the file and run again.")
        if len(set(images)) != len(images):
            raise UserError(f"{where} repeats an image: delete the file and run again.")
        if "sha256" in split and list_sha256(images) != hashes[fold].get(role):
            raise UserError(f"{where} has changed since it was made (checksum): delete the file and run again.")
    return {role: np.array(images, dtype=np.int64) for role, images in folds[fold].items()}


def searched(roles: Collection[str], role: str) -> tuple[str, ...]:
    """The role whose images are searched among themselves, or the two of queries and of the gallery they search.

    ``test`` is ``query`` and ``gallery`` in splits that have these instead (In-Shop).
    """
    if role in roles:
        return (role,)
    if role == "test" and {"query", "gallery"} <= set(roles):
        return "query", "gallery"
    raise UserError(f"The split has no images with the role '{role}', only {', '.join(roles)}.")


def embedded(roles: Collection[str]) -> tuple[str, ...]:
    """The roles that are embedded once a run has ended: what is searched, and queries with the index they search."""
    queries = tuple(role for role in ("index", "seen_queries", "unseen_queries") if role in roles)
    return (*searched(roles, "test"), *queries)


PAIRED_IMAGES = 20_000
"""So many are enough for distances of pairs: there are 200 million."""


def paired_training_images(fold: Roles, labels: np.ndarray) -> np.ndarray:
    """The training images of a fold whose pairs are shown: all, or of many whole classes."""
    train = np.asarray(fold["train"], np.int64)
    return train[spread_classes(labels[train], PAIRED_IMAGES)]


def spread_classes(labels: np.ndarray, limit: int) -> np.ndarray:
    """Positions of the images of whole classes, evenly spread over the labels, about ``limit`` of them or all."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(labels) <= limit:
        return np.arange(len(labels))
    wanted = max(2, int(limit / counts.mean()))
    kept = classes[np.unique(np.linspace(0, len(classes) - 1, wanted).round().astype(int))]
    return np.flatnonzero(np.isin(labels, kept))


def check_disjoint(split: dict, labels: Iterable[int]) -> None:
    """Refuse a split in which an image has two roles, or a class two roles that the scheme keeps apart, in one fold."""
    labels = np.asarray(labels)
    scheme = SCHEMES.get(split.get("scheme", {}).get("scheme"))
    share = scheme.share if scheme else ()
    for number, fold in enumerate(split["folds"]):
        images = {role: np.asarray(members, dtype=np.int64) for role, members in fold.items()}
        for members in images.values():
            if len(members) and members.max() >= len(labels):
                raise UserError(
                    f"Fold {number} names image {members.max()}, but the index has only {len(labels)} images."
                )
        for one, other in combinations(images, 2):
            common = np.intersect1d(images[one], images[other])
            if len(common):
                raise UserError(f"Fold {number} has the image {common[0]} in '{one}' and in '{other}'.")
            common = np.intersect1d(labels[images[one]], labels[images[other]])
            if len(common) and frozenset((one, other)) not in share:
                raise UserError(f"Fold {number} has the class {common[0]} in '{one}' and in '{other}'.")
