"""Hyperbolic neighbours, compared with a slow search by the formula of the distance, and their properties."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recheck.errors import UserError
from recheck.evaluation import search
from recheck.evaluation.hyperbolic_search import HyperbolicSearch, searching
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.search import Search
from recheck.evaluation.views import evaluate_view
from support.golden.fidelity import compares
from support.golden.poincare import distance, in_ball, mobius_add

CURVATURES = (0.1, 1.0)


def brute_force(queries, gallery, k, curvature, leave_out=None):
    """One query after another, sorted by (|x − y|² / (1 − c|y|²), index) in float64 with correctly rounded sums."""
    rows = []
    places = gallery.astype(np.float64)
    for number, query in enumerate(queries.astype(np.float64)):
        keys = [
            (float(((query - place) ** 2).sum()) / (1 - curvature * float((place**2).sum())), index)
            for index, place in enumerate(places)
            if leave_out is None or index != leave_out[number]
        ]
        rows.append([index for _, index in sorted(keys)[:k]])
    return np.array(rows)


@compares("metric", studies=["hyperbolic"], parts=["PoincareBall"], tolerance="the order of the formula")
@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("reach", [0.05, 0.6, 0.999])
def test_agrees_with_the_distance(curvature, reach):
    """The order is that of the textbook distance, by Möbius addition, wherever two distances differ."""
    points = in_ball(60, 9, curvature, reach)
    neighbours = HyperbolicSearch(points, curvature).nearest(None, 59, np.arange(60))
    np.testing.assert_array_equal(neighbours, brute_force(points, points, 59, curvature, np.arange(60)))
    exact = points.astype(np.float64)
    far = [[distance(exact[row], exact[place], curvature) for place in places] for row, places in enumerate(neighbours)]
    assert (np.diff(far, axis=1) > -1e-9).all()
    euclidean = Search(points).nearest(None, 59, np.arange(60))
    assert reach < 0.1 or not np.array_equal(neighbours, euclidean)


@pytest.mark.parametrize("block", [1, 50, 1 << 22])
def test_blocks_and_a_separate_gallery_change_nothing(monkeypatch, block):
    monkeypatch.setattr(search, "SCAN", block)
    gallery, queries = in_ball(40, 5, 0.1, 0.9), in_ball(7, 5, 0.1, 0.9, seed=1)
    neighbours = HyperbolicSearch(gallery, 0.1).nearest(queries, 11)
    np.testing.assert_array_equal(neighbours, brute_force(queries, gallery, 11, 0.1))
    places = list(HyperbolicSearch(gallery, 0.1).places(queries, list(neighbours)))
    np.testing.assert_array_equal(places, np.tile(np.arange(1, 12), (7, 1)))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 25), st.integers(1, 3), st.integers(1, 25), st.integers(0, 2**32 - 1))
@example(n=15, d=3, k=4, seed=713)  # products with a rounded 1/(1 − c|y|²) break this tie
def test_ties_go_to_the_smaller_index(n, d, k, seed):
    """Multiples of 1/8 in the unit ball: distances to points of equal length are exact, and many are tied."""
    points = np.random.default_rng(seed).integers(-3, 4, size=(n, d)).astype(np.float32) / 8
    neighbours = HyperbolicSearch(points, 1.0).nearest(None, k, np.arange(n))
    np.testing.assert_array_equal(neighbours, brute_force(points, points, min(k, n - 1), 1.0, np.arange(n)))


def test_the_order_is_kept_by_isometries():
    """Rotations and Möbius translations move points but keep distances, so neighbours stay the same."""
    points = in_ball(50, 6, 0.1, 0.7).astype(np.float64)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    shift = in_ball(1, 6, 0.1, 0.3, seed=3).astype(np.float64)[0]
    neighbours = [
        HyperbolicSearch(each.astype(np.float32), 0.1).nearest(None, 5, np.arange(50))
        for each in (points, points @ rotation, np.stack([mobius_add(shift, point, 0.1) for point in points]))
    ]
    for one, other in itertools.pairwise(neighbours):
        np.testing.assert_array_equal(one, other)


def test_without_curvature_neighbours_are_euclidean():
    points = in_ball(80, 6, 1.0, 0.9)
    flat = HyperbolicSearch(points, 1e-12).nearest(None, 10, np.arange(80))
    np.testing.assert_array_equal(flat, Search(points).nearest(None, 10, np.arange(80)))
    assert type(searching(points)) is Search
    assert searching(points, curvature=0.1).curvature == 0.1


def test_metrics_of_a_view_use_the_distance():
    """One class lies near the boundary: by hyperbolic distance its points are far apart, by Euclidean they are not."""
    points = np.array([[0.9, 0], [0.9, 0.1], [0.0, 0.1], [0.0, 0.0], [0.75, 0]], np.float32)
    labels = np.array([0, 0, 1, 1, 2])
    assert evaluate(points, labels, ["P@1"], curvature=1.0) == {"P@1": 0.75}
    assert evaluate(points, labels, ["P@1"]) == {"P@1": 1.0}
    head = evaluate_view("head", [points], labels, ["P@1", "mAP"], curvature=1.0)
    assert head["metrics"]["P@1"] == 0.75
    backbone = evaluate_view("backbone", [points], labels, ["P@1", "mAP"], unit=False, curvature=1.0)
    assert backbone == evaluate_view("concatenated", [points], labels, ["P@1", "mAP"]) | {
        "warnings": backbone["warnings"]
    }


@pytest.mark.parametrize("places", ["gallery", "queries"])
def test_points_outside_of_the_ball_are_refused(places):
    inside, outside = np.full((3, 2), 0.5, np.float32), np.array([[0.5, 0.5], [0.8, 0.8]], np.float32)
    sentence = (
        r"^Embeddings outside the Poincaré ball of 'evaluation.curvature' \(1\): 1 of 2 \(the first is row 1\)\. Use "
    )
    with pytest.raises(UserError, match=sentence):
        if places == "gallery":
            HyperbolicSearch(outside, 1.0)
        else:
            HyperbolicSearch(inside, 1.0).nearest(outside, 1)
