"""From a study and the files of its runs to what is shown: the one place where reading and drawing meet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recheck.config import resolve
from recheck.data.index import read_index
from recheck.data.packed import PackedImages
from recheck.data.splits import paired_training_images, spread_classes
from recheck.errors import UserError, nearest
from recheck.evaluation import query_sets
from recheck.evaluation.embeddings import read_embeddings
from recheck.evaluation.search import Search
from recheck.files import read_json
from recheck.names import LAST_EPOCH, QUERY_VIEWS, RELEASED, watched_metrics
from recheck.report import (
    bars,
    costs,
    distances,
    figures,
    gallery,
    generalisation,
    matches,
    ranks,
    reliability,
    results,
    sweep,
    tables,
    thresholds,
)
from recheck.report import page as pages
from recheck.shorthand import swept
from recheck.targets import FIGURES, PUBLISHED, QUERY_FIGURES, SO_FAR, generalised, protocol_of

QUERIES, NEIGHBOURS = 6, 8
# What a change of a calibrated system may cost.
COSTS = ("R@1", "F1", "accuracy")
# What a figure of queries has panels for, of the many columns of their table.
ASKED = ("R@1", "F1", "precision", "recall")
# A caption names so many different lengths of training, and of more their range.
LISTED_BUDGETS = 3
# The captions of `snakemake --report`: the page says the same, from the same files.
CAPTIONS = Path(__file__).resolve().parents[3] / "report"
# Drawn in the map instead of dots when they are as small as icons; photographs reduced that much say nothing.
ICON = 72


@dataclass(frozen=True)
class Inputs:
    """Files of one dataset in a study. A figure needs only some of them; the rest may be empty."""

    evaluations: Sequence[str | Path] = ()
    histories: Sequence[str | Path] = ()
    runs: Sequence[str | Path] = ()
    embeddings: Sequence[str | Path] = ()
    split: str | Path | None = None
    index: str | Path | None = None
    pack: str | Path | None = None
    published: Any = field(default=None)

    @classmethod
    def of(cls, files: Mapping[str, Sequence[str]], published: Any = None) -> "Inputs":
        """From the lists of files by name that a job was given (Snakemake's inputs, or a dictionary)."""
        lists = {name: list(files.get(name, [])) for name in ("evaluations", "histories", "runs", "embeddings")}
        split, index, pack = (next(iter(files.get(name, [])), None) for name in ("split", "index", "pack"))
        return cls(**lists, split=split, index=index, pack=pack and Path(pack).parent, published=published)


def labels(study: Mapping[str, Any]) -> dict[str, str]:
    """What the rows are called; those of checkpoints that others have trained are marked."""
    return {
        key: (method or {}).get("label", key) + (" (released)" if key in released(study) else "")
        for key, method in study["methods"].items()
    }


def released(study: Mapping[str, Any]) -> list[str]:
    """Rows that were not trained here; where nothing was measured either, a row is a published one like all others."""
    return [key for key in study["methods"] if key.endswith(RELEASED) and study.get("variant") != PUBLISHED]


def table(study: Mapping[str, Any], dataset: str, inputs: Inputs) -> tables.Table:
    evaluations = _evaluations(study, inputs)
    shown = protocol_of(study, dataset)["evaluation"]["table"]
    facts, chance = {}, None
    if inputs.split and inputs.index:
        split, index = read_json(inputs.split), read_index(inputs.index)
        facts = results.split_facts(split, index)
        if study["views"][0] in QUERY_VIEWS:
            chance = query_sets.chance(split["folds"][0], index["label"].to_numpy(), shown)
    return tables.render(
        results.summarise(evaluations),
        dataset,
        methods=labels(study),
        views=study["views"],
        metrics=shown,
        seeds=len(study["seeds"]),
        name=f"{study['name']}-{dataset}",
        failed=results.failures(evaluations),
        quoted=tables.published(inputs.published),
        facts=facts,
        backbone=backbone(study, dataset),
        scale=scale(study, dataset),
        measured=study.get("variant") != PUBLISHED,
        released=released(study),
        show_size=protocol_of(study, dataset)["evaluation"].get("show_size", False),
        chance=chance,
    )


def _evaluations(study: Mapping[str, Any], inputs: Inputs):
    return results.complete(results.read_evaluations(inputs.evaluations), study["views"])


def backbone(study: Mapping[str, Any], dataset: str) -> str:
    """All backbones of the rows, usually one, with their weights."""
    specs = {method: resolve(study, dataset, method)["model"]["backbone"] for method in study["methods"]}
    names = [
        spec["name"] + (" (released weights)" if method.endswith(RELEASED) else _weights(spec))
        for method, spec in specs.items()
    ]
    return ", ".join(dict.fromkeys(names))


def _weights(spec: Mapping[str, Any]) -> str:
    """What a network starts from, for readers: a file by its name, since its folder says nothing elsewhere."""
    weights = spec.get("weights", "none")
    if weights == "none":
        # only a user's own function knows what it starts from
        return "" if ":" in spec["name"] else " (random weights)"
    return f" (weights {Path(weights).name})" if Path(weights).suffix else f" ({weights} weights)"


def scale(study: Mapping[str, Any], dataset: str) -> str:
    """How much of the data and how much training stand behind the numbers, from the study's own settings."""
    part = (study["datasets"][dataset] or {}).get("classes") or {}
    parts = [f"one of every {part['every']} classes"] if part.get("every", 1) > 1 else []
    parts += [f"the first {part['first']} classes"] if "first" in part else []
    trained = [resolve(study, dataset, method) for method in study["methods"] if not method.endswith(RELEASED)]
    trained = [settings for settings in trained if settings["schedule"]["epochs"]]
    budgets = list(dict.fromkeys(_budget(settings) for settings in trained))
    if len(budgets) > LISTED_BUDGETS:
        budgets = [_range_of_budgets(trained)]
    return "; ".join([*parts, *([f"training of {' or '.join(budgets)}"] if budgets else [])])


def _budget(settings: Mapping[str, Any]) -> str:
    schedule = settings["schedule"]
    steps = schedule.get("steps_per_epoch")
    many = "up to " if schedule.get("patience") is not None else ""
    epochs = f"{many}{schedule['epochs']} epoch{'s' if schedule['epochs'] > 1 else ''}"
    batch = (settings.get("sampler") or {}).get("batch")
    return epochs + (f" of {steps} steps" if steps else "") + (f", {batch} images a step" if batch else "")


def _range_of_budgets(trained: Iterable[Mapping[str, Any]]) -> str:
    """The smallest and the largest, where rows have too many budgets to list."""
    epochs = [settings["schedule"]["epochs"] for settings in trained]
    batches = [batch for settings in trained if (batch := (settings.get("sampler") or {}).get("batch"))]
    images = f", {min(batches)} to {max(batches)} images a step" if batches else ""
    return f"{min(epochs)} to {max(epochs)} epochs{images}, as each row is configured"


def figure(
    name: str, study: Mapping[str, Any], dataset: str, inputs: Inputs, png: str | Path, svg: str | Path
) -> Figure:
    """Draw one of ``FIGURES`` from the files it needs."""
    if name not in FIGURES:
        raise UserError(f"There is no figure '{name}'; {nearest(name, FIGURES)}.")
    files = {"png": png, "svg": svg}
    reference = results.untrained_method(study, dataset)
    if name in ("map", "gallery"):
        return (_map if name == "map" else _gallery)(study, dataset, inputs, reference, files)
    if name == "distances":
        what = protocol_of(study, dataset)["evaluation"].get("distances", "test")
        shown = (_shown_training if what == "train" else _shown)(study, dataset, inputs, reference)
        return distances.draw(shown.embeddings, shown.labels, what=_IMAGES[what], **files)
    if name in QUERY_FIGURES:
        draw = {"thresholds": thresholds.draw, "matches": matches.draw, "reliability": reliability.draw}[name]
        return draw(_query_sets(study, dataset, inputs), labels(study), **files)
    common = {"dataset": dataset, "labels": labels(study), "reference": reference, **files}
    if name == "generalisation":
        columns, documents = generalised(study, dataset), tables.published(inputs.published)
        return generalisation.draw(
            results.read_histories(inputs.histories),
            dataset=dataset,
            labels=labels(study),
            columns=columns,
            published=_published_ends(study, dataset, documents, columns) if columns else None,
            read_off=any(document.approximate for document in documents),
            values=swept(study) if study.get("sweep") else None,
            setting=(study.get("sweep") or {}).get("label", ""),
            **files,
        )
    if name == "curves":
        column = _drawn_metric(protocol_of(study, dataset)["selection"])
        chosen = results.chosen_epochs(results.read_runs(inputs.runs))
        return figures.curves(results.read_histories(inputs.histories), selection=column, chosen=chosen, **common)
    summary = results.summarise(_evaluations(study, inputs))
    if name == "costs":
        return costs.draw(*_costs(study, dataset, inputs, summary), **files)
    if name == "recall":
        return figures.recall(summary, views=study["views"], **common)
    if name in ("ranks", "bars", "sweep"):
        shown = protocol_of(study, dataset)["evaluation"]["table"]
        rows = tables.frame(
            summary,
            dataset,
            methods=labels(study),
            views=study["views"],
            metrics=shown,
            quoted=tables.published(inputs.published),
        )
        if name == "bars":
            return bars.draw(rows, views=study["views"], metrics=shown[: bars.PANELS], **files)
        if name == "sweep":
            values, setting = (swept(study), study["sweep"]["label"]) if study.get("sweep") else ({}, "")
            return sweep.draw(rows, values=values, setting=setting, views=study["views"], metric=shown[0], **files)
        titles = {view: figures.view_label(view, summary) for view in study["views"]}
        return ranks.draw(rows, views=titles, metric=lead_metric(study, dataset), **files)
    return figures.metrics(
        summary,
        results.read_folds(inputs.evaluations),
        views=study["views"],
        metrics=_drawn_metrics(study, protocol_of(study, dataset)["evaluation"]["table"]),
        quoted=tables.published(inputs.published),
        **common,
    )


def _published_ends(
    study: Mapping[str, Any], dataset: str, documents: Sequence[tables.Published], columns: tuple[str, str]
) -> dict[str, tuple[float, float]]:
    """What was published of the last epoch's training and other images, where both are."""
    metrics = columns[0], columns[1].split("_", 1)[1]
    found = {}
    for document, method in product(documents, study["methods"]):
        ends = tuple(document.value(dataset, method, LAST_EPOCH, metric) for metric in metrics)
        if not np.isnan(ends).any():
            found.setdefault(method, ends)
    return found


_IMAGES = {"test": "test", "train": "training"}


def _drawn_metrics(study: Mapping[str, Any], shown: Sequence[str]) -> Sequence[str]:
    """The columns of the table; of queries, which have many, those that say most."""
    return [name for name in shown if name in ASKED] if study["views"][0] in QUERY_VIEWS else shown


def _query_sets(study: Mapping[str, Any], dataset: str, inputs: Inputs) -> dict[str, dict[str, query_sets.QuerySet]]:
    """What each method finds for both sets of queries, with its first seed."""
    labels_here = read_index(inputs.index)["label"].to_numpy()
    split = {role: np.asarray(images, np.int64) for role, images in read_json(inputs.split)["folds"][0].items()}
    found = {}
    for method, files in results.embedding_files(inputs.embeddings).items():
        maths = resolve(study, dataset, method)["evaluation"].get("calibration", "fixed")
        found[method] = query_sets.query_sets(read_embeddings(files[0]), split, labels_here, ["R@1"], maths)
    return found


def _costs(study: Mapping[str, Any], dataset: str, inputs: Inputs, summary) -> tuple[list[costs.Row], float]:
    """The rows, first the one that others are compared with, and R@1 of a random order; all as shares."""
    at = summary[summary["dataset"] == dataset].set_index(["method", "view", "metric"])
    first = study["compare_with"]
    rows = []
    for method in (first, *(method for method in study["methods"] if method != first)):
        values = {
            view: {
                metric: tuple(at.loc[(method, view, metric), ["mean", "interval"]])
                for metric in COSTS
                if (method, view, metric) in at.index
            }
            for view in study["views"]
        }
        rows.append((labels(study)[method], values))
    split, index = read_json(inputs.split)["folds"][0], read_index(inputs.index)
    return rows, query_sets.chance(split, index["label"].to_numpy(), ["R@1"])[study["views"][0]]["R@1"]


def _drawn_metric(selection: Mapping[str, Any]) -> str | None:
    """The history's column of the metric that selects; where none does, of one that is watched, first of test."""
    watched = watched_metrics(selection)
    role = selection.get("role") or ("test" if "test" in watched else next(iter(watched), None))
    return f"{role}_{watched[role][0]}" if role else None


@dataclass(frozen=True)
class _Shown:
    """Images and, by label, their embeddings under the untrained model and the best trained one."""

    images: np.ndarray
    labels: np.ndarray
    names: dict[int, str]
    groups: dict[int, str]
    embeddings: dict[str, np.ndarray]


def _shown(
    study: Mapping[str, Any], dataset: str, inputs: Inputs, reference: str | None, with_gallery: bool = False
) -> _Shown:
    """The test images; of queries and a gallery the queries, and with ``with_gallery`` the gallery behind them."""
    embeddings = {}
    for method, files in _compared(study, dataset, inputs, reference).items():
        settings = resolve(study, dataset, method)
        unit = settings["evaluation"].get("normalise", True)
        embeddings[labels(study)[method]] = results.concatenated_view(
            files, settings.get("reduction"), unit, with_gallery
        )
    return _shown_images(results.test_images(read_json(inputs.split), with_gallery), embeddings, inputs)


def _shown_training(study: Mapping[str, Any], dataset: str, inputs: Inputs, reference: str | None) -> _Shown:
    """The training images of the first fold that were embedded."""
    embeddings = {}
    for method, files in _compared(study, dataset, inputs, reference).items():
        own = read_embeddings(files[0])
        if "train" not in own:
            raise UserError(f"{files[0]} has no training images: delete it and run again, it will be made anew.")
        embeddings[labels(study)[method]] = own["train"]
    images = paired_training_images(read_json(inputs.split)["folds"][0], read_index(inputs.index)["label"].to_numpy())
    return _shown_images(images, embeddings, inputs)


def _compared(
    study: Mapping[str, Any], dataset: str, inputs: Inputs, reference: str | None
) -> dict[str, list[str | Path]]:
    """The files of the untrained method, if there is one, and of the best trained one."""
    files = results.embedding_files(inputs.embeddings)
    methods = [method for method in (reference, best(study, dataset, inputs, reference)) if method in files]
    if not methods:
        raise UserError(
            f"No embeddings of dataset '{dataset}' to show: evaluate a method of study '{study['name']}' first."
        )
    return {method: files[method] for method in methods}


def _shown_images(images: np.ndarray, embeddings: dict[str, np.ndarray], inputs: Inputs) -> _Shown:
    index = read_index(inputs.index)
    own = index["label"].to_numpy()[images]
    return _Shown(images, own, results.class_names(index), results.class_groups(index), embeddings)


def best(study: Mapping[str, Any], dataset: str, inputs: Inputs, reference: str | None) -> str | None:
    """The trained method to show: the highest on the metric that selects checkpoints, first view of the table."""
    summary = results.summarise(_evaluations(study, inputs))
    return results.best_method(summary, lead_metric(study, dataset), study["views"][0], exclude=[reference])


def lead_metric(study: Mapping[str, Any], dataset: str) -> str:
    """The metric that stands for all: what selects checkpoints, else the table's last (of queries, its first)."""
    settings = protocol_of(study, dataset)
    shown, chosen = settings["evaluation"]["table"], settings["selection"].get("metric")
    last = 0 if study["views"][0] in QUERY_VIEWS else -1
    return chosen if chosen in shown else shown[last]


def _map(study, dataset: str, inputs: Inputs, reference: str | None, files: dict[str, str | Path]) -> Figure:
    shown = _shown(study, dataset, inputs, reference)
    part = spread_classes(shown.labels, figures.MAP_IMAGES)
    images, labels_here = shown.images[part], shown.labels[part]
    chosen = figures.highlighted_classes(labels_here, shown.groups)
    pack = PackedImages(inputs.pack)
    pictures = {int(at): pack.image(int(images[at])) for at in np.flatnonzero(np.isin(labels_here, chosen))}
    icons = all(max(picture.shape[:2]) <= ICON for picture in pictures.values())
    return figures.embedding_map(
        {label: vectors[part] for label, vectors in shown.embeddings.items()},
        labels_here,
        shown=chosen,
        names=shown.names,
        thumbnails=pictures if icons else None,
        **files,
    )


def _gallery(study, dataset: str, inputs: Inputs, reference: str | None, files: dict[str, str | Path]) -> Figure:
    shown = _shown(study, dataset, inputs, reference, with_gallery=True)
    asking = np.arange(len(results.test_images(read_json(inputs.split))))
    last = list(shown.embeddings.values())[-1]
    right = shown.labels[_found(last, asking, len(asking), 1)[:, 0]] == shown.labels[asking]
    queries = gallery.choose_queries(shown.labels[asking], right, QUERIES)
    found = {label: _found(vectors, queries, len(asking), NEIGHBOURS) for label, vectors in shown.embeddings.items()}
    pack = PackedImages(inputs.pack)
    return gallery.draw(
        lambda position: np.asarray(pack.image(int(shown.images[position]))),
        shown.labels,
        queries,
        found,
        names=shown.names,
        **files,
    )


def _found(vectors: np.ndarray, rows: np.ndarray, queries: int, count: int) -> np.ndarray:
    """Which rows are nearest: of the gallery behind the first ``queries`` rows, or if there is none, of all others."""
    if queries < len(vectors):
        return queries + Search(vectors[queries:]).nearest(vectors[rows], count)
    search = Search(vectors)
    if len(rows) == queries:
        search.pair_up(count)
    return search.nearest(None, count, rows)


def page(
    study: Mapping[str, Any],
    table_files: Iterable[str | Path],
    figure_files: Iterable[str | Path],
    run_files: Iterable[str | Path],
) -> str:
    """The whole study from its finished tables (.csv and .md), figures (.png and .svg) and run records."""
    drawn = {Path(path).name: path for path in figure_files}
    written = {(Path(path).parent.name, Path(path).suffix): path for path in table_files}
    sections = [
        _section(study, dataset, tables.read(written[dataset, ".csv"], written[dataset, ".md"]), drawn)
        for dataset in study["datasets"]
        if (dataset, ".csv") in written
    ]
    order = {method: number for number, method in enumerate(study["methods"])}
    runs = results.read_runs(run_files)
    runs.sort(key=lambda run: (run["dataset"], order.get(run["method"], len(order)), run["seed"], run["fold"]))
    return pages.render(
        study=study["name"],
        title=study.get("title", study["name"]),
        description=study.get("description", ""),
        sections=sections,
        runs=runs,
        labels=labels(study),
        command=f"snakemake --cores all {study['name']}",
    )


def _section(
    study: Mapping[str, Any], dataset: str, own: tables.Table, drawn: Mapping[str, str | Path]
) -> pages.Section:
    reference = results.untrained_method(study, dataset)
    headline = tables.headline(own.frame, lead_metric(study, dataset), study["views"][0], reference)
    if study.get("variant") == SO_FAR and own.frame["mean"].isna().all():
        headline = f"Nothing has been measured on {dataset} yet."
    shown = []
    for kind in pages.TITLES:
        png, svg = (drawn.get(f"{dataset}_{kind}.{suffix}") for suffix in ("png", "svg"))
        if png and svg:
            summed = f" {headline}" if kind in ("metrics", "sweep") and headline else ""
            alt = f"{pages.TITLES[kind]} on {dataset}.{summed} The caption below says how to read it."
            text = pages.caption(CAPTIONS / "figure.rst", study=study["name"], dataset=dataset, figure=kind)
            shown.append(pages.Figure(kind, png, svg, text, alt))
    return pages.Section(dataset, own, shown, headline)
