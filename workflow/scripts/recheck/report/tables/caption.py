"""A table's caption: the dataset, the scale, what ± means, and which values are measured or quoted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from recheck.names import BEST_ON_TEST, DISTANCES, LAST_EPOCH, VALIDATION, view_title
from recheck.report import verdicts
from recheck.report.numbers import number
from recheck.report.tables.columns import NOT_RUN
from recheck.report.tables.frame import CHANCE
from recheck.sanity import MARK

ORDINALS = ("the first source", "the second source", "the third source")


def text(facts: Mapping[str, Any], rows: pd.DataFrame, sizes: Mapping[str, Any]) -> str:
    """The caption of a table; ``rows`` is its frame, ``sizes`` the sizes of the split (empty if unknown)."""
    given = pd.DataFrame(rows["quotes"].tolist(), index=rows.index).notna()
    sources = [document["source"] for place, document in enumerate(facts["published"]) if given[place].any()]
    disagree = any(len({number(value) for value in quotes if not np.isnan(value)}) > 1 for quotes in rows["quotes"])
    both_given = len(sources) > 1 and disagree
    quoted = _quoted(facts, rows, given, sources, both_given)
    if facts["scope"] == "published":
        sentences = [
            f"{facts['dataset_title']}. Nothing was measured here: all values are {quoted} {_units(facts)}",
            *_about_validation(rows),
            "Bold: highest value, whatever its uncertainty." if rows["best"].any() else "",
        ]
        return " ".join(sentence for sentence in sentences if sentence)
    methods = rows[(rows["method"] != CHANCE) & (rows["planned"] > 0)]
    sentences = [
        *about_sizes(facts["dataset_title"], sizes, any(row["trained"] or row["released"] for row in facts["rows"])),
        facts["backbone"] and f"Backbone: {facts['backbone']}.",
        facts["scale"] and f"Scale: {facts['scale'].rstrip('.')}.",
        _units(facts),
        *_about_seeds(methods),
        *_about_bold(methods),
    ]
    sentences += _about_validation(rows)
    if "search_trials" in rows:
        sentences += _about_searches(rows)
    if "cost_needs" in rows:
        sentences.append(
            "“Needs”: what a method needs beyond the protocol, its loss and its miner. “Images” (passed through the "
            "network in training, with all views and members), trainable “Parameters” and “CPU s” of training are "
            "totals per seed over all folds or members, without the search."
        )
    if BEST_ON_TEST in facts["views"]:
        sentences.append(
            "“Best epoch on test” is selected on the test set itself, so compare it only with published values that "
            "were selected in the same way."
        )
    if {BEST_ON_TEST, LAST_EPOCH} <= set(facts["views"]):
        sentences.append("“Last epoch” involves no selection, so it says more about new images.")
    if "queries" in sizes:
        sentences.append(
            "F1, precision, recall, binary accuracy and accuracy are measured at the distance threshold with the best "
            "F1 on the same queries: nearest neighbours up to this distance are accepted. “distance” is this "
            "threshold. Recall is the accepted share of the queries with a correct nearest neighbour; binary accuracy "
            "is the share of all queries that are correct and accepted. “Chance”: R@k of a random order."
        )
    if any(row["released"] for row in facts["rows"]):
        sentences.append(
            "Rows marked “released” are checkpoints published by others, which were evaluated but not trained here."
        )
    absent = methods.loc[methods["mean"].isna() & ~methods["failed"], "method"].nunique()
    if absent:
        sentences.append(f"“{NOT_RUN}”: not measured here yet ({absent} of {methods['method'].nunique()} rows).")
    if sources:
        sentences.append(f"Published values are {quoted}")
        sentences.append("Δ = measured here − published" + (f" ({ORDINALS[0]})." if both_given else "."))
        sentences += verdicts.about(rows)
    return " ".join(sentence for sentence in sentences if sentence)


def _units(facts: Mapping[str, Any]) -> str:
    """A sentence on the units of the values."""
    if any(metric in DISTANCES for metric in facts["metrics"]):
        return "All values in percent, except distances, which are cosine distances (0 to 2)."
    return "All values in percent."


def about_sizes(dataset: str, sizes: Mapping[str, Any], trained: bool = True) -> list[str]:
    """Sentences on the queries, the images that they search and, if any row is ``trained``, the training images."""
    sentences = [f"{dataset}."]
    if "test_images" in sizes:
        unseen = ", all unseen in training" if trained and sizes["unseen_classes"] else ""
        queries, gallery = "test images", ""
        if "gallery_images" in sizes:
            queries, gallery = "queries", f". Each query searches {sizes['gallery_images']:,} gallery images"
        counts = f"{sizes['test_images']:,} {queries} of {sizes['test_classes']:,} classes"
        sentences = [f"{dataset}: {counts}{unseen}{gallery}."]
    if "queries" in sizes:
        counts = " and ".join(f"{count:,} {name}" for name, count in sizes["queries"].items())
        sentences = [
            f"{dataset}: {counts} queries. Each query searches an index of {sizes['index_images']:,} images of "
            f"{sizes['index_classes']:,} classes; half of these classes, the seen ones, are used for training."
        ]
    if "lists" in sizes:
        sentences.append(
            "Split: the authors' published lists."
            if sizes["lists"]
            else "Split: generated here, because the authors' lists could not be fetched. Published values were "
            "measured on those lists."
        )
    if trained and (folds := sizes.get("folds")):
        start = f"{folds} folds, each trained on about" if folds > 1 else "Trained on"
        sentences.append(f"{start} {sizes['train_images']:,} images of {sizes['train_classes']:,} classes.")
    return sentences


def _about_seeds(methods: pd.DataFrame) -> list[str]:
    """A sentence on ±; empty if nothing has been measured yet."""
    if methods["mean"].isna().all():
        return []
    planned = methods["planned"].max()
    if planned == 1:
        sentence = (
            "Measured here with one seed, so without intervals; nothing is bold, because one seed cannot rank rows."
        )
    else:
        # if rows have different numbers of seeds, the last column shows them
        same = (methods["seeds"] == methods["planned"]).all() and methods["planned"].nunique() == 1
        over = f"{planned} seeds" if same else "the seeds in the last column (if two or more)"
        sentence = f"Measured here: mean ± half-width of the 95 % t-interval over {over}."
    return [sentence]


def _about_validation(rows: pd.DataFrame) -> list[str]:
    """Sentences on the values on validation classes."""
    shown = rows[rows["view"] == VALIDATION]
    if shown["published"].isna().all():
        return []
    sentences = ["“Validation”: metric of the selected epoch on the validation classes of its fold, mean over folds."]
    if shown["mean"].notna().any():
        sentences.append(
            "Its published values are the best of many trials, each trained once; a repetition with the same settings "
            "is expected to be slightly lower."
        )
    else:
        sentences.append("These values are the best of many trials, each trained once, so they are slightly too high.")
    return sentences


def _about_searches(rows: pd.DataFrame) -> list[str]:
    """Sentences on the columns of searches."""
    metric = next(name for name in rows["search_metric"] if name)
    sentences = [
        f"“Selected trial”: validation {metric} of the best trial, the highest of several noisy values. “Reruns”: the "
        "same metric of runs with the chosen settings and the seeds of this table, which exclude that trial. Searches "
        "see no test image."
    ]
    if rows["search_on_bound"].map(len).any():
        sentences.append("“On a bound”: chosen values at an end of their interval; a wider interval may be better.")
    return sentences


def _about_bold(methods: pd.DataFrame) -> list[str]:
    """Sentences on bold values and on the mark of rows with warnings."""
    sentences, measured = [], methods[methods["mean"].notna()]
    if methods["best"].any():
        sentences.append(
            "Bold: highest mean, and all means that the seeds cannot separate from it (t-intervals of paired "
            "differences, 95 % for all pairs of rows together)."
        )
        if (measured["seeds"] < 2).any():
            sentences.append("Rows with one seed are never bold.")
    if measured["warned"].any():
        sentences.append(f"“{MARK}”: row with a warning, never bold.")
    return sentences


def _quoted(
    facts: Mapping[str, Any], rows: pd.DataFrame, given: pd.DataFrame, sources: Sequence[str], both_given: bool
) -> str:
    """A clause on the quoted documents, what only one of them has, and which values were read off a plot."""
    second = "; where they disagree, both values are given, in this order" if both_given else ""
    single_sources = _only(facts, rows, given) if len(sources) > 1 else []
    only = "".join(f"; {what} only from {_ordinal(sources, source)}" for source, what in single_sources)
    approximate = [document["source"] for document in facts["published"] if document.get("approximate")]
    read_off = [_ordinal(sources, source) for source in approximate if source in sources]
    which = f" ({' and '.join(read_off)})" if len(sources) > 1 else ""
    about = f" “≈”: read off a plot{which}." if read_off else ""
    return f"quoted from {' and '.join(sources)}{second}{only}.{about}"


def _ordinal(sources: Sequence[str], source: str) -> str:
    """A document as “the first source” and so on, because titles are long."""
    place = sources.index(source)
    return ORDINALS[place] if place < len(ORDINALS) else source


def _only(facts: Mapping[str, Any], rows: pd.DataFrame, given: pd.DataFrame) -> list[tuple[str, str]]:
    """For each document after the first, the views or the number of rows that no earlier document has."""
    only = []
    any_given = given.any(axis=1)
    for place, document in list(enumerate(facts["published"]))[1:]:
        new = given[place] & ~given.loc[:, : place - 1].any(axis=1)
        if not new.any():
            continue
        views = list(dict.fromkeys(rows.loc[new, "view"]))
        if new[any_given & rows["view"].isin(views)].all():
            only.append((document["source"], f"the view “{'” and “'.join(map(view_title, views))}”"))
        else:
            count, total = rows.loc[new, "method"].nunique(), rows["method"].nunique()
            only.append((document["source"], f"{count} of {total} rows"))
    return only


def headline(facts: Mapping[str, Any], rows: pd.DataFrame) -> str:
    """The table in one sentence: the best rows, as far as seeds separate them, and the untrained row on one metric."""
    if facts["scope"] == "so_far" and rows["mean"].isna().all():
        return f"Nothing has been measured on {facts['dataset']} yet."
    metric, view, reference = facts["lead_metric"], facts["views"][0], facts["reference"]
    shown = rows[
        (rows["metric"] == metric) & (rows["view"] == view) & rows["mean"].notna() & (rows["method"] != CHANCE)
    ]
    trained = shown[shown["method"] != reference]
    if trained.empty:
        return ""
    base = shown[shown["method"] == reference]
    end = "".join(f"; untrained ({row.label}): {_percent(row.mean)}" for row in base.itertuples()) + "."
    title = f"{metric} ({view_title(view)})"
    sane = trained[~trained["warned"]].sort_values("mean", ascending=False, kind="stable")
    if sane.empty:
        return f"{title}: every trained row has a warning" + end
    if len(sane) == 1:
        return f"{title}: {sane['label'].iloc[0]}, {_percent(sane['mean'].iloc[0])}" + end
    best = shown[shown["best"]].sort_values("mean", ascending=False, kind="stable")
    if best.empty:
        low, high = (f"{_percent(row.mean)} ({row.label})" for row in sane.iloc[[-1, 0]].itertuples())
        return f"{title}: {low} to {high}, which one seed cannot rank" + end
    tied = list(best["label"].iloc[1:])
    also = f", not separated from {_listed(tied)}" if tied else ""
    return f"Highest {title}: {best['label'].iloc[0]}, {_percent(best['mean'].iloc[0])}{also}" + end


def _percent(value: float) -> str:
    return f"{number(value)}\u00a0%"


def _listed(labels: Sequence[str], most: int = 3) -> str:
    """The labels in words, and a number instead of the last ones if there are many."""
    if len(labels) > most:
        labels = [*labels[: most - 1], f"{len(labels) - most + 1} others"]
    return " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
