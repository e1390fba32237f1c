"""Collapsed embeddings and metrics at chance."""

from math import comb

import numpy as np
import pytest

from recheck.evaluation import sanity
from recheck.evaluation.views import evaluate_view

LABELS = np.repeat(np.arange(20), 10)


def embeddings(noise, seed=0, dim=8):
    """Points around one centre per class."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(20, dim))[LABELS]
    return (centres + noise * generator.normal(size=centres.shape)).astype(np.float32)


def checks(rows, view="concatenated", metrics=("P@1", "MAP@R"), labels=LABELS, **settings):
    warnings = evaluate_view(view, rows if isinstance(rows, list) else [rows], labels, metrics, **settings)["warnings"]
    return {finding["check"]: finding["text"] for finding in warnings}


@pytest.mark.parametrize("view", ["concatenated", "separated"])
def test_a_sane_evaluation_has_no_findings(view):
    assert checks([embeddings(0.3), embeddings(0.3, seed=1)], view) == {}
    assert checks(embeddings(0.3), view, metrics=["R@1", "R@2"], unit=False) == {}


@pytest.mark.parametrize("seed", range(4))
def test_random_embeddings_are_at_chance(seed):
    noise = np.random.default_rng(seed).normal(size=(200, 8)).astype(np.float32)
    warnings = checks(noise)
    assert list(warnings) == ["chance"]
    # 9 of the 199 other images have the class of a query
    assert "a random order has 4.52 ± 1.47 % (standard error of 200 queries)" in warnings["chance"]
    assert list(checks(noise, metrics=["R@4", "R@2", "NMI"])) == ["chance"]
    assert checks(noise, metrics=["NMI"]) == {}, "a metric without a test is not tested"


def test_collapsed_embeddings_are_found_in_a_single_fold_too():
    flat = 1 + 1e-5 * embeddings(0.3)
    assert "collapsed" in checks(flat)
    warnings = checks([embeddings(0.3), flat], "separated")
    assert "separated, 1 of 2 folds" in warnings["collapsed"]
    assert "collapsed" in checks(np.zeros((200, 8), np.float32))
    # small but useful differences: far from 0 compared with their common part
    assert "collapsed" not in checks(1 + 5e-2 * embeddings(0.3))


def test_without_normalisation_the_raw_outputs_count():
    """Outputs of one direction and different lengths are the same point only if they are normalised."""
    line = np.outer(np.linspace(1, 2, 200), np.ones(8)).astype(np.float32)
    assert "collapsed" in checks(line)
    assert "collapsed" not in checks(line, unit=False)


def test_spread_does_not_depend_on_blocks(monkeypatch):
    rows = embeddings(0.3)
    expected = np.square(rows - rows.mean(axis=0)).sum() / np.square(rows).sum()
    for size in (1, 7, 4096):
        monkeypatch.setattr(sanity, "BLOCK", size)
        assert sanity.spread(rows) == pytest.approx(expected, rel=1e-5)


def test_chances_come_from_class_sizes():
    labels = np.array([0, 0, 0, 1, 1, 2])
    relevant, size = sanity.relevant_images(labels, gallery=0)
    assert (relevant.tolist(), size) == ([2, 2, 2, 1, 1, 0], 5)
    assert sanity.hit_chances(relevant, size, 1).tolist() == pytest.approx([0.4, 0.4, 0.4, 0.2, 0.2, 0])
    assert sanity.hit_chances(relevant, size, 2)[0] == pytest.approx(1 - comb(3, 2) / comb(5, 2))
    relevant, size = sanity.relevant_images(np.array([0, 1, 3, 0, 0, 1, 2]), gallery=4)
    assert (relevant.tolist(), size) == ([2, 1, 0], 4)


def test_a_gallery_is_searched_by_the_queries_only():
    labels = np.concatenate([LABELS, LABELS])
    near = embeddings(0.3)
    assert checks(np.concatenate([near, near]), labels=labels, gallery=200) == {}
    far = np.random.default_rng(5).normal(size=(200, 8)).astype(np.float32)
    warnings = checks(np.concatenate([near, far]), labels=labels, gallery=200)
    assert "a random order has 5.00 ±" in warnings["chance"]
