"""Sweeps over any value: labels as written, row names that are valid and unique."""

from recheck.study.sweep import places, row_name
from support.project.studies import own_study

TEXT = "base: quickstart\ntitle: Mine\nsweep: {label: Setting, methods: [triplet], values: VALUES}\n"
NUMBERS = "{0.05: {loss: {margin: 0.05}}, 1e-4: {loss: {margin: 1e-4}}, 10: }"
WORDS = "{none: , Random crop: {transforms: {train: [{random_crop: {size: 64}}]}}, on: }"


def study(tmp_path, values, **chosen):
    return own_study(tmp_path, TEXT.replace("VALUES", values), **chosen)


def test_numbers_keep_their_text_and_their_places(tmp_path):
    made = study(tmp_path, NUMBERS)
    labels = {row.name: row.label for row in made.rows.values()}
    assert labels == {"triplet_0.05": "Triplet, 0.05", "triplet_1e-4": "Triplet, 1e-4", "triplet_10": "Triplet, 10"}
    assert made.run("emoji", "triplet_1e-4").training["loss"]["margin"] == 1e-4
    assert made.swept() == {"Triplet": [(0.05, "triplet_0.05"), (1e-4, "triplet_1e-4"), (10.0, "triplet_10")]}
    assert list(study(tmp_path, NUMBERS, methods=["triplet_0.05"]).rows) == ["triplet_0.05"]


def test_words_are_placed_in_order(tmp_path):
    made = study(tmp_path, WORDS)
    labels = {row.name: row.label for row in made.rows.values()}
    assert labels == {
        "triplet_none": "Triplet, none",
        "triplet_random-crop": "Triplet, Random crop",
        "triplet_on": "Triplet, on",
    }
    assert made.swept() == {"Triplet": [(0.0, "triplet_none"), (1.0, "triplet_random-crop"), (2.0, "triplet_on")]}


def test_names_are_valid_in_paths():
    assert row_name("ms", "ViT-B/16 (β = 2)") == "ms_vit-b-16-2-"
    assert places(["1", "two"]) == {"1": 0.0, "two": 1.0}
    assert places(["nan", "1"]) == {"nan": 0.0, "1": 1.0}
