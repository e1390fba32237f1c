"""Names that a study may use and what they mean: views, metrics, split schemes. Nothing heavy is imported here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recheck.errors import UserError, nearest

# Views: how test embeddings are formed from the folds …
FOLD_VIEWS = ("concatenated", "separated")
# … or which epoch they are of, where runs are selected on the test set (the first is also a prefix of its tensors) …
BEST_ON_TEST, LAST_EPOCH = EPOCH_VIEWS = ("best_on_test", "last_epoch")
# … or which queries search an index: those of trained classes, and those of others.
QUERY_VIEWS = ("seen_queries", "unseen_queries")
VIEWS = (*FOLD_VIEWS, *EPOCH_VIEWS, *QUERY_VIEWS)
VIEW_TITLES = {BEST_ON_TEST: "best epoch on test"}

AT_R = ("RP", "MAP@R")
WHOLE = "mAP"
CLUSTERING = ("NMI", "AMI")
RECALL = re.compile(r"R@([1-9][0-9]*)")
# Metric → attribute of the chosen threshold, in the views of queries.
CALIBRATED = {
    "F1": "f1",
    "precision": "precision",
    "recall": "recall",
    "binary_accuracy": "binary_accuracy",
    "accuracy": "accuracy",
    "distance": "distance",
}

WEIGHTS_SUFFIXES = (".safetensors", ".pth", ".pt")
# Rows of released checkpoints end in this, so that a path alone says which rule makes a row.
RELEASED = "_released"


@dataclass(frozen=True)
class Scheme:
    """Options of a split scheme with their least values (all are needed), and its roles (None: the dataset's own)."""

    options: Mapping[str, int]
    roles: tuple[str, ...] | None


SCHEMES = {
    "class_disjoint_folds": Scheme({"folds": 2}, ("train", "val", "test")),
    "class_halves": Scheme({}, ("train", "test")),
    "official": Scheme({}, None),
    "halves_by_super_label": Scheme({"seed": 0}, ("train", "test")),
    "seen_unseen": Scheme({"index_shots": 1, "query_shots": 1}, ("train", "test", "index", *QUERY_VIEWS)),
}


def view_title(view: str) -> str:
    """What a view is called in tables and figures."""
    return VIEW_TITLES.get(view, view.replace("_", " "))


def metric_title(metric: str) -> str:
    """What a metric is called in tables and figures."""
    return metric.replace("_", " ")


def check_views(names: Sequence[str]) -> None:
    """Refuse views that do not exist."""
    for name in names:
        if name not in VIEWS:
            raise UserError(f"There is no view '{name}': {nearest(name, VIEWS)}.")


def check_metrics(names: Sequence[str]) -> None:
    """Refuse metrics that do not exist."""
    known = {name.upper(): name for name in ("P@1", *AT_R, WHOLE, "R@1", *CLUSTERING)}
    for name in names:
        if not (name in known.values() or RECALL.fullmatch(name)):
            hint = nearest(known.get(name.upper(), name.upper()), known.values())
            raise UserError(f"There is no metric '{name}': {hint} (and R@k with any whole k from 1).")


def check_query_metrics(names: Sequence[str]) -> None:
    """Refuse metrics that a set of queries does not have."""
    for name in names:
        if name not in CALIBRATED and not RECALL.fullmatch(name):
            raise UserError(
                f"The views {' and '.join(QUERY_VIEWS)} have no metric '{name}': {nearest(name, CALIBRATED)}, or R@k "
                "with any whole k from 1."
            )


def check_scheme(scheme: Mapping[str, Any]) -> dict[str, int]:
    """The options of a split scheme; refuse a scheme or an option that does not exist."""
    name = scheme.get("scheme", "")
    if name not in SCHEMES:
        raise UserError(f"There is no split scheme '{name}': {nearest(str(name), SCHEMES)}.")
    options = {key: value for key, value in scheme.items() if key != "scheme"}
    known = SCHEMES[name].options
    for key in options:
        if key not in known:
            raise UserError(f"The scheme {name} has no option '{key}': {nearest(key, known)}.")
    for key, least in known.items():
        value = options.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"`{key}` of the split scheme must be a whole number of at least {least}, not {value!r}.")
    return options


def watched_metrics(selection: Mapping[str, Any]) -> dict[str, list[str]]:
    """Role → metrics that a run is evaluated on while it trains; those that select come first."""
    found = {selection["role"]: [selection["metric"], *selection.get("also", [])]} if selection.get("role") else {}
    for role, names in selection.get("watch", {}).items():
        found[role] = [*found.get(role, []), *names]
    return {role: list(dict.fromkeys(names)) for role, names in found.items()}
