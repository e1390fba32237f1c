"""Average ranks over datasets: values from tables, and the diagram. All numbers here are made up."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from recheck.files import write_json
from recheck.report import page, tables
from recheck.report.figures import all_figures, critical_difference, study_figures
from recheck.report.inputs import StudyInputs
from recheck.report.results import EVALUATION_COLUMNS, summarise
from recheck.statistics.ranks import critical_difference as critical
from recheck.statistics.ranks import ranking
from support.report.drawn import texts_of
from support.report.facts import facts

LABELS = {name: name.title() for name in ("arcface", "cosface", "margin", "triplet")}
FIGURE = study_figures()["critical_difference"]
SEED_RANKS = all_figures()["seed_ranks"]


def quotes(names=LABELS):
    values = {name: {"separated": {"MAP@R": 40.0 - number}} for number, name in enumerate(names)}
    return [{"source": "Paper", "values": {"birds": values, "cars": values}}]


def study(missing=(), datasets=("birds", "cars"), quoted=(), scope="all"):
    """The inputs of a study in which the first method is the best on all datasets; ``missing`` are (row, dataset)."""
    all_facts = [facts(LABELS, dataset=dataset, scope=scope, quoted=quoted) for dataset in datasets]
    made = []
    for about in all_facts:
        rows = [
            [about["dataset"], name, 0, view, 128, "MAP@R", 0.5 - 0.1 * number]
            for number, name in enumerate(LABELS)
            for view in about["views"]
            if (name, about["dataset"]) not in missing and scope == "all"
        ]
        made.append(tables.make(about, summarise(pd.DataFrame(rows, columns=EVALUATION_COLUMNS))))
    return StudyInputs(all_facts, made)


def drawn(inputs, folder):
    figure = FIGURE.draw(inputs, folder / "a.png", folder / "a.svg")
    figure.draw_without_rendering()
    return figure


def test_methods_are_named_with_their_average_ranks(tmp_path):
    figure = drawn(study(), tmp_path)
    assert len(figure.axes) == 2
    assert figure.axes[0].get_title().startswith("MAP@R, concatenated: 2 datasets, Friedman test p = ")
    shown = texts_of(figure.axes[0])
    assert {"Arcface  1.00", "Cosface  2.00", "3.00  Margin", "4.00  Triplet"} <= set(shown)
    assert any("critical difference 3.32: the ranks of 4 methods cannot differ by this much" in text for text in shown)


def test_a_method_without_a_value_on_every_dataset_is_named_but_not_ranked(tmp_path):
    figure = drawn(study(missing=[("cosface", "cars")]), tmp_path)
    shown = texts_of(figure.axes[0])
    assert "not ranked, because a value is missing for at least one dataset: Cosface" in shown
    assert "Margin  2.00" in shown and "3.00  Triplet" in shown


def test_published_values_are_ranked_where_nothing_is_measured(tmp_path):
    figure = drawn(study(quoted=quotes(), scope="published"), tmp_path)
    assert figure.get_suptitle().startswith("Published values only")
    assert len(figure.axes) == 1 and "Arcface  1.00" in texts_of(figure.axes[0])


def test_a_dataset_without_any_value_is_left_out(tmp_path):
    inputs = study(quoted=quotes(), scope="published", datasets=("birds", "flowers", "cars"))
    assert FIGURE.applies(inputs.facts) and FIGURE.describe(inputs.facts).endswith("The datasets are birds, cars.")
    assert "2 datasets" in drawn(inputs, tmp_path).axes[0].get_title()


def test_too_few_methods_give_a_sentence(tmp_path):
    figure = drawn(study(missing=[("cosface", "cars"), ("margin", "cars")]), tmp_path)
    assert "3 or more methods" in figure.texts[0].get_text()


@pytest.mark.parametrize(("datasets", "methods"), [(5, 6), (20, 40)])
def test_labels_do_not_touch_and_bars_join_the_groups(tmp_path, datasets, methods):
    random = np.random.default_rng(0)
    values = random.normal(size=(datasets, methods)) - 6 * np.arange(methods) / methods
    frame = pd.DataFrame(values, columns=[f"Method {number} of a family" for number in range(methods)])
    figure = critical_difference.draw([("R@1", frame)], published=False, png=tmp_path / "a.png", svg=tmp_path / "a.svg")
    figure.draw_without_rendering()
    axis = figure.axes[0]
    boxes = [text.get_window_extent() for text in axis.texts]
    touching = [(a, b) for a, one in enumerate(boxes) for b, two in enumerate(boxes[:a]) if one.overlaps(two)]
    assert not touching
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    bars = [line for line in axis.lines if line.get_linewidth() == 4]
    groups = ranking(values).groups
    assert len(bars) == len(groups) > 1
    for one, two in pairwise(bars):
        assert one.get_ydata()[0] != two.get_ydata()[0] or one.get_xdata()[1] < two.get_xdata()[0]


def test_bars_on_one_line_do_not_overlap():
    average = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert critical_difference.levels(average, [[0, 1], [1, 2], [2, 3], [3, 4]]) == [0, 1, 0, 1]
    assert critical_difference.levels(average, [[0, 1, 2], [1, 2, 3], [2, 3, 4]]) == [0, 1, 2]


def test_the_page_has_a_section_for_all_datasets(tmp_path):
    inputs = study()
    drawn(inputs, tmp_path)
    for end in ("png", "svg"):
        (tmp_path / f"a.{end}").rename(tmp_path / f"critical_difference.{end}")
    pictures = [tmp_path / f"critical_difference.{end}" for end in ("png", "svg")]
    titles = {"birds": "Birds", "cars": "Cars"}
    about = {**inputs.facts[0], "datasets": list(titles), "titles": titles, "quoted": []}
    about |= {
        "captions": {dataset: {} for dataset in titles},
        "captions_across": {"critical_difference": "Ranks & bars."},
    }
    paths = [tmp_path / f"{table.dataset}.json" for table in inputs.tables]
    for path, table in zip(paths, inputs.tables, strict=True):
        write_json(path, table.json())
    text = page.make(about, paths, pictures, [])
    assert '<h2 id="across">All datasets</h2>' in text and "Ranks &amp; bars." in text
    assert '<a href="#across-critical_difference">Average ranks over datasets</a>' in text
    without = page.make({**about, "captions_across": {}}, paths, [], [])
    assert "All datasets" not in without


def test_the_caption_names_the_datasets():
    text = FIGURE.describe(study().facts)
    assert text.endswith("The datasets are birds, cars.") and "critical difference" in text


def one_dataset(seeds, values):
    """The inputs of one dataset; ``values`` maps methods to one value per seed."""
    about = facts(LABELS, dataset="birds", seeds=seeds)
    rows = [
        ["birds", name, seed, view, 128, "MAP@R", value]
        for name, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
        for view in about["views"]
    ]
    frame = pd.DataFrame(rows, columns=EVALUATION_COLUMNS)
    return SimpleNamespace(facts=about, evaluations=frame, summary=summarise(frame), labels=LABELS)


def test_seeds_of_one_dataset_are_ranked_like_datasets(tmp_path):
    values = {"arcface": [0.5, 0.6, 0.4], "cosface": [0.4, 0.7, 0.3], "margin": [0.3, 0.5, 0.2], "triplet": [0.2, 0.1]}
    figure = SEED_RANKS.draw(one_dataset(3, values), tmp_path / "a.png", tmp_path / "a.svg")
    assert figure.axes[0].get_title().startswith("MAP@R, ") and "3 seeds, Friedman" in figure.axes[0].get_title()
    shown = texts_of(figure.axes[0])
    assert {"Arcface  1.33", "Cosface  1.67", "3.00  Margin"} <= set(shown)
    assert "not ranked, because a value is missing for at least one seed: Triplet" in shown


@pytest.mark.parametrize(("seeds", "applies"), [(1, False), (2, False), (3, True)])
def test_ranks_over_seeds_need_three_seeds(seeds, applies):
    assert SEED_RANKS.applies(facts(LABELS, dataset="birds", seeds=seeds)) == applies
    few = list(LABELS)[:2]
    assert not SEED_RANKS.applies(facts({name: LABELS[name] for name in few}, dataset="birds", seeds=seeds))


def test_two_seeds_never_separate_two_methods():
    """This is why ranks need at least three seeds."""
    for methods in (3, 10, 50, 200):
        assert critical(methods, 2) > methods - 1
    assert critical(50, 3) < 49
