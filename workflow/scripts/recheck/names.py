"""Names of views, metrics and split schemes that a study may use. Imports nothing heavy."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recheck.errors import UserError, nearest

# Views differ in how the folds' test embeddings are combined,
FOLD_VIEWS = ("concatenated", "separated")
# in the epoch, if runs are selected on the test set (the first name is also the prefix of that epoch's tensors),
BEST_ON_TEST, LAST_EPOCH = EPOCH_VIEWS = ("best_on_test", "last_epoch")
# in the part of the model that they come from (the first name is also the prefix of its tensors),
BACKBONE, HEAD = MODEL_VIEWS = ("backbone", "head")
# or in the queries: images of trained classes, or of unseen classes.
QUERY_VIEWS = ("seen_queries", "unseen_queries")
VIEWS = (*FOLD_VIEWS, *EPOCH_VIEWS, *MODEL_VIEWS, *QUERY_VIEWS)
# Not a view of test images: metrics of the selected epochs on the validation classes. Published values may have it.
VALIDATION = "validation"
VIEW_TITLES = {BEST_ON_TEST: "best epoch on test", BACKBONE: "backbone, cosine"}

AT_R = ("RP", "MAP@R")
WHOLE = "mAP"
CLUSTERING = ("NMI", "AMI")
RECALL = re.compile(r"R@([1-9][0-9]*)")
# Metric of the query views → attribute of the chosen threshold.
CALIBRATED = {
    "F1": "f1",
    "precision": "precision",
    "recall": "recall",
    "binary_accuracy": "binary_accuracy",
    "accuracy": "accuracy",
    "distance": "distance",
}

# Metrics that are not fractions: they are not shown in percent, and higher is not better.
DISTANCES = ("distance",)

# Networks that a study names without a library or module.
BACKBONES = (
    *("bn_inception", "efficientnet_b0", "efficientnet_lite0", "efficientnet_lite2", "mobilenet_v2", "resnet50"),
    *("unicom_b16", "unicom_b32", "unicom_l14", "unicom_l14_336"),
)

# A user's own code: `module:Class` or `module:function`.
MODULE_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
WEIGHTS_SUFFIXES = (".safetensors", ".pth", ".pt")
# Suffix of rows from released checkpoints, so that Snakemake can choose the rule by the path.
RELEASED = "_released"
# Layout of released checkpoints → mark of their rows. "Best on test": saved whenever the test accuracy improved.
LAYOUTS = {"mlrc": "released", "contextual": "released, best on test"}


# The split scheme that uses a dataset's published lists of images, if they could be fetched.
LISTS = "lists_or_halves"


@dataclass(frozen=True)
class Scheme:
    """Required options of a split scheme with their minimum values, and its roles (None: the dataset's roles)."""

    options: Mapping[str, int]
    roles: tuple[str, ...] | None


SCHEMES = {
    "class_disjoint_folds": Scheme({"folds": 2}, ("train", "val", "test")),
    "class_halves": Scheme({}, ("train", "test")),
    "official": Scheme({}, None),
    "halves_with_validation": Scheme({"train_percent": 1}, ("train", "val", "test")),
    "official_with_validation": Scheme({"train_percent": 1}, None),
    "halves_by_super_label": Scheme({"seed": 0}, ("train", "test")),
    LISTS: Scheme({"seed": 0}, ("train", "test")),
    "seen_unseen": Scheme({"index_shots": 1, "query_shots": 1}, ("train", "test", "index", *QUERY_VIEWS)),
}


def view_title(view: str) -> str:
    """Name of a view in tables and figures."""
    return VIEW_TITLES.get(view, view.replace("_", " "))


def metric_title(metric: str) -> str:
    """Name of a metric in tables and figures; of a user's `module:function`, the function."""
    return metric.rpartition(":")[2].replace("_", " ")


def check_views(names: Sequence[str], known: Sequence[str] = VIEWS) -> None:
    """Refuse unknown views."""
    for name in names:
        if name not in known:
            raise UserError(f"Unknown view '{name}'; {nearest(name, known)}.")


def check_metrics(names: Sequence[str]) -> None:
    """Refuse unknown metrics."""
    known = {name.upper(): name for name in ("P@1", *AT_R, WHOLE, "R@1", *CLUSTERING)}
    for name in names:
        if not (name in known.values() or RECALL.fullmatch(name) or MODULE_ATTRIBUTE.fullmatch(name)):
            hint = nearest(known.get(name.upper(), name.upper()), known.values())
            raise UserError(
                f"Unknown metric '{name}'; {hint}, R@k for any whole number k from 1, or your own 'module:function'."
            )


def check_query_metrics(names: Sequence[str]) -> None:
    """Refuse metrics that the query views do not have."""
    for name in names:
        if name not in CALIBRATED and not RECALL.fullmatch(name):
            raise UserError(
                f"Unknown metric '{name}' of the views {' and '.join(QUERY_VIEWS)}; {nearest(name, CALIBRATED)}, and "
                "R@k for any whole number k from 1."
            )


def check_scheme(scheme: Mapping[str, Any]) -> dict[str, int]:
    """Options of a split scheme; refuses unknown schemes, unknown options and wrong values."""
    name = scheme.get("scheme", "")
    if name not in SCHEMES:
        raise UserError(f"Unknown split scheme '{name}'; {nearest(str(name), SCHEMES)}.")
    options = {key: value for key, value in scheme.items() if key != "scheme"}
    known = SCHEMES[name].options
    for key in options:
        if key not in known:
            raise UserError(f"Unknown option '{key}' of split scheme '{name}'; {nearest(key, known)}.")
    for key, least in known.items():
        value = options.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(
                f"Option '{key}' of split scheme '{name}' must be a whole number of at least {least}, found {value!r}."
            )
    return options


def watched_metrics(selection: Mapping[str, Any]) -> dict[str, list[str]]:
    """Role → metrics evaluated during training; the metrics of the selecting role come first."""
    watched = {selection["role"]: [selection["metric"], *selection.get("also", [])]} if selection.get("role") else {}
    for role, names in selection.get("watch", {}).items():
        watched[role] = [*watched.get(role, []), *names]
    return {role: list(dict.fromkeys(names)) for role, names in watched.items()}


def check_backbone(name: str) -> None:
    """Refuse a backbone that is neither listed nor from timm nor the user's own."""
    if name not in BACKBONES and not name.startswith("timm/") and ":" not in name:
        raise UserError(f"Unknown backbone '{name}'; {nearest(name, BACKBONES)}, 'timm/<model>' or 'module:function'.")
