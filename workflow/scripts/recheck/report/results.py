"""Results as frames: reads the files of the runs and summarises them over seeds.

Only this module knows how paths in the results tree encode study, dataset, method, seed, fold and view.
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
from recheck.names import QUERY_VIEWS, VALIDATION
from recheck.retries import reason_in

PLACE = re.compile(
    r"(?:^|/)(?P<study>[^/]+)/(?P<dataset>[^/]+)/(?P<method>[^/]+)/(?:seed(?P<seed>\d+)|trial(?P<trial>\d+)|tuning)/(?:fold(?P<fold>\d+)/)?(?P<name>[^/]+)$"
)
EVALUATION_COLUMNS = ["dataset", "method", "seed", "view", "dim", "metric", "value"]
FOLD_COLUMNS = ["dataset", "method", "seed", "view", "fold", "metric", "value"]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Place:
    """A file's place in the results tree; ``fold`` is None for files of all folds, ``seed`` for files of a search."""

    study: str
    dataset: str
    method: str
    seed: int | None
    fold: int | None
    name: str
    trial: int | None = None


def place(path: str | Path) -> Place:
    match = PLACE.search(Path(path).as_posix())
    if not match:
        raise UserError(
            f"{path} is not a path in the results tree; expected …/study/dataset/method/seed0/[fold0/]file."
        )
    names = match.groupdict()
    seed, fold, trial = (None if names[key] is None else int(names[key]) for key in ("seed", "fold", "trial"))
    return Place(names["study"], names["dataset"], names["method"], seed, fold, names["name"], trial)


def read_evaluations(paths: Iterable[str | Path]) -> pd.DataFrame:
    """All evaluations in one frame: one row per seed, view and metric, values as fractions."""
    rows = []
    for path in paths:
        where, content = place(path), _object(path)
        key = [where.dataset, where.method, where.seed, content.get("view", Path(where.name).stem), content.get("dim")]
        rows += [[*key, metric, float(value)] for metric, value in _metrics(path, content).items()]
    return pd.DataFrame(rows, columns=EVALUATION_COLUMNS)


def validation(evaluations: pd.DataFrame, runs: Iterable[Mapping[str, Any]], metric: str) -> pd.DataFrame:
    """What the selected epochs of each evaluated seed reached on validation classes, the mean over its folds."""
    values: dict[tuple[str, str, int], list[float | None]] = {}
    for run in runs:
        values.setdefault((run["dataset"], run["method"], run["seed"]), []).append(run.get("best_value"))
    evaluated = set(evaluations[["dataset", "method", "seed"]].itertuples(index=False, name=None))
    rows = [
        [*key, VALIDATION, None, metric, float(np.mean(folds))]
        for key, folds in values.items()
        if key in evaluated and None not in folds
    ]
    return pd.DataFrame(rows, columns=EVALUATION_COLUMNS)


def read_folds(paths: Iterable[str | Path]) -> pd.DataFrame:
    """The metrics of single folds in one frame, for the views that have them."""
    rows = []
    for path in paths:
        where, content = place(path), _object(path)
        for fold, metrics in enumerate(content.get("folds") or []):
            key = [where.dataset, where.method, where.seed, content.get("view", Path(where.name).stem), fold]
            rows += [[*key, metric, float(value)] for metric, value in metrics.items()]
    return pd.DataFrame(rows, columns=FOLD_COLUMNS)


def read_warnings(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Method, seed, view and warnings of every evaluation."""
    evaluations = []
    for path in paths:
        where, content = place(path), _object(path)
        view, warnings = content.get("view", Path(where.name).stem), content.get("warnings", [])
        evaluations.append({"method": where.method, "seed": where.seed, "view": view, "warnings": warnings})
    return evaluations


def _object(path: str | Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object: delete it and run again to recreate it.")
    return content


def _metrics(path: str | Path, content: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(content.get("metrics"), dict):
        raise UserError(f"{path} has no 'metrics': delete it and run again to recreate it.")
    return content["metrics"]


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """The half-width of the t-interval of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    count = len(values)
    if count < 2:
        return float("nan")
    return float(stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count))


def complete(evaluations: pd.DataFrame, views: Sequence[str]) -> pd.DataFrame:
    """The evaluations without seeds that lack a view, so that all views of a row have the same seeds.

    A view may be missing while a study is running.
    """
    keys = ["dataset", "method", "seed"]
    whole = evaluations.groupby(keys)["view"].transform(lambda names: set(views) <= set(names))
    return evaluations[whole.astype(bool)]


def summarise(evaluations: pd.DataFrame) -> pd.DataFrame:
    """Mean, interval (as fractions), number of seeds and value of each seed per dataset, method, view and metric."""
    key = ["dataset", "method", "view", "metric"]
    rows = [
        [
            *group,
            interval(seeds["value"]),
            seeds["value"].mean(),
            seeds["seed"].nunique(),
            seeds["dim"].max(),
            dict(zip(seeds["seed"], seeds["value"], strict=True)),
        ]
        for group, seeds in evaluations.groupby(key, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*key, "interval", "mean", "seeds", "dim", "by_seed"])


@dataclass(frozen=True)
class Failure:
    """A failed job: its rule and the reason in one line; ``fold`` is None for jobs over all folds.

    ``seed`` is None for jobs of a search.
    """

    method: str
    seed: int | None
    fold: int | None
    rule: str
    reason: str
    trial: int | None = None

    @property
    def where(self) -> str:
        run = "search" if self.seed is None else f"seed {self.seed}"
        run = run if self.trial is None else f"trial {self.trial}"
        return ", ".join([run, *([] if self.fold is None else [f"fold {self.fold}"]), self.rule])


def read_failures(paths: Iterable[str | Path]) -> list[Failure]:
    """The failures recorded in the files ``<rule>.failed`` next to the logs."""
    failures = []
    for path in map(Path, paths):
        where, reason = place(path), " ".join(reason_in(path).split())
        failures.append(Failure(where.method, where.seed, where.fold, path.stem, reason, where.trial))
    return failures


def best_method(summary: pd.DataFrame, metric: str, view: str, exclude: Iterable[str] = ()) -> str | None:
    """The method with the highest mean, the first one if several are equal; None without results."""
    rows = summary[(summary["metric"] == metric) & (summary["view"] == view) & ~summary["method"].isin(list(exclude))]
    return None if rows.empty else str(rows.loc[rows["mean"].idxmax(), "method"])


def read_histories(paths: Iterable[str | Path]) -> pd.DataFrame:
    """All training histories in one frame, each row with its dataset, method, seed and fold."""
    histories = []
    for path in paths:
        where = place(path)
        try:
            history = pd.read_csv(path)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not valid CSV ({error}): delete it and run again to recreate it.") from None
        if not {"epoch", "step"} <= set(history.columns):
            raise UserError(f"{path} has no columns 'epoch' and 'step': delete it and run again to recreate it.")
        history.insert(0, "fold", where.fold or 0)
        history.insert(0, "seed", where.seed)
        history.insert(0, "method", where.method)
        history.insert(0, "dataset", where.dataset)
        histories.append(history)
    columns = ["dataset", "method", "seed", "fold", "epoch", "step", "loss"]
    return pd.concat(histories, ignore_index=True) if histories else pd.DataFrame(columns=columns)


def read_runs(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """The records of the runs, each with the dataset, method, seed and fold from its path."""
    runs = []
    for path in paths:
        where = place(path)
        origin = {"dataset": where.dataset, "method": where.method, "seed": where.seed, "fold": where.fold or 0}
        runs.append({**_object(path), **origin})
    return runs


def chosen_epochs(runs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int, int], int]:
    """(method, seed, fold) → epoch of the run's checkpoint."""
    return {
        (run["method"], run["seed"], run["fold"]): run["best_epoch"]
        for run in runs
        if run.get("best_epoch") is not None
    }


def embedding_files(paths: Iterable[str | Path]) -> dict[str, list[str | Path]]:
    """Method → the files of its smallest seed in the order of the folds; figures of embeddings show one seed."""
    by_method: dict[str, dict[int, dict[int, str | Path]]] = {}
    for path in paths:
        where = place(path)
        by_method.setdefault(where.method, {}).setdefault(where.seed, {})[where.fold or 0] = path
    first = {method: seeds[min(seeds)] for method, seeds in by_method.items()}
    return {method: [folds[fold] for fold in sorted(folds)] for method, folds in first.items()}


def concatenated_view(
    paths: Sequence[str | Path],
    reduction: Mapping[str, Any] | None = None,
    unit: bool = True,
    with_gallery: bool = False,
) -> np.ndarray:
    """The test embeddings as searched in the concatenated view; ``paths`` are the files of all folds of one seed.

    With queries and a gallery, these are the queries; ``with_gallery`` appends the gallery.
    """
    embeddings = [read_embeddings(path) for path in paths]
    folds = [np.concatenate([roles[role] for role in _shown_roles(roles, with_gallery)]) for roles in embeddings]
    return concatenated(folds, reduction, place(paths[0]).seed, unit)


def class_names(index: pd.DataFrame) -> dict[int, str]:
    """Label → name of its class with spaces; the number if the class has no name."""
    first = index.drop_duplicates("label")
    return {
        int(label): name.replace("-", " ").replace("_", " ") or str(label)
        for label, name in zip(first["label"], first["class_name"], strict=True)
    }


def class_groups(index: pd.DataFrame) -> dict[int, str]:
    """Label → super-label, for labels that have one."""
    first = index.drop_duplicates("label")
    return {int(label): name for label, name in zip(first["label"], first["super_label"], strict=True) if name}


def _shown_roles(roles: Collection[str], with_gallery: bool) -> tuple[str, ...]:
    return searched(roles, "test")[: 2 if with_gallery else 1]


def test_images(split: Mapping[str, Any], with_gallery: bool = False) -> np.ndarray:
    """The indices of the test images or queries; ``with_gallery`` appends the gallery.

    All folds must have the same test images, because figures concatenate their embeddings.
    """
    folds = [[image for role in _shown_roles(fold, with_gallery) for image in fold[role]] for fold in split["folds"]]
    if any(fold != folds[0] for fold in folds[1:]):
        raise UserError(
            "The folds of this split have different test images, so figures cannot show their embeddings together: "
            "choose a split whose folds share their test images."
        )
    return np.asarray(folds[0], dtype=np.int64)


def split_facts(split: Mapping[str, Any], index: pd.DataFrame) -> dict[str, Any]:
    """The sizes for a table's caption: test images and classes, folds, and the training set of a fold."""
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
    lists = {"lists": split["lists"]} if "lists" in split else {}
    return {
        **gallery,
        **lists,
        "test_images": len(test),
        "test_classes": len(np.unique(labels[test])),
        "unseen_classes": not set(labels[test]) & {label for fold in train for label in labels[fold]},
        "folds": len(split["folds"]),
        "train_images": round(float(np.mean([len(fold) for fold in train]))),
        "train_classes": round(float(np.mean([len(np.unique(labels[fold])) if fold else 0 for fold in train]))),
    }
