"""Numbers of images from the descriptions of datasets."""

import numpy as np
import pytest

from recheck.cost.sizes import sizes
from recheck.data.splits import make_split
from recheck.study.yaml import names_in, read_yaml
from support.project import ROOT

EXPECTED = {name: read_yaml(path)["expected"] for name, path in names_in([ROOT / "config/datasets"]).items()}
HALVES = {"scheme": "class_halves"}


@pytest.mark.parametrize(
    ("dataset", "scheme", "train", "test"),
    [
        ("cub200", HALVES, 5864, 5924),
        ("cars196", HALVES, 8054, 8131),
        ("sop", {"scheme": "official"}, 59551, 60502),
        ("inshop", {"scheme": "official"}, 25882, 14218 + 12612),
        ("inat_mini", {"scheme": "lists_or_halves", "seed": 0}, 250150, 249850),
        ("cars196", {"scheme": "seen_unseen", "index_shots": 10, "query_shots": 10}, 6094, 6171),
    ],
)
def test_published_splits_have_their_published_sizes(dataset, scheme, train, test):
    known = sizes(EXPECTED[dataset], scheme, None)
    assert (known.of("train"), known.of("test")) == (train, test)
    assert known.exact == (dataset != "inat_mini")  # its authors' lists may be used instead


@pytest.mark.parametrize("subset", [None, {"every": 3}, {"first": 60}])
@pytest.mark.parametrize(
    "scheme",
    [
        HALVES,
        {"scheme": "class_disjoint_folds", "folds": 4},
        {"scheme": "halves_by_super_label", "seed": 0},
        {"scheme": "seen_unseen", "index_shots": 2, "query_shots": 3},
    ],
    ids=lambda scheme: scheme["scheme"],
)
def test_classes_of_equal_size_give_the_sizes_of_the_real_split(scheme, subset):
    labels = np.repeat(np.arange(120), 9)
    split = make_split(labels, scheme, subset, super_labels=["all"] * len(labels))
    real = sizes({}, scheme, subset, split)
    by_numbers = sizes({"images": len(labels), "classes": 120}, scheme, subset)
    assert by_numbers.roles == real.roles
    assert by_numbers.classes == real.classes == len(set(labels[split["folds"][0]["train"]]))
    assert (by_numbers.exact, real.exact) == (False, True)


def test_sizes_that_the_description_does_not_tell_are_unknown():
    assert sizes({}, HALVES, None) is None
    assert sizes({"images": 10, "classes": 2}, {"scheme": "official"}, None) is None
