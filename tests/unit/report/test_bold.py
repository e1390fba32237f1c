"""Bold values: the best of a column and all that the seeds cannot separate from it."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from recheck.report import results, tables
from recheck.report.tables.bold import ERROR, separated
from recheck.report.warned import Warned
from support.report.facts import facts

LABELS = {"pretrained": "Pretrained", "triplet": "Triplet", "ms": "MS", "arcface": "ArcFace"}


def table(values, labels=LABELS, warnings=(), metrics=("P@1",), **options):
    """A table of one view; ``values`` maps rows to one value per seed, or metrics to such a mapping."""
    by_metric = values if set(values) == set(metrics) else {metrics[0]: values}
    rows = [
        ["emoji", row, seed, "concatenated", 8, metric, value]
        for metric, of_rows in by_metric.items()
        for row, of_seeds in of_rows.items()
        for seed, value in (of_seeds.items() if isinstance(of_seeds, dict) else enumerate(of_seeds))
    ]
    summary = results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS))
    seeds = max((len(of_seeds) for of_rows in by_metric.values() for of_seeds in of_rows.values()), default=1)
    about = facts(labels, seeds=seeds, views=["concatenated"], metrics=list(metrics), lead_metric=metrics[0], **options)
    return tables.make(about, summary, warnings=warnings)


def bold(made):
    return [label for label, cells, _ in made.rows() if cells[0].bold]


CLEAR = {"pretrained": [0.30, 0.31, 0.30], "triplet": [0.50, 0.51, 0.52], "ms": [0.60, 0.61, 0.62]}
CLOSE = {**CLEAR, "arcface": [0.61, 0.59, 0.62]}


def test_a_best_row_that_the_seeds_separate_is_bold():
    made = table(CLEAR)
    assert bold(made) == ["MS"]
    assert "Bold: highest mean, and all means that the seeds cannot separate from it (" in made.caption
    assert made.headline == "Highest P@1 (concatenated): MS, 61.00\u00a0%; untrained (Pretrained): 30.33\u00a0%."


def test_rows_that_the_seeds_do_not_separate_are_all_bold():
    made = table(CLOSE)
    assert bold(made) == ["MS", "ArcFace"]
    assert made.headline.startswith(
        "Highest P@1 (concatenated): MS, 61.00\u00a0%, not separated from ArcFace; untrained"
    )


def test_one_seed_ranks_nothing():
    made = table({row: of_seeds[:1] for row, of_seeds in CLEAR.items()})
    assert bold(made) == []
    assert "nothing is bold, because one seed cannot rank rows" in made.caption and "Bold:" not in made.caption
    assert made.headline == (
        "P@1 (concatenated): 50.00\u00a0% (Triplet) to 60.00\u00a0% (MS), which one seed cannot rank; "
        "untrained (Pretrained): 30.00\u00a0%."
    )


def test_one_row_is_not_the_best_of_anything():
    made = table({"ms": CLEAR["ms"]}, labels={"ms": "MS"})
    assert bold(made) == [] and "Bold" not in made.caption
    assert made.headline == "P@1 (concatenated): MS, 61.00\u00a0%."


def test_a_row_with_a_warning_is_never_bold():
    made = table(CLEAR, warnings=[Warned("ms", "zero_loss")])
    assert bold(made) == ["Triplet"]
    assert "“⚠”: row with a warning, never bold." in made.caption
    assert made.headline == "P@1 (concatenated): Triplet, 51.00\u00a0%; untrained (Pretrained): 30.33\u00a0%."
    both = [Warned(row, "chance") for row in ("triplet", "ms")]
    made = table(CLEAR, warnings=both)
    assert bold(made) == []
    assert made.headline.startswith("P@1 (concatenated): every trained row has a warning; untrained")


def test_a_row_with_one_seed_is_never_bold():
    """DREML has one seed where all others have ten."""
    made = table({**CLEAR, "arcface": [0.9]})
    assert bold(made) == ["MS"]
    assert "Rows with one seed are never bold." in made.caption
    assert "Rows with one seed" not in table(CLEAR).caption


def test_published_values_have_no_intervals_and_the_caption_says_so():
    values = {"emoji": {"triplet": {"concatenated": {"P@1": 61.25}}, "ms": {"concatenated": {"P@1": 63.0}}}}
    made = table({}, quoted=[{"source": "Paper", "values": values}], scope="published")
    assert bold(made) == ["MS"]
    assert made.caption.endswith("Bold: highest value, whatever its uncertainty.")
    del values["emoji"]["ms"]
    made = table({}, quoted=[{"source": "Paper", "values": values}], scope="published")
    assert bold(made) == [] and "Bold" not in made.caption


def test_a_distance_is_never_bold():
    made = table({"distance": CLEAR}, metrics=("distance",))
    assert bold(made) == []


def test_cells_that_read_the_same_are_equal():
    made = table({"triplet": [0.5, 0.6], "ms": [0.500001, 0.600001], "arcface": [0.1, 0.2]})
    assert {"Triplet", "MS"} <= set(bold(made))


def test_seeds_are_paired():
    """Rows are compared seed by seed, so a spread between seeds larger than the difference does not hide it."""
    one, other = dict(enumerate([0.1, 0.5, 0.9])), dict(enumerate([0.09, 0.489, 0.891]))
    assert separated(one, other)
    assert not separated(one, {seed: value + 0.2 * (-1) ** seed for seed, value in one.items()})


@pytest.mark.parametrize("count", [2, 3, 10])
def test_separated_is_a_paired_t_test(count):
    generator = np.random.default_rng(count)
    for _ in range(20):
        one, other = generator.normal([[1.5], [0.0]], 1.0, (2, count))
        expected = stats.ttest_rel(one, other).pvalue < ERROR
        assert separated(dict(enumerate(one)), dict(enumerate(other))) == expected


def test_few_or_no_shared_seeds_separate_nothing():
    assert not separated({0: 0.9, 1: 0.9}, {2: 0.1, 3: 0.1})
    assert not separated({0: 0.9, 1: 0.9}, {1: 0.1, 3: 0.1})
    assert separated({0: 0.9, 1: 0.9}, {0: 0.1, 1: 0.1})
    assert not separated({0: 0.9, 1: 0.9}, {0: 0.9, 1: 0.9})


@pytest.mark.slow
def test_many_equal_rows_stay_together():
    """With 19 rows of the same quality, 95 % of all tables separate none of them."""
    generator, wrong = np.random.default_rng(0), 0
    labels = {f"r{number}": f"Row {number}" for number in range(19)}
    for _ in range(20):
        made = table({row: generator.normal(0.5, 0.01, 10).tolist() for row in labels}, labels=labels, reference=None)
        wrong += len(bold(made)) < 19
    assert wrong <= 2
