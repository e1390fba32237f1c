"""Metrics, compared with pytorch-metric-learning and a slow computation, and checked for invariants."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from recheck.errors import UserError
from recheck.evaluation.metrics import evaluate
from recheck.names import check_metrics

NAMES = ["P@1", "RP", "MAP@R", "mAP", "R@1", "R@2", "R@4", "R@10"]
LIBRARY = {"P@1": "precision_at_1", "RP": "r_precision", "MAP@R": "mean_average_precision_at_r"}


def brute_force(x, labels, gallery=None, gallery_labels=None):
    """The definitions, one query at a time."""
    places, place_labels = (x, labels) if gallery is None else (gallery, gallery_labels)
    values = {name: [] for name in NAMES}
    for q in range(len(x)):
        others = [j for j in range(len(places)) if gallery is not None or j != q]
        distance = [float(((x[q].astype(np.float64) - places[j].astype(np.float64)) ** 2).sum()) for j in others]
        ranked = [j for _, j in sorted(zip(distance, others, strict=True))]
        right = [bool(place_labels[j] == labels[q]) for j in ranked]
        r = sum(right)
        if r == 0:
            continue
        values["P@1"].append(right[0])
        values["RP"].append(sum(right[:r]) / r)
        values["MAP@R"].append(sum(sum(right[: i + 1]) / (i + 1) for i in range(r) if right[i]) / r)
        values["mAP"].append(sum(sum(right[: i + 1]) / (i + 1) for i in range(len(right)) if right[i]) / r)
        for k in (1, 2, 4, 10):
            values[f"R@{k}"].append(any(right[:k]))
    return {name: float(np.mean(value)) for name, value in values.items()}


def problem(seed, n=120, d=6, classes=9, spread=1.5):
    """Overlapping classes of different sizes, some with one image."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.geometric(0.25, size=n), classes) * 10 - 7
    labels[:2] = [1000, 1001]
    centres = {label: rng.normal(size=d) for label in np.unique(labels)}
    x = np.stack([centres[label] for label in labels]) + spread * rng.normal(size=(n, d))
    return x.astype(np.float32), labels


def close(ours, theirs, tolerance=1e-12):
    assert list(ours) == list(theirs)
    assert ours == pytest.approx(theirs, abs=tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_brute_force(seed):
    x, labels = problem(seed)
    close(evaluate(x, labels, NAMES), brute_force(x, labels))


@pytest.mark.parametrize("seed", range(4))
def test_gallery_agrees_with_brute_force(seed):
    x, labels = problem(seed)
    gallery, gallery_labels = problem(seed + 100, n=80)
    ours = evaluate(x, labels, NAMES, gallery=gallery, gallery_labels=gallery_labels)
    close(ours, brute_force(x, labels, gallery, gallery_labels))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_pytorch_metric_learning(seed, separate):
    x, labels = problem(seed, n=400, d=32)
    reference, reference_labels = problem(seed + 9, n=300, d=32)
    calculator = AccuracyCalculator(include=tuple(LIBRARY.values()), k="max_bin_count", device=torch.device("cpu"))
    tensors = [torch.from_numpy(array) for array in (x, labels, reference, reference_labels)]
    theirs = calculator.get_accuracy(*(tensors if separate else tensors[:2]))
    gallery = {"gallery": reference, "gallery_labels": reference_labels} if separate else {}
    ours = evaluate(x, labels, list(LIBRARY), **gallery)
    close(ours, {name: theirs[key] for name, key in LIBRARY.items()})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_ties_agree_with_brute_force(seed):
    """On a small lattice nearly all distances are tied, and duplicates of the query lie at distance 0."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, size=(30, 3)).astype(np.float32)
    labels = rng.integers(0, 6, size=30)
    close(evaluate(x, labels, NAMES), brute_force(x, labels))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(-20, 20))
def test_order_of_images_names_of_classes_and_scale_change_nothing(seed, exponent):
    x, labels = problem(seed, n=80)
    before = evaluate(x, labels, NAMES)
    order = np.random.default_rng(seed).permutation(len(x))
    assert evaluate(x[order], labels[order], NAMES) == before
    assert evaluate(x, np.array([f"class {-label}" for label in labels]), NAMES) == before
    assert evaluate(x * np.float32(2.0**exponent), labels, NAMES) == before


def test_block_size_changes_no_bit():
    x, labels = problem(0, n=300)
    whole = evaluate(x, labels, NAMES)
    for block in (1, 50, 3000):
        assert evaluate(x, labels, NAMES, block=block) == whole


@pytest.mark.slow
def test_memory_is_bounded_by_the_block_however_large_a_class_is():
    x = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    evaluate(x[:10], np.zeros(10), NAMES)
    tracemalloc.start()
    evaluate(x, np.zeros(1000), NAMES, block=1 << 13)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 1000, "less than one byte per pair of images"


def test_images_without_others_of_their_class_are_distractors_but_not_queries():
    x = np.array([[0.0], [1.0], [0.1], [5.0]], np.float32)
    labels = np.array([0, 0, 1, 2])
    # Row 2 has another class and is nearest to 0 and to 1, which find each other second.
    assert evaluate(x, labels, ["P@1", "RP", "R@1", "R@2"]) == {"P@1": 0.0, "RP": 0.0, "R@1": 0.0, "R@2": 1.0}
    assert evaluate(x[[0, 1, 3]], labels[[0, 1, 3]], ["P@1", "R@2"]) == {"P@1": 1.0, "R@2": 1.0}


def test_duplicates_of_the_query_count_like_any_other_image():
    x = np.zeros((4, 2), np.float32)
    # All distances are 0, so the smaller index is nearer: 0 finds 1 (wrong); 1, 2 and 3 find 0.
    assert evaluate(x, np.array([0, 1, 0, 1]), ["P@1"]) == {"P@1": 0.25}


def test_one_class_is_always_right():
    x, _ = problem(3)
    assert evaluate(x, np.zeros(len(x)), NAMES) == dict.fromkeys(NAMES, 1.0)


def test_recall_with_k_larger_than_the_gallery():
    x, labels = problem(1, n=40)
    assert evaluate(x, labels, ["R@1000"]) == {"R@1000": 1.0}


def test_values_have_the_given_order_including_clustering():
    x, labels = problem(2)
    ours = evaluate(x, labels, ["NMI", "R@2", "AMI", "P@1"])
    assert list(ours) == ["NMI", "R@2", "AMI", "P@1"]
    assert all(type(value) is float and 0 <= value <= 1 for value in ours.values())


def test_a_set_without_queries_is_refused():
    x, _ = problem(0, n=10)
    with pytest.raises(UserError, match="None of the 10 images has another image of its class"):
        evaluate(x, np.arange(10), ["P@1"])
    with pytest.raises(
        UserError, match="None of the 10 queries has an image of its class in the gallery of 10 images: "
    ):
        evaluate(x, np.arange(10), ["P@1"], gallery=x, gallery_labels=np.arange(10) + 50)
    with pytest.raises(UserError, match="None of the 0 images"):
        evaluate(x[:0], np.arange(0), ["P@1"])


def test_one_label_for_each_embedding():
    x, labels = problem(0, n=10)
    with pytest.raises(UserError, match="Each of the 10 embeddings needs one label, found labels of shape"):
        evaluate(x, labels[:9], ["P@1"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MAP@r", "MAP@R"),
        ("map@R", "MAP@R"),
        ("map", "mAP"),
        ("MAP", "mAP"),
        ("r@1", "R@1"),
        ("nmi", "NMI"),
        ("P@10", "P@1"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, meant):
    with pytest.raises(UserError, match=f"Unknown metric '{name}'; did you mean '{meant}'"):
        check_metrics(["P@1", name])


@pytest.mark.parametrize("name", ["R@0", "R@-1", "R@1.5", "R@", "R@k", "", "P@1 ", "R@01"])
def test_recall_takes_whole_numbers_from_one(name):
    with pytest.raises(UserError, match="any whole number k from 1"):
        check_metrics([name])
    check_metrics(["R@1", "R@7", "R@1000", "P@1", "RP", "MAP@R", "mAP", "NMI", "AMI"])
