"""The facts for tables and figures, derived from the settings of a study."""

import pytest

from recheck.study import facts
from support.project.studies import TEXT, changed, own_study, shipped

BACKBONE = "{name: efficientnet_lite0, weights: imagenet}"
SELECTION = "selection:\n    role: val\n    metric: MAP@R\n    also: [P@1]"


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
def test_the_backbone_is_named_with_its_initial_weights(tmp_path, monkeypatch, backbone, words):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/bn-52d.pth").touch()
    (tmp_path / "mine.py").write_text("def network(): pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    study = own_study(tmp_path, TEXT.replace(BACKBONE, backbone))
    assert facts.facts(study, "emoji", [], study.rows)["backbone"] == words


def test_released_checkpoints_are_marked():
    shown = facts.facts(shipped("mlrc_released"), "cub200", [], [])
    assert shown["backbone"] == "bn_inception (released weights)"
    assert all(row["label"].endswith(" (released)") and row["released"] for row in shown["rows"])
    assert shown["reference"] is None


def test_the_scale_names_classes_and_training_budget(tmp_path):
    study = own_study(tmp_path)
    assert facts.scale(study, "emoji") == "one of every 4 classes; trained for 2 epochs of 3 steps, 8 images per step"
    first = changed(tmp_path, ("every: 4", "first: 40"), ("evaluate_every: 1}", "evaluate_every: 1, patience: 3}"))
    assert facts.scale(first, "emoji").startswith("the first 40 classes; trained for up to 2 epochs of 3 steps")
    assert facts.scale(shipped("unbiased"), "cub200") == (
        "trained for 12 to 60 epochs, 32 to 180 images per step, depending on the row"
    )


def test_the_reference_is_the_untrained_row(tmp_path):
    assert facts.reference(own_study(tmp_path), "emoji") == "untrained"
    assert facts.reference(own_study(tmp_path, methods=["triplet"]), "emoji") is None


def test_the_lead_metric(tmp_path):
    assert facts.lead_metric(own_study(tmp_path), "emoji") == "MAP@R"
    unselected = changed(tmp_path, (SELECTION, "selection: {}"))
    assert facts.lead_metric(unselected, "emoji") == "MAP@R"
    for study, dataset in (("calibration", "cars196"), ("hyperbolic", "sop"), ("frozen", "cub200")):
        assert facts.lead_metric(shipped(study), dataset) == "R@1", "the first column, without selection and MAP@R"


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


def test_a_dataset_may_change_the_selection(tmp_path):
    watch = "selection: {watch: {train: [P@1], val: [P@1]}}"
    study = changed(tmp_path, ("classes: {every: 4}", watch))
    assert facts.facts(study, "emoji", [], [])["generalisation_columns"] == ["train_P@1", "val_P@1"]


def test_a_sweep_has_one_line_per_method():
    shown = facts.facts(shipped("contextual_tiny_weight"), "emoji", [], [])["sweep"]
    assert shown["label"] == "Weight of the contextual part (%)"
    (line,) = shown["lines"]
    assert line["points"] == [[50.0, "hybrid_50"], [100.0, "hybrid_100"]]
    assert shown["names"] == [[50.0, "50"], [100.0, "100"]]
    assert not line["label"].endswith("50")


def test_rows_have_their_method_and_number_of_seeds():
    rows = {row["name"]: row for row in facts.facts(shipped("unbiased"), "cub200", [], [])["rows"]}
    assert (rows["dreml"]["seeds"], rows["triplet"]["seeds"]) == (1, 10)
    assert rows["dreml"]["family"] == "ensemble" and "bibtex" in rows["dreml"]["paper"]
    assert rows["dreml"]["normalise"] is True and rows["triplet"]["normalise"] is False


def test_page_facts_have_the_rows_in_the_order_of_the_table(tmp_path):
    page = facts.page_facts(own_study(tmp_path))
    assert [row["name"] for row in page["rows"]] == ["untrained", "triplet", "mined", "arcface"]
    assert page["rows"][2]["label"] == "MS + miner" and page["datasets"] == ["emoji"]
    assert page["command"] == "snakemake --cores all mine"
