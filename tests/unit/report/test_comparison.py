"""The comparison of all rows of a dataset: frame, CSV and the figure of differences. All numbers are made up."""

import csv
import io
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from recheck.files import write_json
from recheck.report import comparison
from recheck.report.figures import all_figures
from recheck.report.inputs import Inputs
from recheck.report.results import EVALUATION_COLUMNS, FOLD_COLUMNS
from recheck.statistics import paired
from support.report.facts import facts

VIEWS = ("concatenated", "separated")
LABELS = {"worst": "Worst <&>", "middle": "Middle", "best": "Best"}


def measured(labels=LABELS, seeds=7, folds=2, missing=(), step=0.02, **changes):
    """The inputs of a study whose rows get better from first to last; ``missing`` are (row, seed)."""
    whole, single = [], []
    for number, name in enumerate(labels):
        for seed in range(seeds):
            values = 0.4 + step * number + 0.01 * np.random.default_rng([number, seed]).normal(size=folds)
            if (name, seed) not in missing:
                key = ["emoji", name, seed]
                whole += [[*key, view, 128, "MAP@R", values.mean()] for view in VIEWS]
                single += [[*key, "separated", fold, "MAP@R", value] for fold, value in enumerate(values)]
    inputs = Inputs(facts(labels, seeds=seeds, **changes), {})
    inputs.evaluations = pd.DataFrame(whole, columns=EVALUATION_COLUMNS)
    inputs.folds = pd.DataFrame(single, columns=FOLD_COLUMNS)
    return inputs


def drawn(inputs, folder):
    figure = all_figures()["differences"].draw(inputs, folder / "a.png", folder / "a.svg")
    figure.draw_without_rendering()
    return figure


def cells(axis):
    """(row, column) → text of a matrix."""
    return {(round(text.get_position()[1]), round(text.get_position()[0])): text for text in axis.texts}


def test_every_pair_of_every_view_has_a_line_in_percentage_points():
    inputs = measured()
    lines = list(csv.DictReader(io.StringIO(comparison.csv(inputs.comparison))))
    assert [(line["view"], line["first"], line["second"]) for line in lines] == [
        (view, *pair) for view in VIEWS for pair in (("worst", "middle"), ("worst", "best"), ("middle", "best"))
    ]
    assert {line["metric"] for line in lines} == {"MAP@R"} and {line["note"] for line in lines} == {""}
    assert [line["pairs"] for line in lines] == ["7"] * 3 + ["14"] * 3 and {line["seeds"] for line in lines} == {"7"}
    rows = comparison.values(inputs.evaluations, inputs.folds, "separated", "MAP@R")
    single = paired.compare(rows["worst"], rows["best"])
    assert float(lines[4]["difference"]) == 100 * single.difference < -3
    assert [float(lines[4][key]) for key in ("low", "high")] == [100 * single.low, 100 * single.high]
    assert [float(lines[4][key]) for key in ("p", "probability")] == [single.p, single.probability] == [2 / 128, 0]
    p = paired.adjusted([float(line["p"]) for line in lines[3:]])
    assert [float(line["p_adjusted"]) for line in lines[3:]] == p.tolist()


def test_the_difference_is_that_of_the_table():
    inputs = measured()
    means = inputs.frame[inputs.frame["metric"] == "MAP@R"].set_index(["method", "view"])["mean"]
    for line in inputs.comparison.itertuples():
        assert line.difference == pytest.approx(means[line.first, line.view] - means[line.second, line.view])


def test_missing_seeds_are_left_out_and_counted():
    missing = [("best", 0), ("best", 3), *(("worst", seed) for seed in range(1, 7))]
    comparison = measured(missing=missing).comparison.set_index(["view", "first", "second"])
    some = comparison.loc["concatenated", "middle", "best"]
    assert some["seeds"] == 5 and some["note"] == "Paired on 5 seeds: the first row has 7, the second 5."
    one = comparison.loc["concatenated", "worst", "middle"]
    assert (
        one["note"] == "No interval and no test: one seed in common." and one[["low", "p", "p_adjusted"]].isna().all()
    )
    assert comparison.loc["separated", "worst", "best"]["note"] == "No interval and no test: no seed in common."
    assert np.isnan(comparison.loc["separated", "worst", "best"]["difference"])


def test_a_seed_without_all_views_is_not_compared(tmp_path):
    """Its folds are in a file that exists, but the table leaves it out."""
    paths = []
    for name, seed, view in product(("worst", "best"), range(3), VIEWS):
        metrics = {"MAP@R": 0.1 * seed}
        paths.append(tmp_path / "quick" / "emoji" / name / f"seed{seed}" / f"{view}.json")
        if (name, seed, view) != ("best", 2, "concatenated"):
            write_json(paths[-1], {"metrics": metrics, **({"folds": [metrics] * 2} if view == "separated" else {})})
    paths = [path for path in paths if path.exists()]
    comparison = Inputs(facts(LABELS, seeds=3), {"evaluations": paths}).comparison
    assert comparison["seeds"].tolist() == [2, 2] and comparison["pairs"].tolist() == [2, 4]


@pytest.mark.parametrize("changes", [{"scope": "published"}, {"lead_metric": "distance"}])
def test_nothing_to_compare_gives_a_file_with_a_header(changes):
    inputs = measured(seeds=0 if "scope" in changes else 2, **changes)
    assert comparison.csv(inputs.comparison) == ",".join(comparison.COLUMNS) + "\n"


def test_a_matrix_shows_both_directions_and_marks_what_is_clear(tmp_path):
    figure = drawn(measured(), tmp_path)
    assert [axis.get_title() for axis in figure.axes] == ["MAP@R, concatenated, 128-d", "MAP@R, separated, 128-d"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Best  1", "Middle  2", "Worst <&>  3"]
    shown = cells(figure.axes[0])
    assert shown[0, 2].get_text().startswith("+") and shown[2, 0].get_text().startswith("−")
    assert shown[0, 2].get_text()[1:] == shown[2, 0].get_text()[1:]
    assert shown[0, 2].get_fontweight() == "bold" and len(figure.axes[0].collections) >= 2
    assert (1, 1) not in shown


def test_equal_rows_are_neither_bold_nor_grey(tmp_path):
    figure = drawn(measured(step=0), tmp_path)
    assert {text.get_fontweight() for text in figure.axes[0].texts} == {"normal"} and not figure.axes[0].collections


@pytest.mark.slow
def test_many_methods_have_marks_and_stay_readable(tmp_path):
    labels = {f"m{number}": f"Method {number}" for number in range(20)}
    figure = drawn(measured(labels, seeds=6, folds=1, step=0.01), tmp_path)
    marks = {(x, y): line.get_marker() for line in figure.axes[0].lines for x, y in line.get_xydata()}
    assert set(marks.values()) == {"^", "v", "."} and len(marks) == 20 * 19 and not figure.axes[0].texts
    assert marks[19, 0] == "^" and marks[0, 19] == "v"
    boxes = [text.get_window_extent() for text in figure.axes[0].get_xticklabels()]
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))


def test_one_seed_gives_a_sentence_instead_of_a_matrix(tmp_path):
    figure = drawn(measured(seeds=1), tmp_path)
    assert "two or more seeds" in figure.texts[0].get_text()


def test_the_caption_says_what_few_seeds_cannot_show():
    three = all_figures()["differences"].describe(facts(LABELS, seeds=3))
    assert (
        "3 seeds are too few for p ≤ 0.05: the smallest possible p is 0.25, and the confidence of the "
        "interval is only 75 %." in three
    )
    assert "too few" not in all_figures()["differences"].describe(facts(LABELS, seeds=6))


@pytest.mark.parametrize(("scope", "explained"), [("all", False), ("so_far", True)])
def test_the_caption_explains_numbers_in_brackets_where_seeds_may_be_missing(scope, explained):
    text = all_figures()["differences"].describe(facts(LABELS, seeds=6, scope=scope))
    assert ("A number in brackets has neither an interval nor a test" in text) == explained
