"""The line under a table: on what, at which scale, what ± is, what was measured here and what is quoted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from recheck.names import BEST_ON_TEST, view_title
from recheck.report.numbers import number
from recheck.report.tables.columns import NOT_RUN
from recheck.report.tables.frame import CHANCE

ORDINALS = ("the first", "the second", "the third")


def text(facts: Mapping[str, Any], rows: pd.DataFrame, sizes: Mapping[str, Any]) -> str:
    """All sentences about a table; ``rows`` is its frame, ``sizes`` are those of the split if it is known."""
    given = pd.DataFrame(rows["quotes"].tolist(), index=rows.index).notna()
    sources = [document["source"] for place, document in enumerate(facts["published"]) if given[place].any()]
    disagree = any(len({number(value) for value in own if not np.isnan(value)}) > 1 for own in rows["quotes"])
    both_given = len(sources) > 1 and disagree
    quoted = _quoted(facts, rows, given, sources, both_given)
    if facts["scope"] == "published":
        return (
            f"{facts['dataset']}. Nothing was measured here: all values are {quoted} In percent, the highest in bold."
        )
    own = rows[rows["method"] != CHANCE]
    parts = [
        *about_sizes(facts["dataset"], sizes),
        facts["backbone"] and f"Backbone: {facts['backbone']}.",
        facts["scale"] and f"Scale: {facts['scale'].rstrip('.')}.",
        "All values in percent.",
        *_about_seeds(own),
    ]
    if BEST_ON_TEST in facts["views"]:
        parts.append(
            "“Best epoch on test” is selected on the test set itself: it can be compared only with published values "
            "that were selected so too, and says less about new images than “Last epoch”, which is not selected."
        )
    if "queries" in sizes:
        parts.append(
            "F1, precision, recall (of the queries whose nearest neighbour is right), binary accuracy (right and "
            "accepted, of all queries) and accuracy are those of accepting neighbours up to the distance with the best "
            "F1 of the same queries; that cosine distance is given in hundredths. “Chance”: R@k of a random order."
        )
    if any(row["released"] for row in facts["rows"]):
        parts.append("Rows marked “released” are checkpoints published by others, evaluated here and not trained here.")
    absent = own.loc[own["mean"].isna() & ~own["failed"], "method"].nunique()
    if absent:
        parts.append(f"“{NOT_RUN}”: not measured here yet ({absent} of {own['method'].nunique()} rows).")
    if sources:
        parts.append(f"Published values are {quoted}")
        parts.append("Δ = measured here − published" + (" (the first)." if both_given else "."))
    return " ".join(part for part in parts if part)


def about_sizes(dataset: str, sizes: Mapping[str, Any]) -> list[str]:
    """What is searched with and among, and what was trained on."""
    parts = [f"{dataset}."]
    if "test_images" in sizes:
        unseen = ", all of them unseen in training" if sizes["unseen_classes"] else ""
        what, among = "test images", ""
        if "gallery_images" in sizes:
            what, among = "queries", f", each searched for among {sizes['gallery_images']:,} gallery images"
        counts = f"{sizes['test_images']:,} {what} of {sizes['test_classes']:,} classes"
        parts = [f"{dataset}: {counts}{unseen}{among}."]
    if "queries" in sizes:
        many = " and ".join(f"{count:,} {name}" for name, count in sizes["queries"].items())
        parts = [
            f"{dataset}: {many} queries, each searched for among {sizes['index_images']:,} images of "
            f"{sizes['index_classes']:,} classes; half of the classes, the seen ones, are trained on."
        ]
    if folds := sizes.get("folds"):
        many = f"{folds} folds, each trained on about" if folds > 1 else "Trained on"
        parts.append(f"{many} {sizes['train_images']:,} images of {sizes['train_classes']:,} classes.")
    return parts


def _about_seeds(own: pd.DataFrame) -> list[str]:
    """What ± and bold are; nothing where nothing has been measured yet."""
    if own["mean"].isna().all():
        return []
    planned = own["planned"].max()
    if planned == 1:
        said = "Measured here with one seed, so without an interval (± appears with two or more)."
    else:
        # of rows that plan fewer seeds, the last column tells
        same = (own["seeds"] == own["planned"]).all() and own["planned"].nunique() == 1
        over = f"{planned} seeds" if same else "the seeds in the last column (two or more)"
        said = f"Measured here: mean ± half-width of the 95 % t-interval over {over}."
    return [said, "Bold: the best measured here."]


def _quoted(
    facts: Mapping[str, Any], rows: pd.DataFrame, given: pd.DataFrame, sources: Sequence[str], both_given: bool
) -> str:
    """Which documents are quoted, for what each alone, and which values were read off a plot."""
    second = "; where they disagree both are given, in this order" if both_given else ""
    alone = "".join(f"; {what} from {_ordinal(sources, source)} alone" for source, what in _only(facts, rows, given))
    approximate = [document["source"] for document in facts["published"] if document.get("approximate")]
    read_off = [_ordinal(sources, source) for source in approximate if source in sources]
    which = f" ({' and '.join(read_off)})" if len(sources) > 1 else ""
    about = f" “≈”: read off a plot{which}." if read_off else ""
    return f"quoted from {' and '.join(sources)}{second}{alone}.{about}"


def _ordinal(sources: Sequence[str], source: str) -> str:
    """A document by its place among those that were named just before: titles are long."""
    place = sources.index(source)
    return ORDINALS[place] if place < len(ORDINALS) else source


def _only(facts: Mapping[str, Any], rows: pd.DataFrame, given: pd.DataFrame) -> list[tuple[str, str]]:
    """What each later document is quoted for because none before it has a value: views, or else a number of rows."""
    found = []
    any_given = given.any(axis=1)
    for place, document in list(enumerate(facts["published"]))[1:]:
        own = given[place] & ~given.loc[:, : place - 1].any(axis=1)
        if not own.any():
            continue
        views = list(dict.fromkeys(rows.loc[own, "view"]))
        if own[any_given & rows["view"].isin(views)].all():
            found.append((document["source"], f"the view “{'” and “'.join(map(view_title, views))}”"))
        else:
            count, total = rows.loc[own, "method"].nunique(), rows["method"].nunique()
            found.append((document["source"], f"{count} of {total} rows"))
    return found


def headline(facts: Mapping[str, Any], rows: pd.DataFrame) -> str:
    """The table in one sentence: the best row on one metric, and how far it is from the untrained one."""
    if facts["scope"] == "so_far" and rows["mean"].isna().all():
        return f"Nothing has been measured on {facts['dataset']} yet."
    metric, view, reference = facts["lead_metric"], facts["views"][0], facts["reference"]
    shown = rows[(rows["metric"] == metric) & (rows["view"] == view) & rows["mean"].notna()]
    trained = shown[shown["method"] != reference]
    if trained.empty:
        return ""
    best = trained.loc[trained["mean"].idxmax()]
    sentence = f"Highest {metric} ({view_title(view)}): {best['label']}, {best['mean']:.2f}\u00a0%"
    base = shown[shown["method"] == reference]
    if not base.empty:
        sentence += f"; untrained ({base['label'].iloc[0]}): {base['mean'].iloc[0]:.2f}\u00a0%"
    return sentence + "."
