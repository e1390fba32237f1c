"""Masked extremes, recall, calibration and pooling against TensorFlow Similarity, legacy and fixed."""

import re

import numpy as np
import pytest
import torch

from recheck.evaluation.calibration import Neighbours, calibrate, evaluation_json, neighbours, recall_at
from recheck.evaluation.metrics import evaluate
from recheck.methods.losses.tfsim.masked import masked_max, masked_min
from recheck.models.shifted_gem import ShiftedGeM
from support.golden.fidelity import compares

MATHS = ("fixed", "legacy")
KS = (1, 2, 4, 8)
TOLERANCE = 1e-6  # relative; the originals are float32


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "tfsim_metrics.npz") as arrays:
        return dict(arrays)


def query_sets(stored):
    names = sorted(key.removesuffix("_nn_labels") for key in stored if key.endswith("_nn_labels"))
    assert names
    return names


def given(stored, queries):
    """The stored labels of the queries and their stored neighbours."""
    return stored[f"{queries}_y"], Neighbours(stored[f"{queries}_nn_labels"], stored[f"{queries}_nn_dist"])


def below(stored, prefix):
    return {key.removeprefix(prefix): value for key, value in stored.items() if key.startswith(prefix)}


@pytest.mark.parametrize(("find", "name"), [(masked_max, "max"), (masked_min, "min")])
def test_masked_extremes(stored, find, name):
    mask = torch.from_numpy(stored["mask_m"])
    assert not mask.any(dim=1).all(), "the mask has a row without entries"
    for dtype in (torch.float32, torch.float64):
        result = find(torch.from_numpy(stored["mask_d"]).to(dtype), mask)
        expected = stored[f"masked_{name}"].reshape(-1)
        np.testing.assert_allclose(result.value, expected, rtol=TOLERANCE)
        assert np.array_equal(result.place, stored[f"masked_arg{name}"])
        assert result.value.dtype == dtype


@compares("metric", studies=["calibration"], tolerance=TOLERANCE)
@pytest.mark.parametrize("maths", MATHS)
def test_recall(stored, maths):
    for queries in query_sets(stored):
        expected = stored[f"{queries}_{maths}_recall"]
        labels, closest = given(stored, queries)
        np.testing.assert_allclose(list(recall_at(labels, closest, KS).values()), expected, rtol=TOLERANCE)
        names = [f"R@{k}" for k in KS]
        ours = evaluate(stored[f"{queries}_e"], labels, names, stored["index_e"], stored["index_y"])
        np.testing.assert_allclose(list(ours.values()), expected, rtol=TOLERANCE)


def test_exact_search_finds_the_same_neighbours(stored):
    for queries in query_sets(stored):
        _, expected = given(stored, queries)
        result = neighbours(stored[f"{queries}_e"], stored["index_e"], stored["index_y"], max(KS))
        np.testing.assert_allclose(result.distances, expected.distances, atol=5e-7)  # float32 sums
        gaps = np.diff(expected.distances, axis=1, prepend=-1, append=3) > 1e-6
        clear = gaps[:, :-1] & gaps[:, 1:]  # the order of neighbours at equal distances is not defined
        assert clear.mean() > 0.9
        assert np.array_equal(result.labels[clear], expected.labels[clear])


@pytest.mark.parametrize("maths", MATHS)
def test_the_table_of_thresholds(stored, maths):
    for queries in query_sets(stored):
        table = calibrate(*given(stored, queries), maths).thresholds
        expected = below(stored, f"{queries}_{maths}_thr_")
        assert np.array_equal(table.distance, expected.pop("distance").astype(np.float64)), "every value is exact"
        assert len(expected) == 5
        for name, column in expected.items():
            np.testing.assert_allclose(getattr(table, name), column, rtol=TOLERANCE, err_msg=f"{queries} {name}")


@compares("metric", studies=["calibration"], tolerance=TOLERANCE)
@pytest.mark.parametrize("maths", MATHS)
def test_the_best_threshold(stored, maths):
    for queries in query_sets(stored):
        optimal = calibrate(*given(stored, queries), maths).optimal
        expected = below(stored, f"{queries}_{maths}_cal_")
        assert optimal.distance == expected.pop("distance")
        assert len(expected) == 5
        for name, value in expected.items():
            assert getattr(optimal, name) == pytest.approx(float(value), rel=TOLERANCE), (queries, name)


def test_evaluation_json(stored):
    """The published schema, with numbers where the original has strings."""
    sets = {}
    for queries in query_sets(stored):
        labels, closest = given(stored, queries)
        sets[f"{queries}_queries"] = calibrate(labels, closest), recall_at(labels, closest, KS)
    made = evaluation_json("circle_loss", "cars196", sets)
    assert list(made) == ["loss", "dataset_name", *sets]
    for queries in query_sets(stored):
        block = made[f"{queries}_queries"]
        assert list(block) == ["calibration", "paper"]
        keys = ["method", "value", "distance", "precision", "recall", "binary_accuracy", "f1"]
        assert list(block["calibration"]) == keys
        assert block["calibration"].pop("method") == "optimal"
        assert list(block["paper"]) == ["R@1", "R@2", "R@4", "R@8"]
        assert {type(value) for piece in block.values() for value in piece.values()} == {float}
        assert block["calibration"] == pytest.approx(
            {key: float(value) for key, value in below(stored, f"{queries}_fixed_cal_").items()}, rel=TOLERANCE
        )


@compares("network", studies=["calibration"], parts=["ShiftedGeM"], tolerance=TOLERANCE)
@pytest.mark.parametrize("maths", MATHS)
def test_pooling(stored, maths):
    """Our layout has channels first. Both versions of the library give the same arrays; ours differ by rounding."""
    maps = torch.from_numpy(stored["gem_fmap_nhwc"]).permute(0, 3, 1, 2)
    powers = [match[1] for key in stored if (match := re.fullmatch(rf"{maths}_gem_p(\d+)", key))]
    assert len(powers) > 1
    for power in powers:
        for dtype in (torch.float32, torch.float64):
            ours = ShiftedGeM(p=float(power), maths=maths)(maps.to(dtype))
            np.testing.assert_allclose(ours, stored[f"{maths}_gem_p{power}"], rtol=TOLERANCE, atol=TOLERANCE)
