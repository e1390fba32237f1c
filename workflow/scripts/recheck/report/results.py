"""Results as frames: reads what the runs left behind and summarises it over seeds.

This is the one place that knows how a path of the results tree tells study, dataset, method, seed, fold and view.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from recheck.data.splits import searched
from recheck.errors import UserError
from recheck.evaluation.embeddings import read_embeddings
from recheck.evaluation.views import concatenated
from recheck.files import read_json
from recheck.names import QUERY_VIEWS

PLACE = re.compile(
    r"(?:^|/)(?P<study>[^/]+)/(?P<dataset>[^/]+)/(?P<method>[^/]+)/seed(?P<seed>\d+)/(?:fold(?P<fold>\d+)/)?(?P<name>[^/]+)$"
)
EVALUATION_COLUMNS = ["dataset", "method", "seed", "view", "dim", "metric", "value"]
FOLD_COLUMNS = ["dataset", "method", "seed", "view", "fold", "metric", "value"]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Place:
    """Where in the results tree a file is; ``fold`` is None for what belongs to all folds."""

    study: str
    dataset: str
    method: str
    seed: int
    fold: int | None
    name: str


def place(path: str | Path) -> Place:
    match = PLACE.search(Path(path).as_posix())
    if not match:
        raise UserError(
            f"{path} is not a path of the results tree: expected .../study/dataset/method/seed0/[fold0/]file."
        )
    found = match.groupdict()
    fold = None if found["fold"] is None else int(found["fold"])
    return Place(found["study"], found["dataset"], found["method"], int(found["seed"]), fold, found["name"])


def read_evaluations(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per metric of a view of a seed, values as fractions."""
    rows = []
    for path in paths:
        where, found = place(path), _object(path)
        key = [where.dataset, where.method, where.seed, found.get("view", Path(where.name).stem), found.get("dim")]
        rows += [[*key, metric, float(value)] for metric, value in _metrics(path, found).items()]
    return pd.DataFrame(rows, columns=EVALUATION_COLUMNS)


def read_folds(paths: Iterable[str | Path]) -> pd.DataFrame:
    """The same metrics fold by fold, for the views that have them."""
    rows = []
    for path in paths:
        where, found = place(path), _object(path)
        for fold, metrics in enumerate(found.get("folds") or []):
            key = [where.dataset, where.method, where.seed, found.get("view", Path(where.name).stem), fold]
            rows += [[*key, metric, float(value)] for metric, value in metrics.items()]
    return pd.DataFrame(rows, columns=FOLD_COLUMNS)


def _object(path: str | Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} should hold one JSON object: delete it and run again, it will be made anew.")
    return found


def _metrics(path: str | Path, found: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(found.get("metrics"), dict):
        raise UserError(f"{path} has no 'metrics': delete it and run again, it will be made anew.")
    return found["metrics"]


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Half the width of the t-interval of the mean; NaN for one value, which says nothing about spread."""
    values = np.asarray(values, dtype=float)
    count = len(values)
    if count < 2:
        return float("nan")
    return float(stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count))


def complete(evaluations: pd.DataFrame, views: Sequence[str]) -> pd.DataFrame:
    """Without the seeds that lack a view, as while a study is running: all views of a row are over the same seeds."""
    keys = ["dataset", "method", "seed"]
    whole = evaluations.groupby(keys)["view"].transform(lambda own: set(views) <= set(own))
    return evaluations[whole.astype(bool)]


def summarise(evaluations: pd.DataFrame) -> pd.DataFrame:
    """Mean, interval and number of seeds for each (dataset, method, view, metric), as fractions."""
    key = ["dataset", "method", "view", "metric"]
    rows = [
        [*group, interval(part["value"]), part["value"].mean(), part["seed"].nunique(), part["dim"].max()]
        for group, part in evaluations.groupby(key, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*key, "interval", "mean", "seeds", "dim"])


@dataclass(frozen=True)
class Failure:
    """A run that failed for good: in which rule, and the reason in one line; ``fold`` is None for all folds."""

    method: str
    seed: int
    fold: int | None
    rule: str
    reason: str

    @property
    def where(self) -> str:
        return ", ".join([f"seed {self.seed}", *([] if self.fold is None else [f"fold {self.fold}"]), self.rule])


def read_failures(paths: Iterable[str | Path]) -> list[Failure]:
    """What the files ``<rule>.failed`` beside the logs say."""
    failures = []
    for path in map(Path, paths):
        where, reason = place(path), " ".join(path.read_text(encoding="utf-8").split())
        failures.append(Failure(where.method, where.seed, where.fold, path.stem, reason))
    return failures


def best_method(summary: pd.DataFrame, metric: str, view: str, exclude: Iterable[str] = ()) -> str | None:
    """The method with the highest mean; the first of equals, None if there is none."""
    rows = summary[(summary["metric"] == metric) & (summary["view"] == view) & ~summary["method"].isin(list(exclude))]
    return None if rows.empty else str(rows.loc[rows["mean"].idxmax(), "method"])


def read_histories(paths: Iterable[str | Path]) -> pd.DataFrame:
    """All training histories in one frame, each row with its dataset, method, seed and fold."""
    parts = []
    for path in paths:
        where = place(path)
        try:
            part = pd.read_csv(path)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not a readable table ({error}): delete it and run again.") from None
        if not {"epoch", "step"} <= set(part.columns):
            raise UserError(f"{path} lacks the columns 'epoch' and 'step': delete it and run again.")
        part.insert(0, "fold", where.fold or 0)
        part.insert(0, "seed", where.seed)
        part.insert(0, "method", where.method)
        part.insert(0, "dataset", where.dataset)
        parts.append(part)
    columns = ["dataset", "method", "seed", "fold", "epoch", "step", "loss"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def read_runs(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """The records of the runs, each with the dataset, method, seed and fold that its path says."""
    runs = []
    for path in paths:
        where = place(path)
        own = {"dataset": where.dataset, "method": where.method, "seed": where.seed, "fold": where.fold or 0}
        runs.append({**_object(path), **own})
    return runs


def chosen_epochs(runs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int, int], int]:
    """The epoch whose weights were kept, by (method, seed, fold)."""
    return {
        (run["method"], run["seed"], run["fold"]): run["best_epoch"]
        for run in runs
        if run.get("best_epoch") is not None
    }


def embedding_files(paths: Iterable[str | Path]) -> dict[str, list[str | Path]]:
    """The files of each method in the order of its folds, of its smallest seed: a figure shows one, not a mean."""
    found: dict[str, dict[int, dict[int, str | Path]]] = {}
    for path in paths:
        where = place(path)
        found.setdefault(where.method, {}).setdefault(where.seed, {})[where.fold or 0] = path
    first = {method: seeds[min(seeds)] for method, seeds in found.items()}
    return {method: [folds[fold] for fold in sorted(folds)] for method, folds in first.items()}


def concatenated_view(
    paths: Sequence[str | Path],
    reduction: Mapping[str, Any] | None = None,
    unit: bool = True,
    with_gallery: bool = False,
) -> np.ndarray:
    """The test embeddings as the concatenated view searches them.

    Where there is a gallery, those of the queries, and ``with_gallery`` also of the gallery behind them. ``paths`` are
    the files of all folds of one seed.
    """
    found = [read_embeddings(path) for path in paths]
    folds = [np.concatenate([own[role] for role in _shown_roles(own, with_gallery)]) for own in found]
    return concatenated(folds, reduction, place(paths[0]).seed, unit)


def class_names(index: pd.DataFrame) -> dict[int, str]:
    """What to call a label in a figure: its class's name with spaces, or the number if it has none."""
    first = index.drop_duplicates("label")
    return {
        int(label): name.replace("-", " ").replace("_", " ") or str(label)
        for label, name in zip(first["label"], first["class_name"], strict=True)
    }


def class_groups(index: pd.DataFrame) -> dict[int, str]:
    """The super-label of each label, where the dataset has any."""
    first = index.drop_duplicates("label")
    return {int(label): name for label, name in zip(first["label"], first["super_label"], strict=True) if name}


def _shown_roles(roles: Collection[str], with_gallery: bool) -> tuple[str, ...]:
    return searched(roles, "test")[: 2 if with_gallery else 1]


def test_images(split: Mapping[str, Any], with_gallery: bool = False) -> np.ndarray:
    """Indices of the test images, or queries (then gallery); a figure over all folds needs the same in each."""
    folds = [[image for role in _shown_roles(fold, with_gallery) for image in fold[role]] for fold in split["folds"]]
    if any(fold != folds[0] for fold in folds[1:]):
        raise UserError(
            "The folds of this split have different test images, so their embeddings cannot be shown in one."
        )
    return np.asarray(folds[0], dtype=np.int64)


def split_facts(split: Mapping[str, Any], index: pd.DataFrame) -> dict[str, Any]:
    """The sizes that a table's caption names: test images and classes, folds, and the training set of a fold."""
    labels = index["label"].to_numpy()
    first = split["folds"][0]
    if "index" in first:
        return {
            "queries": {view.removesuffix("_queries"): len(first[view]) for view in QUERY_VIEWS},
            "index_images": len(first["index"]),
            "index_classes": len(np.unique(labels[first["index"]])),
            "folds": 1,
            "train_images": len(first["train"]),
            "train_classes": len(np.unique(labels[first["train"]])),
        }
    roles = searched(first, "test")
    test = sorted({image for fold in split["folds"] for image in fold[roles[0]]})
    gallery = {"gallery_images": len(split["folds"][0][roles[1]])} if len(roles) > 1 else {}
    train = [fold.get("train", []) for fold in split["folds"]]
    return {
        **gallery,
        "test_images": len(test),
        "test_classes": len(np.unique(labels[test])),
        "unseen_classes": not set(labels[test]) & {label for fold in train for label in labels[fold]},
        "folds": len(split["folds"]),
        "train_images": round(float(np.mean([len(fold) for fold in train]))),
        "train_classes": round(float(np.mean([len(np.unique(labels[fold])) if fold else 0 for fold in train]))),
    }
