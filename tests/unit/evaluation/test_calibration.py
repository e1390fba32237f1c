"""Thresholds for nearest neighbours, compared with counting query by query and checked for invariants."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recheck.errors import UserError
from recheck.evaluation.calibration import (
    Neighbours,
    calibrate,
    class_reliability,
    evaluation_json,
    match_histogram,
    neighbours,
    recall_at,
    threshold_table,
)

GRID = [step / 64 for step in range(12)]  # few and exact, so that distances are often equal


@st.composite
def results(draw):
    """Labels of queries, and labels and distances of two neighbours each."""
    count = draw(st.integers(1, 25))
    many = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    labels, first, second = draw(many), draw(many), draw(many)
    distances = draw(st.lists(st.sampled_from(GRID), min_size=count, max_size=count))
    far = np.column_stack([distances, np.ones(count)]).astype(np.float32)
    return np.array(labels), Neighbours(np.column_stack([first, second]), far)


def slow_rows(labels, closest):
    """(distance, TP, FP, FN, TN) at every threshold."""
    queries = [
        (label == near, distance)
        for label, near, distance in zip(
            labels.tolist(), closest.labels[:, 0].tolist(), closest.distances[:, 0].tolist(), strict=True
        )
    ]
    rows = []
    for threshold in sorted({distance for _, distance in queries}):
        counts = {(right, accepted): 0 for right in (True, False) for accepted in (True, False)}
        for right, distance in queries:
            counts[right, distance <= threshold] += 1
        rows.append((threshold, counts[True, True], counts[False, True], counts[True, False], counts[False, False]))
    return rows


def slow_f1(tp, fp, fn):
    if not tp:
        return Fraction(0)
    precision, recall = Fraction(tp, tp + fp), Fraction(tp, tp + fn)
    return 2 * precision * recall / (precision + recall)


def simple(right, distances):
    """Queries of class 1; a right one has a neighbour of class 1."""
    right = np.asarray(right, dtype=np.int64)
    return np.ones(len(right), dtype=np.int64), Neighbours(right[:, None], np.asarray(distances, np.float32)[:, None])


@given(results())
def test_query_by_query(case):
    labels, closest = case
    calibration = calibrate(labels, closest)
    table, rows = calibration.thresholds, slow_rows(labels, closest)
    assert len(table) == len(rows)
    for row, (distance, tp, fp, fn, tn) in enumerate(rows):
        assert table.distance[row] == pytest.approx(distance, abs=1e-7)
        counts = (table.true_positives, table.false_positives, table.false_negatives, table.true_negatives)
        assert tuple(column[row] for column in counts) == (tp, fp, fn, tn)
        assert table.precision[row] == pytest.approx(tp / (tp + fp))
        assert table.recall[row] == pytest.approx(tp / (tp + fn) if tp else 0)
        assert table.f1[row] == table.value[row] == pytest.approx(float(slow_f1(tp, fp, fn)))
        assert table.binary_accuracy[row] == pytest.approx(tp / len(labels))
        assert table.accuracy[row] == pytest.approx((tp + tn) / len(labels))
    best = max(rows, key=lambda row: (slow_f1(*row[1:4]), row[0]))
    assert calibration.optimal.distance == pytest.approx(best[0], abs=1e-7), "ties: the largest distance"
    assert calibration.optimal.value == calibration.optimal.f1 == table.f1.max()


@given(results())
def test_legacy_accepts_everything(case):
    labels, closest = case
    calibration = calibrate(labels, closest, "legacy")
    full = threshold_table(labels, closest)
    recall = recall_at(labels, closest, [1])["R@1"]
    optimal = calibration.optimal
    assert optimal.distance == full.distance[-1]
    assert optimal.precision == optimal.binary_accuracy == pytest.approx(recall)
    assert optimal.recall == (recall > 0)
    assert optimal.f1 == pytest.approx(2 * recall / (1 + recall))
    assert optimal.value == pytest.approx(optimal.f1, abs=0.005 + 1e-6)
    assert optimal.value == round(optimal.value, 2)
    # legacy records a value only if it is below all values at larger distances
    values = calibration.thresholds.value
    assert (np.diff(values) > 0).all()
    assert np.isin(calibration.thresholds.distance, full.distance).all()
    for distance, f1 in zip(full.distance, full.f1, strict=True):
        recorded = values[calibration.thresholds.distance >= distance]
        assert f1 >= recorded.min() - 0.005 - 1e-6


@given(results(), st.randoms())
def test_order_and_names_do_not_matter(case, random):
    labels, closest = case
    order = list(range(len(labels)))
    random.shuffle(order)
    names = np.array([17, -4, 250, 3])
    for maths in ("fixed", "legacy"):
        one = calibrate(labels, closest, maths)
        other = calibrate(
            names[labels][order], Neighbours(names[closest.labels][order], closest.distances[order]), maths
        )
        assert one.optimal == other.optimal
        for name, column in one.thresholds.columns().items():
            assert np.array_equal(column, other.thresholds.columns()[name]), name


def test_fixed_and_legacy_differ_where_it_matters():
    labels, closest = simple([1, 1, 1, 0, 0, 0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    fixed, legacy = calibrate(labels, closest).optimal, calibrate(labels, closest, "legacy").optimal
    assert (fixed.distance, fixed.f1, fixed.precision, fixed.accuracy) == (pytest.approx(0.3, abs=1e-7), 1, 1, 1)
    assert fixed.binary_accuracy == 0.5, "not the usual accuracy"
    assert (legacy.distance, legacy.precision) == (pytest.approx(0.6, abs=1e-7), 0.5)
    assert (legacy.value, legacy.f1) == (0.67, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("right", "value", "precision", "f1"),
    [
        (10, 0.02, 0.010204081423580647, 0.020202020183205605),
        (6, 0.01, 0.006122448947280645, 0.012170384638011456),
        (9, 0.02, 0.009183673188090324, 0.01820020191371441),
    ],
)
def test_legacy_gives_the_published_blocks(right, value, precision, f1):
    """Circle, multi-similarity and PN loss on Cars196: the given number of 980 queries is right, at any distances."""
    generator = np.random.default_rng(right)
    case = simple(generator.permutation(980) < right, generator.random(980))
    optimal = calibrate(*case, "legacy").optimal
    assert (optimal.value, optimal.recall) == (value, 1)
    assert optimal.precision == optimal.binary_accuracy == pytest.approx(precision, rel=1e-6)
    assert optimal.f1 == pytest.approx(f1, rel=1e-6)
    assert calibrate(*case).optimal.f1 >= optimal.f1


def test_ties_go_to_the_largest_distance():
    """F1 is 2/3 at 0.1 (accepts 1 of 2 right neighbours) and at 0.4 (accepts both, and two wrong ones)."""
    labels, closest = simple([1, 0, 0, 1], [0.1, 0.2, 0.3, 0.4])
    table = threshold_table(labels, closest)
    assert table.f1[0] == table.f1[-1] == table.f1.max()
    assert calibrate(labels, closest).optimal.distance == table.distance[-1]


@pytest.mark.parametrize("maths", ["fixed", "legacy"])
def test_all_wrong(maths):
    labels, closest = simple([0, 0, 0], [0.1, 0.1, 0.3])
    calibration = calibrate(labels, closest, maths)
    optimal = calibration.optimal
    assert (optimal.f1, optimal.precision, optimal.recall, optimal.binary_accuracy, optimal.value) == (0, 0, 0, 0, 0)
    assert optimal.distance == pytest.approx(0.3, abs=1e-7)
    assert len(calibration.thresholds) == (2 if maths == "fixed" else 1)


@pytest.mark.parametrize("maths", ["fixed", "legacy"])
def test_all_neighbours_at_distance_zero(maths):
    """Copies of the queries in the index: one threshold, everything is accepted."""
    labels, closest = simple([1, 1, 0], [0, 0, 0])
    calibration = calibrate(labels, closest, maths)
    assert calibration.optimal.distance == 0
    assert calibration.optimal.f1 == pytest.approx(0.8)
    assert len(calibration.thresholds) == 1


def test_distances_that_differ_by_rounding_are_one_threshold():
    labels, closest = simple([1, 0], [1e-9, 2e-9])
    assert threshold_table(labels, closest).distance.tolist() == [0]


def test_only_the_nearest_neighbour_counts():
    labels = np.array([1, 1])
    closest = Neighbours(np.array([[1, 0], [0, 1]]), np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32))
    assert threshold_table(labels, closest).true_positives.tolist() == [1, 1]
    assert recall_at(labels, closest, [1, 2]) == {"R@1": 0.5, "R@2": 1.0}


def test_neighbours_by_brute_force():
    generator = np.random.default_rng(0)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in generator.normal(size=(2, 50, 7))]
    queries, index = (rows.astype(np.float32) for rows in unit)
    queries[0] = index[11]
    labels = generator.integers(0, 9, 50)
    closest = neighbours(queries, index, labels, 4)
    distances = np.maximum(0, 1 - queries.astype(np.float64) @ index.astype(np.float64).T)
    order = np.argsort(distances, axis=1)[:, :4]
    assert np.array_equal(closest.labels, labels[order])
    np.testing.assert_allclose(closest.distances, np.take_along_axis(distances, order, axis=1), atol=1e-7)
    assert closest.distances.dtype == np.float32
    assert closest.distances[0, 0] == pytest.approx(0, abs=1e-7)
    assert (closest.distances >= 0).all()


def test_evaluation_file():
    """Each query set is calibrated on itself, and all values are numbers."""
    seen, unseen = simple([1, 1, 0], [0.1, 0.2, 0.3]), simple([0, 1, 0], [0.1, 0.2, 0.3])
    sets = {
        name: (calibrate(*case), recall_at(*case, [1]))
        for name, case in (("seen_queries", seen), ("unseen_queries", unseen))
    }
    read = json.loads(json.dumps(evaluation_json("pn_loss_semi", "cars196", sets)))
    assert read["loss"] == "pn_loss_semi"
    assert read["seen_queries"]["paper"] == {"R@1": pytest.approx(2 / 3)}
    assert read["seen_queries"]["calibration"]["f1"] == 1
    assert read["unseen_queries"]["calibration"]["f1"] == pytest.approx(2 / 3)
    assert read["unseen_queries"]["calibration"]["distance"] == pytest.approx(0.2, abs=1e-7)


# For figures


@given(results(), st.integers(1, 12))
def test_histograms_count_every_query_once(case, bins):
    labels, closest = case
    histogram = match_histogram(labels, closest, bins)
    right = closest.labels[:, 0] == labels
    assert len(histogram.edges) == bins + 1
    assert (histogram.right.sum(), histogram.wrong.sum()) == (right.sum(), (~right).sum())
    middle = histogram.edges[bins // 2]
    assert histogram.right[: bins // 2].sum() == (right & (closest.distances[:, 0] < middle)).sum()


@given(results(), st.sampled_from(GRID))
def test_classes_add_up_to_the_table(case, distance):
    labels, closest = case
    table = threshold_table(labels, closest)
    row = int(np.searchsorted(table.distance, distance, side="right")) - 1
    classes = class_reliability(labels, closest, distance)
    assert classes.label.tolist() == sorted(set(labels.tolist()))
    assert classes.queries.sum() == len(labels)
    tp, fp = (table.true_positives[row], table.false_positives[row]) if row >= 0 else (0, 0)
    assert (classes.right_and_accepted.sum(), classes.accepted.sum()) == (tp, tp + fp)
    for place, label in enumerate(classes.label):
        mine = labels == label
        accepted = mine & (closest.distances[:, 0] <= distance)
        right = closest.labels[:, 0] == labels
        assert classes.right[place] == (mine & right).sum()
        assert classes.coverage[place] == pytest.approx(accepted.sum() / mine.sum())
        expected = (accepted & right).sum() / accepted.sum() if accepted.any() else 0
        assert classes.precision[place] == pytest.approx(expected)


def test_the_chosen_threshold_reproduces_its_precision():
    """Thresholds are float64 and distances float32, so equality must survive rounding."""
    generator = np.random.default_rng(1)
    labels, closest = simple(generator.integers(0, 2, 200), generator.random(200))
    calibration = calibrate(labels, closest)
    classes = class_reliability(labels, closest, calibration.optimal.distance)
    assert classes.precision[0] == pytest.approx(calibration.optimal.precision)


# Errors


@pytest.mark.parametrize(
    ("labels", "near", "distances", "sentence"),
    [
        ([], np.empty((0, 1)), np.empty((0, 1)), "found 0 queries with 1 neighbours each"),
        ([1], np.empty((1, 0)), np.empty((1, 0)), "found 1 queries with 0 neighbours each"),
        ([1, 2], [[1]], [[0.1]], r"found \(2,\), \(1, 1\) and \(1, 1\)"),
        (
            [1],
            [1],
            [0.1],
            r"must have shape \(queries,\), and the neighbours' labels and distances must have shape \(queries, k\)",
        ),
        ([1, 1], [[1], [1]], [[0.1], [np.nan]], "query 1 to its nearest neighbour must be finite, found nan"),
    ],
)
def test_invalid_neighbours_are_refused(labels, near, distances, sentence):
    with pytest.raises(UserError, match=sentence):
        calibrate(np.array(labels), Neighbours(np.array(near), np.array(distances)))


def test_invalid_arguments_are_named():
    labels, closest = simple([1], [0.1])
    with pytest.raises(UserError, match="Unknown value 'fixt' for 'maths' of the calibration; did you mean 'fixed'"):
        calibrate(labels, closest, "fixt")
    with pytest.raises(UserError, match="R@8 needs 8 neighbours per query, found 1"):
        recall_at(labels, closest, [1, 8])
    with pytest.raises(UserError, match="at least one query, found none"):
        recall_at(np.empty(0), Neighbours(np.empty((0, 1)), np.empty((0, 1))), [1])
