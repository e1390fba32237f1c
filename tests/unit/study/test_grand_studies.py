"""The grand table: every method once, under one protocol, tuned alike."""

import pytest

from recheck.methods.losses import build_loss
from recheck.study.needs import needs
from support.project.studies import shipped

STUDIES = ("grand", "grand_emoji")
# contextual_tiny also has the losses that only the ablations of the contextual studies name
SOURCES = ("mlrc", "unbiased", "contextual_224", "contextual_256", "contextual_tiny", "calibration")
# Without a head, the backbone's features do not have 128 dimensions; `pretrained` is the same network, reduced.
LEFT_OUT = {"no_head"}
# Dimensions that are part of the method: bits instead of floats, one per meta-class, one per training class.
OWN_SIZE = {"norm_proxy": 2048, "dreml": 32, "discriminative": None}


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    return shipped(request.param)


def trained(study):
    """(row, run) of every trained row on every dataset."""
    return [(row, run) for runs in study.runs.values() for row, run in runs.items() if run.trained]


def test_every_method_has_one_row(study):
    methods = [row.method for row in study.rows.values()]
    named = {row.method for source in SOURCES for row in shipped(source).rows.values()}
    assert sorted(methods) == sorted(named - LEFT_OUT)
    assert len(methods) >= 40
    assert len({row.label for row in study.rows.values()}) == len(methods)


def test_every_row_has_the_same_protocol(study):
    for dataset, runs in study.runs.items():
        protocol = study.protocols[dataset]
        for row, run in runs.items():
            settings = run.settings
            for key in ("split", "transforms", "selection", "precision", "evaluation"):
                assert settings[key] == protocol[key], (row, key)
            assert settings["model"]["backbone"]["name"] == protocol["model"]["backbone"]["name"]
            assert settings["model"]["batch_norm"] == "frozen"
            if run.trained:
                assert {optimiser["class"] for optimiser in settings["optimisers"].values()} == {"Adam"}, row
                assert "lr_schedule" not in settings
                assert settings["model"]["head"].get("dim") == OWN_SIZE.get(row, 128), row


def test_every_trained_row_sees_the_same_number_of_images(study):
    def seen(run):
        schedule = run.settings["schedule"]
        assert schedule.get("patience") is None
        return schedule["epochs"] * schedule["steps_per_epoch"] * run.settings["sampler"]["batch"]

    assert len({seen(run) for _, run in trained(study)}) == 1


def test_every_trained_row_is_tuned_alike_on_validation_classes(study):
    searches = [run.search for _, run in trained(study)]
    assert all(searches)
    assert len({(each.total, each.folds, each.sampler, each.objective) for each in searches}) == 1
    assert {len(each.space) for each in searches} == {2}
    assert all("optimisers.backbone.lr" in each.space for each in searches)
    assert searches[0].objective == "val_MAP@R"


@pytest.mark.parametrize("name", ["grand_emoji_lite2", "grand_emoji_mobilenet"])
def test_other_backbones_have_ten_rows_and_those_without_training(name):
    study, first = shipped(name), shipped("grand_emoji")
    trained_rows = [row for row, _ in trained(study)]
    assert len(trained_rows) == 10 and not study.searches
    assert set(study.rows) - set(trained_rows) == {"pretrained", "untrained"}
    assert list(study.rows) == list(shipped("grand_emoji_lite2").rows)
    for row, run in study.runs["emoji"].items():
        backbone, settings = run.settings["model"]["backbone"], first.run("emoji", row).settings
        assert backbone["name"] in ("efficientnet_lite2", "mobilenet_v2") and len(backbone["sha256"]) == 64
        assert run.settings["schedule"] == settings["schedule"]
        assert run.settings["transforms"] == settings["transforms"]


@pytest.mark.parametrize("dataset", shipped("grand_emoji").datasets)
def test_rows_have_an_optimiser_for_their_loss_only_if_it_learns_something(dataset):
    study = shipped("grand_emoji")
    for row, run in study.runs[dataset].items():
        if run.trained:
            count = run.settings.get("relabel", {}).get("count", 99)
            dim = run.settings["model"]["head"].get("dim", count)
            learns = any(True for _ in build_loss(run.untuned.training["loss"], count, dim).parameters())
            assert learns == ("loss" in run.settings["optimisers"]), row


def test_what_a_method_needs_of_its_own():
    study = shipped("grand_emoji")
    protocol, runs = study.protocols["emoji"], study.runs["emoji"]
    learned, slowly = (f"loss parameters learned at rate {rate}" for rate in ("0.01", "0.0001"))
    for row, expected in {
        "untrained": [],
        "triplet": [],
        "npair": ["sampler Pairs", "batch in 2 parts"],
        "arcface": ["1 per class", learned],
        "norm_proxy": ["1 per class", "head NormProxyHead", "2048-d binary", slowly],
        "ms_within_pair": ["channel dropout 0.1", "64 views in 8 passes"],
        "dreml": ["sampler Shuffled", "32-d", "32 meta-classes", "16 members", slowly],
    }.items():
        assert needs(runs[row], protocol) == expected
