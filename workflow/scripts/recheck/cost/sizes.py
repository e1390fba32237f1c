"""How many images a run trains on and embeds, from the numbers in a dataset's description, without any image."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recheck.names import LISTS


@dataclass(frozen=True)
class Sizes:
    """Images of each role in one fold, and training classes.

    ``exact`` is false where images are assumed to be spread evenly over the classes.
    """

    roles: Mapping[str, int]
    classes: int
    exact: bool

    def of(self, role: str) -> int:
        """Images of a role; queries and gallery stand for a missing ``test``."""
        if role == "test" and role not in self.roles:
            return self.roles.get("query", 0) + self.roles.get("gallery", 0)
        return self.roles.get(role, 0)

    @property
    def embedded(self) -> int:
        """Images that are embedded after a run."""
        return self.of("test") + sum(self.of(role) for role in ("index", "seen_queries", "unseen_queries"))


def sizes(
    expected: Mapping[str, Any],
    scheme: Mapping[str, Any],
    subset: Mapping[str, int] | None,
    split: Mapping[str, Any] | None = None,
) -> Sizes | None:
    """Sizes of a split, from the expected counts in the dataset's YAML; None if these do not determine them.

    ``subset`` chooses classes of the dataset. ``split`` is the content of its split file, if it exists.
    """
    if split:
        roles = {role: len(members) for role, members in split["folds"][0].items()}
        return Sizes(roles, _training_classes(scheme, split["classes"]), True)
    images, classes = expected.get("images"), expected.get("classes")
    if not images or not classes:
        return None
    used = -(-classes // (subset or {}).get("every", 1))
    used = min(used, (subset or {}).get("first", used))
    name, share, trained = scheme["scheme"], used / classes, _training_classes(scheme, used)
    whole = used == classes
    if whole and (known := _published(expected, scheme)):
        return Sizes(known, trained, name != LISTS)
    if name == "official":
        return None
    halves = _published(expected, {"scheme": "class_halves"}) if whole else None
    first = halves["train"] if halves else images * share * (used // 2) / used
    second = images * share - first
    if name == "class_disjoint_folds":
        held_out = first * (1 - trained / (used // 2))
        roles = {"train": first - held_out, "val": held_out, "test": second}
    elif name == "seen_unseen":
        shots, queries = scheme["index_shots"], scheme["query_shots"]
        unseen = used - used // 2
        roles = {
            "train": first - (shots + queries) * trained,
            "test": second - (shots + queries) * unseen,
            "index": shots * used,
            "seen_queries": queries * trained,
            "unseen_queries": queries * unseen,
        }
    else:
        roles = {"train": first, "test": second}
    return Sizes({role: max(0, round(count)) for role, count in roles.items()}, trained, False)


def _training_classes(scheme: Mapping[str, Any], classes: int) -> int:
    """Training classes of one fold; for a dataset with its own division, about half of its classes."""
    if scheme["scheme"] == "class_disjoint_folds":
        return classes // 2 - classes // (2 * scheme["folds"])
    return classes - classes // 2 if scheme["scheme"] in ("halves_by_super_label", LISTS) else classes // 2


def _published(expected: Mapping[str, Any], scheme: Mapping[str, Any]) -> Mapping[str, int] | None:
    """The counts of a split that the dataset's YAML gives."""
    wanted = {**scheme, "scheme": "halves_by_super_label"} if scheme["scheme"] == LISTS else dict(scheme)
    for split in expected.get("splits", []):
        if {key: value for key, value in split.items() if key not in ("images", "sha256")} == wanted:
            return split.get("images")
    return None
