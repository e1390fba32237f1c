"""Sentences and columns that tables and figures show, from the settings of a study."""

import pytest
from studies import TEXT, changed, own_study, shipped

from recheck.study import facts

BACKBONE = "{name: efficientnet_lite0, weights: imagenet}"
SELECTION = "selection: {role: val, metric: MAP@R, also: [P@1, RP]}"


@pytest.mark.parametrize(
    ("backbone", "words"),
    [
        ("{name: timm/resnet18, weights: none}", "timm/resnet18 (random weights)"),
        ("{name: bn_inception, weights: elsewhere/bn-52d.pth}", "bn_inception (weights bn-52d.pth)"),
        ("{name: bn_inception, weights: imagenet}", "bn_inception (imagenet weights)"),
        ("{name: efficientnet_lite0, weights: imagenet}", "efficientnet_lite0 (imagenet weights)"),
        ('{name: "mine:network", weights: none}', "mine:network"),
    ],
)
def test_what_a_backbone_starts_from(tmp_path, backbone, words):
    study = own_study(tmp_path, TEXT.replace(BACKBONE, backbone))
    assert facts.facts(study, "emoji", [], study.rows)["backbone"] == words


def test_released_checkpoints_are_named_as_such():
    shown = facts.facts(shipped("mlrc_released"), "cub200", [], [])
    assert shown["backbone"] == "bn_inception (released weights)"
    assert all(row["label"].endswith(" (released)") and row["released"] for row in shown["rows"])
    assert shown["reference"] is None


def test_how_much_stands_behind_the_numbers(tmp_path):
    study = own_study(tmp_path)
    assert facts.scale(study, "emoji") == "one of every 4 classes; training of 4 epochs of 10 steps, 32 images a step"
    first = changed(tmp_path, ("every: 4", "first: 40"), ("evaluate_every: 1}", "evaluate_every: 1, patience: 3}"))
    assert facts.scale(first, "emoji").startswith("the first 40 classes; training of up to 4 epochs of 10 steps")
    assert facts.scale(shipped("unbiased"), "cub200") == (
        "training of 12 to 60 epochs, 32 to 180 images a step, as each row is configured"
    )


def test_the_row_that_others_are_held_against(tmp_path):
    assert facts.reference(own_study(tmp_path), "emoji") == "untrained"
    assert facts.reference(own_study(tmp_path, methods=["triplet"]), "emoji") is None


def test_the_metric_that_stands_for_all(tmp_path):
    assert facts.lead_metric(own_study(tmp_path), "emoji") == "MAP@R"
    unselected = changed(tmp_path, (SELECTION, "selection: {}"))
    assert facts.lead_metric(unselected, "emoji") == "MAP@R", "the last column"
    assert facts.lead_metric(shipped("calibration"), "cars196") == "R@1", "the first, where there are queries"


@pytest.mark.parametrize(
    ("selection", "drawn", "columns"),
    [
        (
            {"role": "test", "metric": "R@1", "watch": {"train": ["NMI", "R@1"]}},
            "test_R@1",
            ["train_R@1", "test_R@1"],
        ),
        ({"watch": {"train": ["R@1"], "test": ["R@1"]}}, "test_R@1", ["train_R@1", "test_R@1"]),
        ({"role": "val", "metric": "R@1", "watch": {"train": ["R@1"]}}, "val_R@1", ["train_R@1", "val_R@1"]),
        (
            {"role": "val", "metric": "R@1", "watch": {"train": ["R@1"], "test": ["R@1"]}},
            "val_R@1",
            ["train_R@1", "test_R@1"],
        ),
        ({"role": "test", "metric": "NMI", "watch": {"train": ["R@1"]}}, "test_NMI", None),
        ({"watch": {"train": ["R@1"]}}, "train_R@1", None),
        ({"role": "val", "metric": "R@1"}, "val_R@1", None),
        ({}, None, None),
    ],
)
def test_columns_of_the_history(selection, drawn, columns):
    assert facts.selection_column(selection) == drawn
    assert facts.generalisation_columns(selection) == columns


def test_a_datasets_own_selection_counts(tmp_path):
    watch = "selection: {watch: {train: [P@1], val: [P@1]}}"
    study = changed(tmp_path, ("classes: {every: 4}", watch))
    assert facts.facts(study, "emoji", [], [])["generalisation_columns"] == ["train_P@1", "val_P@1"]


def test_a_sweep_is_told_line_by_line():
    shown = facts.facts(shipped("contextual_tiny_weight"), "emoji", [], [])["sweep"]
    assert shown["label"] == "Weight of the contextual part (%)"
    (line,) = shown["lines"]
    assert line["points"] == [[50.0, "hybrid_50"], [100.0, "hybrid_100"]]
    assert not line["label"].endswith("50")


def test_a_row_tells_its_method_and_seeds():
    rows = {row["name"]: row for row in facts.facts(shipped("unbiased"), "cub200", [], [])["rows"]}
    assert (rows["dreml"]["seeds"], rows["triplet"]["seeds"]) == (1, 10)
    assert rows["dreml"]["family"] == "ensemble" and "bibtex" in rows["dreml"]["paper"]
    assert rows["dreml"]["normalise"] is True and rows["triplet"]["normalise"] is False


def test_page_facts_have_the_rows_in_the_order_of_the_table(tmp_path):
    page = facts.page_facts(own_study(tmp_path))
    assert [row["name"] for row in page["rows"]] == ["untrained", "triplet", "mined", "arcface"]
    assert page["rows"][2]["label"] == "MS + miner" and page["datasets"] == ["emoji"]
    assert page["command"] == "snakemake --cores all mine"
