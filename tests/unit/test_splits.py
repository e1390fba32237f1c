"""Split schemes: the folds against a slow, literal re-computation, and the split file."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recheck.data.splits import check_disjoint, make_split, read_split, subset
from recheck.errors import UserError
from recheck.files import write_json


def literal_folds(labels, folds):
    """The rule as it is written down: sets of classes by index arithmetic, image by image."""
    classes = sorted(set(labels))
    n = len(classes)
    half, held_out = n // 2, n // (2 * folds)
    result = []
    for p in range(folds):
        start = (p * half) // folds
        train = {classes[(start + i) % half] for i in range(half - held_out)}
        val = {classes[(start + half - held_out + i) % half] for i in range(held_out)}
        test = set(classes[half:])
        result.append(
            {
                role: [i for i, label in enumerate(labels) if label in members]
                for role, members in (("train", train), ("val", val), ("test", test))
            }
        )
    return result


@st.composite
def labelled(draw):
    folds = draw(st.integers(2, 5))
    n = 2 * draw(st.integers(2 * folds, 2 * folds + 12))
    values = draw(st.lists(st.integers(-50, 10_000), min_size=n, max_size=n, unique=True))
    extra = draw(st.lists(st.sampled_from(values), max_size=30))
    return draw(st.permutations(values + extra)), folds


@given(labelled())
def test_folds_follow_the_rule(case):
    labels, folds = case
    split = make_split(labels, {"scheme": "class_disjoint_folds", "folds": folds})
    assert split["folds"] == literal_folds(labels, folds)
    check_disjoint(split, labels)
    for fold in split["folds"]:
        everything = fold["train"] + fold["val"] + fold["test"]
        assert sorted(everything) == list(range(len(labels)))
        assert fold["test"] == split["folds"][0]["test"]
    assert split["classes"] == len(set(labels))


@given(st.lists(st.integers(0, 60), min_size=1, max_size=80), st.integers(1, 9))
def test_subset(labels, number):
    values = sorted(set(labels))
    assert subset(labels, None).tolist() == values
    assert subset(labels, {"every": number}).tolist() == values[::number]
    if number <= len(values):
        assert subset(labels, {"first": number}).tolist() == values[:number]


def test_split_of_a_subset_keeps_the_datasets_numbers():
    labels = np.repeat(np.arange(40), 3)
    split = make_split(labels, {"scheme": "class_disjoint_folds", "folds": 2}, {"every": 4})
    used = sorted(number for role in split["folds"][0].values() for number in role)
    assert used == np.flatnonzero(labels % 4 == 0).tolist()
    assert split["classes"] == 10
    assert split["scheme"] == {"scheme": "class_disjoint_folds", "folds": 2}


@pytest.mark.parametrize(
    ("classes", "scheme", "sentence"),
    [
        (21, {"scheme": "class_disjoint_folds", "folds": 4}, "even number of classes, not 21"),
        (8, {"scheme": "class_disjoint_folds", "folds": 4}, "validate on 1 of them"),
        (6, {"scheme": "class_disjoint_folds", "folds": 4}, "validate on 0 of them"),
        (40, {"scheme": "class_disjoint_folds", "folds": 1}, "at least 2, not 1"),
        (40, {"scheme": "class_disjoint_folds", "folds": "4"}, "at least 2, not '4'"),
        (40, {"scheme": "class_disjoint_folds", "fold": 4}, "did you mean 'folds'"),
        (40, {"scheme": "class_disjoint_fold"}, "did you mean 'class_disjoint_folds'"),
        (40, {}, "no split scheme ''"),
    ],
)
def test_schemes_that_cannot_be(classes, scheme, sentence):
    with pytest.raises(UserError, match=sentence):
        make_split(np.arange(classes), scheme)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ({"evry": 2}, "did you mean 'every'"),
        ({"every": 2, "first": 3}, "one key"),
        ({"every": 0}, "at least 1, not 0"),
        ({"first": 2.5}, "at least 1, not 2.5"),
        ({"first": 11}, "more classes than the 10"),
    ],
)
def test_subsets_that_cannot_be(classes, sentence):
    with pytest.raises(UserError, match=sentence):
        subset(range(10), classes)


def test_single_images_are_allowed_and_noted(caplog):
    labels = [*np.repeat(np.arange(15), 2), 15]
    with caplog.at_level(logging.WARNING, logger="recheck"):
        split = make_split(labels, {"scheme": "class_disjoint_folds", "folds": 4})
    assert "1 of 16 classes have one image only (the first is label 15)" in caplog.text
    assert 30 in split["folds"][0]["test"]


def test_split_file_comes_back(tmp_path):
    split = make_split(np.repeat(np.arange(16), 2), {"scheme": "class_disjoint_folds", "folds": 4})
    write_json(tmp_path / "split.json", split)
    for number, fold in enumerate(split["folds"]):
        read = read_split(tmp_path / "split.json", number)
        assert {role: images.tolist() for role, images in read.items()} == fold
        assert all(images.dtype == np.int64 for images in read.values())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"folds": [{"test": [0, 1.5]}]}, "'test' of fold 0 in .* is not a list of image numbers"),
        ({"folds": [{"test": [-1]}]}, "is not a list of image numbers"),
        ({"folds": [{"test": [True]}]}, "is not a list of image numbers"),
        ({"folds": [{"test": "01"}]}, "is not a list of image numbers"),
        ({"folds": [{"train": [3, 3]}]}, "'train' of fold 0 in .* repeats an image"),
        ({"folds": []}, "has 0 folds"),
        ({"folds": [[0, 1]]}, "is not a split file"),
        ([], "is not a split file"),
    ],
)
def test_split_files_that_are_wrong(tmp_path, content, sentence):
    write_json(tmp_path / "split.json", content)
    with pytest.raises(UserError, match=sentence):
        read_split(tmp_path / "split.json", 0)


def test_overlap_is_refused():
    labels = [0, 0, 1, 2]
    with pytest.raises(UserError, match="the class 0 in 'train' and in 'test'"):
        check_disjoint({"folds": [{"train": [0], "val": [2], "test": [1, 3]}]}, labels)
    with pytest.raises(UserError, match="names image 9, but the index has only 4"):
        check_disjoint({"folds": [{"train": [9]}]}, labels)
