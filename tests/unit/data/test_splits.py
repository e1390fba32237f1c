"""Split schemes, compared with a slow and literal implementation, and the split file."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recheck.data import splits
from recheck.data.splits import check_disjoint, list_sha256, make_split, read_split, subset
from recheck.errors import UserError
from recheck.files import write_json
from support.golden.fidelity import compares


def literal_folds(labels, folds):
    """A literal implementation of the rule: index arithmetic on sets of classes, image by image."""
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
        (21, {"scheme": "class_disjoint_folds", "folds": 4}, "even number of classes, found 21"),
        (
            8,
            {"scheme": "class_disjoint_folds", "folds": 4},
            "at least 2 validation classes, but would have 1. Use at least 16 classes, or at most 2 folds.$",
        ),
        (
            6,
            {"scheme": "class_disjoint_folds", "folds": 4},
            "at least 2 validation classes, but would have 0. Use at least 16 classes.$",
        ),
        (40, {"scheme": "class_disjoint_folds", "folds": 1}, "whole number of at least 2, found 1"),
        (40, {"scheme": "class_disjoint_folds", "folds": "4"}, "whole number of at least 2, found '4'"),
        (40, {"scheme": "class_disjoint_folds", "fold": 4}, "did you mean 'folds'"),
        (40, {"scheme": "class_disjoint_fold"}, "did you mean 'class_disjoint_folds'"),
        (40, {}, "Unknown split scheme ''"),
    ],
)
def test_impossible_schemes(classes, scheme, sentence):
    with pytest.raises(UserError, match=sentence):
        make_split(np.arange(classes), scheme)


def test_the_advice_for_an_odd_number_of_classes_can_be_added_to_a_subset():
    """A base may have `every`; the study above it adds `first`."""
    labels, scheme = np.arange(39).repeat(2), {"scheme": "class_disjoint_folds", "folds": 2}
    with pytest.raises(UserError, match=r"found 13: add `classes: \{first: 12\}` to the dataset's entry in the study"):
        make_split(labels, scheme, {"every": 3})
    assert make_split(labels, scheme, {"every": 3, "first": 12})["classes"] == 12
    assert subset(range(10), {"every": 3, "first": 2}).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ({"evry": 2}, "did you mean 'every'"),
        (
            {"every": 2, "first": 6},
            r"'classes.first' is 6, but the dataset has only 5 classes after 'classes.every' \(2\): lower it",
        ),
        ({"every": 0}, "'classes.every' must be a whole number of at least 1, found 0"),
        ({"first": 2.5}, "'classes.first' must be a whole number of at least 1, found 2.5"),
        ({"first": 11}, "'classes.first' is 11, but the dataset has only 10 classes: lower it"),
    ],
)
def test_impossible_subsets(classes, sentence):
    with pytest.raises(UserError, match=sentence):
        subset(range(10), classes)


def test_single_images_are_allowed_and_noted(caplog):
    labels = [*np.repeat(np.arange(15), 2), 15]
    with caplog.at_level(logging.WARNING, logger="recheck"):
        split = make_split(labels, {"scheme": "class_disjoint_folds", "folds": 4})
    assert "Classes with only one image: 1 of 16 (the first has label 15)" in caplog.text
    assert 30 in split["folds"][0]["test"]


def test_split_file_round_trip(tmp_path):
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
        ({"folds": [{"train": [3, 3]}]}, "'train' of fold 0 in .* has an image twice"),
        ({"folds": []}, "has no fold 0, only 0 folds"),
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
    with pytest.raises(UserError, match="has class 0 in both 'train' and 'test'"):
        check_disjoint({"folds": [{"train": [0], "val": [2], "test": [1, 3]}]}, labels)
    with pytest.raises(UserError, match=r"has image 9, but images\.csv has only 4 images: delete the split file"):
        check_disjoint({"folds": [{"train": [9]}]}, labels)


# The schemes without folds


def columns(count=6, per_class=5, super_labels="", roles=""):
    labels = np.repeat(np.arange(count), per_class)
    return labels, np.broadcast_to(super_labels, len(labels)), np.broadcast_to(roles, len(labels))


def only_fold(labels, scheme, **more):
    split = make_split(labels, scheme, **more)
    check_disjoint(split, labels)
    assert len(split["folds"]) == 1
    assert split["scheme"] == scheme, "options are recorded, including the seed"
    assert split["sha256"] == [{role: list_sha256(images) for role, images in split["folds"][0].items()}]
    return {role: np.array(images, dtype=np.int64) for role, images in split["folds"][0].items()}


@given(st.lists(st.integers(0, 40), min_size=2, max_size=80).filter(lambda labels: len(set(labels)) > 1))
def test_halves_of_the_classes(labels):
    fold = only_fold(labels, {"scheme": "class_halves"})
    classes = sorted(set(labels))
    first = set(classes[: len(classes) // 2])
    assert fold["train"].tolist() == [place for place, label in enumerate(labels) if label in first]
    assert fold["test"].tolist() == [place for place, label in enumerate(labels) if label not in first]
    assert list(fold) == ["train", "test"]


def test_official_roles():
    labels, _, _ = columns(3, 4)
    roles = np.array(["train"] * 4 + ["query", "gallery", "query", "gallery"] * 2)
    fold = only_fold(labels, {"scheme": "official"}, roles=roles)
    assert {role: images.tolist() for role, images in fold.items()} == {
        "train": [0, 1, 2, 3],
        "query": [4, 6, 8, 10],
        "gallery": [5, 7, 9, 11],
    }
    assert list(only_fold(labels[:8], {"scheme": "official"}, roles=["train"] * 4 + ["test"] * 4)) == ["train", "test"]
    with pytest.raises(UserError, match="has class 0 in both 'train' and 'test'"):
        only_fold(labels[:4], {"scheme": "official"}, roles=["train", "train", "test", "test"])


@pytest.mark.parametrize(
    ("roles", "sentence"),
    [
        (None, "the column 'role' of the dataset's images.csv is empty"),
        (["train", "train", "", "test"], r"is empty for 1 of 4 images \(the first has label 1\)"),
        (
            ["query", "query", "gallery", "gallery"],
            "needs images with the role 'train', but images.csv has only gallery, q",
        ),
    ],
)
def test_official_roles_that_are_missing(roles, sentence):
    with pytest.raises(UserError, match=sentence):
        make_split([0, 0, 1, 1], {"scheme": "official"}, roles=roles)


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), st.integers(0, 3))
def test_halves_in_every_super_category(counts, seed):
    groups = np.repeat([f"group {number}" for number in range(len(counts))], counts)
    labels = np.repeat(np.arange(len(groups)), 2)
    scheme = {"scheme": "halves_by_super_label", "seed": seed}
    fold = only_fold(labels, scheme, super_labels=np.repeat(groups, 2))
    tested = set(labels[fold["test"]].tolist())
    for number, count in enumerate(counts):
        assert sum(groups[label] == f"group {number}" for label in tested) == count // 2
    # the split of a super-category does not depend on the other super-categories
    last = groups == groups[-1]
    separate = only_fold(labels[np.repeat(last, 2)], scheme, super_labels=np.repeat(groups[last], 2))
    assert set(labels[np.repeat(last, 2)][separate["test"]].tolist()) == {label for label in tested if last[label]}


@pytest.mark.parametrize(
    ("super_labels", "sentence"),
    [
        (["a", "b", "b", "b"], "but class 0 has 'a', 'b'"),
        (["a", "a", "", ""], "but class 1 has ''"),
        (None, "but class 0 has ''"),
    ],
)
def test_ambiguous_super_categories(super_labels, sentence):
    with pytest.raises(UserError, match=sentence):
        make_split([0, 0, 1, 1], {"scheme": "halves_by_super_label", "seed": 0}, super_labels=super_labels)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 6), st.randoms())
def test_seen_and_unseen_queries(index_shots, query_shots, count, random):
    """Image by image, like the benchmark's own code."""
    labels = [label for label in range(count) for _ in range(index_shots + query_shots + 1 + label)]
    random.shuffle(labels)
    scheme = {"scheme": "seen_unseen", "index_shots": index_shots, "query_shots": query_shots}
    fold = only_fold(labels, scheme)
    expected = {role: [] for role in ("train", "test", "index", "seen_queries", "unseen_queries")}
    had = dict.fromkeys(range(count), 0)
    for number, label in enumerate(labels):
        seen = label < count // 2
        if had[label] < index_shots:
            role = "index"
        elif had[label] < index_shots + query_shots:
            role = "seen_queries" if seen else "unseen_queries"
        else:
            role = "train" if seen else "test"
        expected[role].append(number)
        had[label] += 1
    assert {role: images.tolist() for role, images in fold.items()} == expected


# number of images in classes 1 to 196 of Cars196
CARS = """
89 64 86 84 81 89 78 90 82 66 76 73 82 85 86 87 81 85 81 92 84 85 79 90 79 68 71 82 85 83 88 83 84 89 82 82 77 81 73 78
71 69 92 89 65 87 70 85 75 84 86 82 89 80 79 93 75 88 89 73 86 74 88 59 90 83 77 80 76 85 70 90 89 87 88 87 81 75 97 86
90 90 81 84 87 85 88 79 88 82 77 80 78 87 91 82 84 92 55 67 84 78 79 85 87 83 89 88 89 86 84 91 85 90 90 75 85 83 136 85
89 80 89 78 87 84 82 78 77 82 84 87 84 67 84 48 87 79 85 84 68 65 80 93 88 86 89 90 85 72 87 71 89 85 85 78 73 58 72 88
96 91 73 87 89 82 95 84 77 88 92 88 87 82 61 77 88 83 90 85 76 92 84 81 77 77 87 87 81 86 92 85 83 91 86 80
"""


def test_seen_and_unseen_queries_of_cars196():
    """The five sizes of the calibration study follow from the class sizes, in any order of the images."""
    labels = np.repeat(np.arange(1, 197), [int(count) for count in CARS.split()])
    labels = np.random.default_rng(0).permutation(labels)
    fold = only_fold(labels, {"scheme": "seen_unseen", "index_shots": 10, "query_shots": 10})
    assert {role: len(images) for role, images in fold.items()} == {
        "train": 6094,
        "test": 6171,
        "index": 1960,
        "seen_queries": 980,
        "unseen_queries": 980,
    }
    assert len(np.concatenate(list(fold.values()))) == 16185
    for role, classes in (("index", range(1, 197)), ("seen_queries", range(1, 99)), ("unseen_queries", range(99, 197))):
        present, counts = np.unique(labels[fold[role]], return_counts=True)
        assert present.tolist() == list(classes)
        assert set(counts.tolist()) == {10}
    assert set(labels[fold["train"]].tolist()) == set(range(1, 99))
    assert set(labels[fold["test"]].tolist()) == set(range(99, 197))


@pytest.mark.parametrize(
    ("per_class", "scheme", "sentence"),
    [
        (
            5,
            {"scheme": "seen_unseen", "index_shots": 3, "query_shots": 3},
            r"needs 3 \+ 3 images .* class 0 has only 5",
        ),
        (5, {"scheme": "seen_unseen", "index_shots": 3, "query_shots": 2}, "leaves no image to train on"),
        (
            5,
            {"scheme": "seen_unseen", "index_shots": 3},
            "'query_shots' .* must be a whole number of at least 1, found None",
        ),
        (5, {"scheme": "class_halves", "folds": 4}, "Unknown option 'folds' of split scheme 'class_halves'"),
        (5, {"scheme": "halves_by_super_label", "seed": 0}, "but class 0 has ''"),
        (
            5,
            {"scheme": "halves_by_super_label"},
            "'seed' of split scheme 'halves_by_super_label' must be a whole number of at least 0",
        ),
    ],
)
def test_impossible_schemes_without_folds(per_class, scheme, sentence):
    with pytest.raises(UserError, match=sentence):
        make_split(columns(6, per_class)[0], scheme)


def test_super_categories_of_one_class_each():
    with pytest.raises(UserError, match="leaves no class to test on"):
        make_split([0, 0, 1, 1], {"scheme": "halves_by_super_label", "seed": 0}, super_labels=["a", "a", "b", "b"])


@pytest.mark.parametrize("scheme", ["class_halves", "seen_unseen"])
def test_one_class_cannot_be_halved(scheme):
    with pytest.raises(UserError, match="needs at least 2 classes, found 1: use more classes"):
        make_split([7] * 9, {"scheme": scheme, **({} if scheme == "class_halves" else SHOTS)})


SHOTS = {"index_shots": 1, "query_shots": 1}


@pytest.mark.parametrize(
    ("one", "other", "allowed"),
    [
        ("index", "train", True),
        ("index", "unseen_queries", True),
        ("train", "unseen_queries", False),
        ("test", "seen_queries", False),
        ("train", "test", False),
        ("seen_queries", "unseen_queries", False),
    ],
)
def test_which_roles_may_share_classes(one, other, allowed):
    split = {"scheme": {"scheme": "seen_unseen", **SHOTS}, "folds": [{one: [0], other: [1]}]}
    if allowed:
        check_disjoint(split, [3, 3])
    else:
        with pytest.raises(UserError, match=f"has class 3 in both '{one}' and '{other}'"):
            check_disjoint(split, [3, 3])
    split["folds"] = [{one: [0, 1], other: [1]}]
    with pytest.raises(UserError, match=f"has image 1 in both '{one}' and '{other}'"):
        check_disjoint(split, [3, 3])


def test_a_list_that_was_changed_is_noticed(tmp_path):
    split = make_split(np.repeat(np.arange(16), 2), {"scheme": "class_halves"})
    split["folds"][0]["train"][0] = 31
    write_json(tmp_path / "split.json", split)
    with pytest.raises(UserError, match=r"'train' of fold 0 in .* has changed since it was made \(checksum\)"):
        read_split(tmp_path / "split.json", 0)


def test_a_large_test_set_is_shown_by_whole_classes():
    labels = np.repeat(np.arange(100), 10)
    kept = splits.spread_classes(labels, 200)
    classes, counts = np.unique(labels[kept], return_counts=True)
    assert len(classes) == 20 and set(counts) == {10} and {0, 99} <= set(classes)
    assert list(splits.spread_classes(labels, 1000)) == list(range(1000))


def test_training_images_for_pair_distances(monkeypatch):
    monkeypatch.setattr(splits, "PAIRED_IMAGES", 20)
    labels = np.repeat(np.arange(50), 5)
    shown = splits.paired_training_images({"train": list(range(50, 250)), "test": list(range(50))}, labels)
    classes, counts = np.unique(labels[shown], return_counts=True)
    assert list(classes) == [10, 23, 36, 49] and set(counts) == {5}
    assert list(splits.paired_training_images({"train": [7, 3]}, labels)) == [7, 3]


@compares("split", studies=["recipe_2025"], tolerance="the same classes")
@pytest.mark.parametrize(("classes", "percent", "trained"), [(10, 80, 4), (201, 80, 80), (196, 80, 78), (6, 34, 1)])
def test_the_last_training_classes_validate(classes, percent, trained):
    """int(0.8 · classes) of the training classes train, as in published programs; test classes are as before."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), 2))
    fold = only_fold(labels, {"scheme": "halves_with_validation", "train_percent": percent})
    plain = only_fold(labels, {"scheme": "class_halves"})
    assert list(fold["test"]) == list(plain["test"])
    assert sorted([*fold["train"], *fold["val"]]) == list(plain["train"])
    assert set(labels[fold["train"]]) == set(range(trained))
    assert set(labels[fold["val"]]) == set(range(trained, classes // 2))


def test_official_training_classes_validate():
    labels = np.arange(12) // 2
    roles = np.array(["train"] * 8 + ["query", "gallery"] * 2)
    scheme = {"scheme": "official_with_validation", "train_percent": 50}
    fold = make_split(labels, scheme, roles=roles)["folds"][0]
    assert fold == {"train": [0, 1, 2, 3], "val": [4, 5, 6, 7], "query": [8, 10], "gallery": [9, 11]}
    check_disjoint({"scheme": scheme, "folds": [fold]}, labels)
    with pytest.raises(UserError, match=r"'train_percent' \(20\) must leave .* 4 training classes give 0 for training"):
        make_split(labels, {**scheme, "train_percent": 20}, roles=roles)
