"""The contextual study's retrieval metrics against the authors' code."""

import numpy as np
import pytest

from recheck.evaluation.metrics import evaluate
from recheck.evaluation.search import Search
from recheck.evaluation.views import normalise
from support.golden.fidelity import CONTEXTUAL, compares


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "contextual_metrics.npz") as arrays:
        return dict(arrays)


def recalls(ks):
    return [f"R@{k}" for k in np.asarray(ks)]


def evaluated(stored, names):
    return evaluate(normalise(stored["self_x"]), stored["self_y"], names)


def against_gallery(stored, names):
    gallery = {"gallery": normalise(stored["g_x"]), "gallery_labels": stored["g_y"]}
    return evaluate(normalise(stored["q_x"]), stored["q_y"], names, **gallery)


def close(ours, expected, scale=1.0, tolerance=1e-6):
    """The default tolerance allows for the original code, which sums precisions in float32."""
    np.testing.assert_allclose(scale * np.array(list(ours.values())), expected, rtol=tolerance, atol=0)


@compares("metric", studies=CONTEXTUAL, tolerance="recall 1e-12")
def test_recall_without_a_gallery(stored):
    ks = stored["self_ks"]
    close(evaluated(stored, recalls(ks)), stored["self_recall_224"], tolerance=1e-12)
    percent = stored["self_recall_256_percent"]
    close(evaluated(stored, recalls([1, 2, 4, 8][: len(percent)])), percent, 100, tolerance=1e-12)


@compares("metric", studies=CONTEXTUAL, tolerance="precision 1e-6")
def test_average_precision_without_a_gallery(stored):
    ours = evaluated(stored, ["mAP", "MAP@R"])
    close(ours, [stored["self_mAP"], stored["self_mAP_at_R"]])
    close(ours, stored["self_mAP_mAPR_256_percent"], 100)
    close(ours, [stored["self_AP"].mean(dtype=float), stored["self_AP_at_R"].mean(dtype=float)])
    close(evaluated(stored, [*recalls([1, 10, 100]), "mAP", "MAP@R"]), stored["self_all_224_percent"], 100)


def decided(x, y, resolution=5e-7):
    """Mask of the queries that float32 can rank: no correct and wrong item are too close to tell apart."""
    unit = x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    clear = []
    for number, row in enumerate(unit @ unit.T):
        order = np.argsort(row)
        order = order[order != number]
        border = y[order][1:] != y[order][:-1]
        border &= (y[order][1:] == y[number]) | (y[order][:-1] == y[number])
        clear.append((np.diff(row[order])[border] > resolution).all())
    return np.array(clear)


def test_average_precision_of_each_query(stored):
    """Average precision of single queries, computed from the places that the search returns."""
    x, y = normalise(stored["self_x"]), stored["self_y"]
    clear = decided(stored["self_x"], y)
    assert clear.mean() > 0.95
    places = list(Search(x).places(x, [np.flatnonzero(y == label) for label in y], np.arange(len(y))))
    for name, at_r in (("self_AP", False), ("self_AP_at_R", True)):
        ours = []
        for of_query in places:
            precision = np.arange(1, len(of_query) + 1) / np.sort(of_query)
            kept = np.sort(of_query) <= len(of_query) if at_r else slice(None)
            ours.append(precision[kept].sum() / len(of_query))
        bounds = {"rtol": 1e-8} if stored[name].dtype == np.float64 else {"rtol": 1e-6, "atol": 1e-7}
        np.testing.assert_allclose(np.array(ours)[clear], stored[name][clear], **bounds)


@compares("metric", studies=CONTEXTUAL, tolerance="recall 1e-12")
def test_recall_against_a_gallery(stored):
    names = recalls(stored["qg_ks"])
    close(against_gallery(stored, names), stored["qg_recall_224"], tolerance=1e-12)
    close(against_gallery(stored, names), stored["qg_recall_256_percent"], 100, tolerance=1e-12)


def test_average_precision_against_a_gallery_keeps_the_last_place(stored):
    """The original drops the item that is ranked last, which can only lower a value."""
    ours = against_gallery(stored, ["mAP", "MAP@R"])
    close(ours, stored["qg_mAP_mAPR_percent_full"], 100)
    careless = stored["qg_mAP_mAPR_256_percent_dropslast"]
    assert 100 * ours["mAP"] >= careless[0] - 1e-4
    assert 100 * ours["MAP@R"] == pytest.approx(careless[1], rel=1e-6)


def test_every_array_is_compared(stored):
    known = """self_x self_y self_ks self_recall_224 self_AP self_AP_at_R self_mAP self_mAP_at_R self_recall_256_percent
    self_mAP_mAPR_256_percent self_all_224_percent q_x q_y g_x g_y qg_ks qg_recall_224 qg_recall_256_percent
    qg_mAP_mAPR_256_percent_dropslast qg_mAP_mAPR_percent_full"""
    assert set(stored) == set(known.split())
