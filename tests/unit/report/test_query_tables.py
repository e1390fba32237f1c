"""Tables of query views: the row “Chance”, threshold metrics, the caption. All numbers here are made up."""

import numpy as np
import pandas as pd
import pytest

from recheck.files import write_json
from recheck.report import results, tables
from recheck.report.tables.frame import CHANCE
from support.report.facts import facts

VIEWS, METRICS = ["seen_queries", "unseen_queries"], ["R@1", "R@8", "F1", "binary_accuracy", "distance"]
METHODS = {"untrained": "Untrained head", "circle_loss": "Circle"}
CHANCES = {"seen_queries": {"R@1": 0.01, "R@8": 0.08}, "unseen_queries": {"R@1": 0.02, "R@8": 0.16}}
QUOTED = {
    "source": "The README",
    "values": {"cars196": {"circle_loss": {"seen_queries": {"R@1": 1.0204081, "distance": 0.832}}}},
}


def about(**changes):
    return facts(METHODS, dataset="cars196", views=VIEWS, metrics=METRICS, quoted=[QUOTED], **changes)


@pytest.fixture
def made():
    rows = [
        ["cars196", method, seed, view, 256, metric, 0.3 + 0.1 * row + 0.01 * seed]
        for row, method in enumerate(METHODS)
        for seed in range(2)
        for view in VIEWS
        for metric in METRICS
    ]
    summary = results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS))
    sizes = {"queries": {"seen": 980, "unseen": 970}, "index_images": 1960, "index_classes": 196}
    sizes |= {"folds": 1, "train_images": 6094, "train_classes": 98}
    return tables.make(about(seeds=2), summary, sizes=sizes, chance=CHANCES)


def test_chance_is_the_first_row_and_not_a_measurement(made):
    label, cells, ends = made.rows()[0]
    assert (label, ends) == ("Chance", ["—"])
    texts = dict(zip([(c.view, c.metric, c.kind) for c in made.columns], [cell.text for cell in cells], strict=True))
    assert texts["unseen_queries", "R@8", "ours"] == "16.00"
    assert texts["seen_queries", "F1", "ours"] == "—", "chance is never “not run”"
    assert texts["seen_queries", "R@1", "published"] == "—"
    assert not any(cell.bold for cell in cells)
    assert "not run" not in made.markdown().removesuffix(f"{made.caption}\n")


def test_a_distance_is_not_in_percent(made):
    place = [(c.view, c.metric, c.kind) for c in made.columns].index(("seen_queries", "distance", "ours"))
    cells = made.rows()[2][1]
    assert [cell.text for cell in cells[place : place + 3]] == ["0.405 ± 0.064", "0.832", "−0.427"]
    assert "All values in percent, except distances" in made.caption


def test_a_larger_distance_is_not_better(made):
    for _, cells, _ in made.rows():
        bold = [column.metric for column, cell in zip(made.columns, cells, strict=True) if cell.bold]
        assert "distance" not in bold
    assert sum(cell.bold for _, cells, _ in made.rows() for cell in cells) == 8


def test_the_caption_counts_queries_and_explains_columns(made):
    caption = made.caption
    assert "980 seen and 970 unseen queries. Each query searches an index of 1,960 images of 196 classes" in caption
    assert "Trained on 6,094 images of 98 classes" in caption
    assert "over 2 seeds" in caption
    assert "“Chance”: R@k of a random order" in caption


def test_column_titles_have_no_underscores(made):
    assert "Seen queries 256-d binary accuracy" in made.markdown()
    assert "binary accuracy" in made.latex() and "binary accuracy" in made.html()
    assert "seen_queries_binary_accuracy_mean" in made.csv()


def test_a_table_of_queries_can_be_loaded(made, tmp_path):
    write_json(tmp_path / "table.json", made.json())
    again = tables.load(tmp_path / "table.json")
    assert again.caption == made.caption
    assert again.rows() == made.rows()
    chance = again.frame[again.frame["method"] == CHANCE]
    assert np.allclose(chance.loc[chance["metric"] == "R@1", "mean"], [1.0, 2.0])


def test_a_table_of_published_values_has_no_chance():
    empty = pd.DataFrame(columns=["dataset", "method", "view", "metric", "interval", "mean", "seeds", "dim", "by_seed"])
    quotes = tables.make(about(scope="published"), empty, chance=CHANCES)
    assert CHANCE not in set(quotes.frame["method"])
