"""Doubtful settings that are known when a study is read."""

import pytest

from recheck.study.doubts import doubtful_settings, one_class_per_batch
from support.project.studies import FILES, changed, shipped


@pytest.mark.parametrize("name", FILES.studies)
def test_no_shipped_study_has_doubtful_settings(name):
    assert doubtful_settings(shipped(name)) == []


def test_one_class_in_every_batch(tmp_path):
    (sentence,) = doubtful_settings(changed(tmp_path, ("batch: 8, per_class: 2", "batch: 8, per_class: 8")))
    assert "rows 'triplet', 'mined': 'sampler.per_class' (8) fills whole batches of 8 images" in sentence
    assert "mine.yaml" in sentence


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({"batch": 32, "per_class": 32}, True),
        ({"batch": 32, "per_class": 64}, True),
        ({"batch": 32, "per_class": 48}, False),
        ({"batch": 32, "per_class": 4}, False),
        ({"batch": 2, "per_class": 1}, False),
        ({"batch": 32}, False),
        ({"batch": 32, "per_class": "all"}, False),
    ],
)
def test_batches_of_one_class(sampler, expected):
    assert one_class_per_batch(sampler) is expected


@pytest.mark.parametrize(
    "change", [("weights: imagenet", "weights: none"), ("weights: imagenet", "weights: none, frozen: true")]
)
def test_frozen_batch_norm_with_random_weights(tmp_path, change):
    (sentence,) = doubtful_settings(changed(tmp_path, change))
    assert "rows 'triplet', 'mined', 'arcface'" in sentence and "freezes batch norm" in sentence
    trained = changed(tmp_path, ("weights: imagenet", "weights: none"), ("batch_norm: frozen", "batch_norm: trained"))
    assert doubtful_settings(trained) == []
