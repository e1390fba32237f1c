"""Samplers of the contextual study: published numbers of batches, and composition of a batch."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recheck.errors import UserError
from recheck.methods.samplers import build_sampler
from recheck.methods.samplers.hierarchical import Hierarchical, paired
from support.datasets.contextual_labels import training_labels
from support.golden.fidelity import compares

INATURALIST = [85, 71, 77, 743, 171, 1263, 123, 85, 2136, 92, 157]
"""Training classes of each super-category, 50 images per class."""


def draw(spec, labels, seed=0, **rest):
    return build_sampler(spec, labels, **rest).draw(np.random.RandomState(seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "spec", "batches"),
    [
        ("cub200", {"class": "BalancedRounds", "batch": 128}, 45),
        ("cars196", {"class": "BalancedRounds", "batch": 64}, 126),
        ("cub200", {"class": "RandomClassGroups", "batch": 128, "tries": 5, "cap": 42}, 15),
        ("cars196", {"class": "RandomClassGroups", "batch": 128, "tries": 10, "cap": 42}, 30),
        ("inshop", {"class": "RandomClassGroups", "batch": 128, "tries": 10, "cap": 600}, 600),
    ],
)
def test_published_numbers_of_batches(dataset, spec, batches):
    labels = training_labels(dataset)
    drawn = draw(spec, labels)
    assert len(drawn) == batches
    for batch in drawn:
        classes = Counter(labels[batch].tolist())
        assert set(classes.values()) == {4}
        assert len(classes) == spec["batch"] // 4
        scarce = sum((labels == label).sum() < 4 for label in classes)
        assert scarce or len(set(batch)) == spec["batch"]


@pytest.mark.slow
@compares("sampler", studies=["contextual_256"], parts=["Hierarchical"], tolerance="equal number of batches")
def test_published_number_of_pairs():
    labels = np.repeat(np.arange(sum(INATURALIST)), 50)
    super_labels = np.repeat(np.arange(len(INATURALIST)), 50 * np.array(INATURALIST))
    sampler = Hierarchical(labels, super_labels, batch=256, batches=700)
    assert sampler.halves == [24, 20, 22, 208, 48, 353, 34, 24, 598, 26, 44]
    drawn = sampler.draw(np.random.RandomState(0))
    assert len(drawn) == 576
    for batch in drawn:
        assert len(batch) == 256
        assert super_labels[batch[0]] != super_labels[batch[128]]
        assert all(len(set(super_labels[half])) == 1 for half in (batch[:128], batch[128:]))


def test_sop_is_cut_at_its_cap():
    """660 batches are intended; pairing leaves some half-batches over, and the cap is 84480 images."""
    generator = np.random.RandomState(0)
    classes = generator.randint(300, 1500, 12)
    labels = np.repeat(np.arange(classes.sum()), 5)
    super_labels = np.repeat(np.arange(12), 5 * classes)
    whole = Hierarchical(labels, super_labels, batch=128, batches=660)
    assert abs(sum(whole.halves) - 1320) <= 6
    drawn = whole.draw(np.random.RandomState(1))
    assert 600 < len(drawn) <= 663
    capped = Hierarchical(labels, super_labels, batch=128, batches=660, cap=100).draw(np.random.RandomState(1))
    assert capped == drawn[:100]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=8))
def test_at_most_one_super_class_has_half_batches_left(counts):
    pairs = paired(counts)
    used = Counter(number for pair in pairs for number in pair)
    left = [count - used[number] for number, count in enumerate(counts)]
    assert min(left) >= 0
    assert sum(count > 0 for count in left) <= 1
    assert all(first != second for first, second in pairs)


def test_pairs_go_round_robin():
    assert paired([2, 1, 2]) == [
        (0, 1),
        (0, 2),
    ]
    assert paired([1, 3, 2]) == [(0, 1), (1, 2), (2, 1)]


def test_balanced_rounds_use_every_image_of_a_class_before_repeating_one():
    labels = np.repeat(np.arange(8), 8)
    stream = np.concatenate(draw({"class": "BalancedRounds", "batch": 16, "per_class": 4}, labels))
    assert sorted(stream) == list(range(64))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=5, max_size=11), st.integers(0, 99))
def test_balanced_rounds_of_few_classes(counts, seed):
    """A round has as many classes as fill whole batches."""
    labels = np.repeat(np.arange(len(counts)), counts) * 7 - 3
    if len(labels) < 8:
        return
    batches = draw({"class": "BalancedRounds", "batch": 8, "per_class": 2}, labels, seed)
    together = len(counts) // 4 * 4
    assert len(batches) >= len(labels) // 8
    assert len(batches) % (together // 4) == 0
    stream = np.concatenate(batches)
    for start in range(0, len(stream), 2 * together):
        classes = Counter(labels[stream[start : start + 2 * together]].tolist())
        assert len(classes) == together
        assert set(classes.values()) == {2}
    for first, second in zip(stream[::2], stream[1::2], strict=True):
        assert labels[first] == labels[second]
        assert first != second or (labels == labels[first]).sum() == 1


def test_groups_are_the_same_in_every_try():
    labels = np.repeat(np.arange(10), 6)
    batches = draw({"class": "RandomClassGroups", "batch": 12, "per_class": 4, "tries": 5}, labels)
    groups = Counter(frozenset(labels[batch].tolist()) for batch in batches)
    assert list(groups.values()) == [5, 5, 5]
    assert len(frozenset.union(*groups)) == 9


def test_a_pass_depends_only_on_its_generator():
    labels, super_labels = np.repeat(np.arange(12), 5), np.repeat([3, 1, 2], 20)
    for spec in (
        {"class": "BalancedRounds", "batch": 8},
        {"class": "RandomClassGroups", "batch": 8, "tries": 3},
        {"class": "Hierarchical", "batch": 16, "batches": 6},
    ):
        sampler = build_sampler(spec, labels, super_labels)
        first = sampler.draw(np.random.RandomState(3))
        np.random.seed(0)
        before = np.random.get_state()[1].copy()
        assert sampler.draw(np.random.RandomState(4)) != first
        assert sampler.draw(np.random.RandomState(3)) == first
        assert np.array_equal(np.random.get_state()[1], before), "the global generator was touched"
        assert all(type(position) is int for batch in first for position in batch)


def test_half_batches_go_through_all_classes_of_a_super_class():
    labels = np.repeat(np.arange(8), 4)
    super_labels = np.repeat([0, 1], 16)
    batches = draw({"class": "Hierarchical", "batch": 16, "batches": 2}, labels, super_labels=super_labels)
    assert len(batches) == 2
    assert sorted(np.concatenate(batches)) == list(range(32))


@pytest.mark.parametrize(
    ("spec", "super_labels", "sentence"),
    [
        ({"class": "BalancedRounds", "batch": 64}, None, "needs 16 classes, but a round has only 6"),
        (
            {"class": "BalancedRounds", "batch": 10},
            None,
            r"'sampler.per_class' \(4\) must divide the batch or half-batch of 10",
        ),
        (
            {"class": "RandomClassGroups", "batch": 64, "tries": 2},
            None,
            "needs 16 classes, but the training set has only 6",
        ),
        ({"class": "Hierarchical", "batch": 16, "batches": 2}, None, "needs a super-label for every training image"),
        ({"class": "Hierarchical", "batch": 16, "batches": 2}, np.zeros(30), "at least two super-classes, found one"),
        (
            {"class": "Hierarchical", "batch": 12, "batches": 2},
            np.arange(30) // 15,
            "must divide the batch or half-batch of 6",
        ),
        (
            {"class": "Hierarchical", "batch": 9, "batches": 2},
            np.arange(30) // 15,
            "'sampler.batch' must be even, found 9",
        ),
        (
            {"class": "BalancedRounds", "batch": 8, "classes": -3},
            None,
            "'classes' of .* must be a whole number of at least 1, found -3",
        ),
        ({"class": "BalancedRounds", "batch": 0}, None, "'batch' of .* must be a whole number of at least 1, found 0"),
        (
            {"class": "BalancedRounds", "batch": 8.0},
            None,
            "'batch' of .* must be a whole number of at least 1, found 8.0",
        ),
        (
            {"class": "RandomClassGroups", "batch": 8, "tries": "x"},
            None,
            "'tries' of .* must be a whole number of at least 1, found 'x'",
        ),
        (
            {"class": "RandomClassGroups", "batch": 8, "tries": 2, "cap": 0},
            None,
            "'cap' of .* must be a whole number of at least 1, found 0",
        ),
        (
            {"class": "Hierarchical", "batch": 16, "batches": -1},
            np.arange(30) // 15,
            "'batches' of .* must be a whole number of at least 1, found -1",
        ),
    ],
)
def test_mistakes_are_named(spec, super_labels, sentence):
    with pytest.raises(UserError, match=sentence):
        build_sampler(spec, np.repeat(np.arange(6), 5), super_labels)
