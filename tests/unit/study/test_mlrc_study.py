"""config/studies/mlrc.yaml implements its protocol: rows, batches, optimisers, schedule, published rows."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from recheck.data import transforms
from recheck.files import fingerprint
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.optimisers import build_optimisers
from recheck.methods.samplers import build_sampler
from recheck.study.published import load_published
from support.project import ROOT
from support.project.studies import shipped

DATASETS = ("cub200", "cars196", "sop")
TUNED = "8bfecc8db7018e20c9171c0b22878ac6c698dab585307b12c1cb8394059cee4c"
PUBLISHED = "974b602538556be058fc1afbe486d66674e9d56cf2ecbc69248bdd341a7e9392"
WITHIN_PAIR = ("contrastive", "triplet", "margin", "ms")
CLASSIFICATION = {"proxy_nca", "n_softmax", "cosface", "arcface", "soft_triple"}
OWN_PARAMETERS = {*CLASSIFICATION, "margin", "margin_class", "margin_within_pair"}


@pytest.fixture(scope="module")
def study():
    return shipped("mlrc")


def tables():
    """The documents with tables of test results; the third has only validation values of searches."""
    return load_published(ROOT / "resources/published/mlrc.yaml")[:2]


def every_run(study):
    return [(dataset, method, study.run(dataset, method).settings) for dataset in DATASETS for method in study.rows]


def test_all_published_rows_exist_in_the_published_order(study):
    documents = tables()
    assert len(study.rows) == 19
    for document in documents:
        assert set(document["values"]) == {"cub200", "cars196"}
        for rows in document["values"].values():
            assert list(rows) == list(study.rows)
            for views in rows.values():
                assert set(views) == set(study.views)
                assert all(set(metrics) == {"P@1", "RP", "MAP@R"} for metrics in views.values())
    first, second = (document["values"] for document in documents)
    differing = {(dataset, row) for dataset in first for row in first[dataset] if first[dataset] != second[dataset]}
    rows = {row for _, row in differing if first["cub200"][row] != second["cub200"][row]}
    assert rows == {"ms_within_pair"} and first["cars196"] == second["cars196"]


def test_tuned_values_of_cub_equal_the_original_configuration(study):
    """Compared with the golden arrays, because a wrong digit in the YAML would change every result slightly."""
    golden = {"contrastive": "contrastive", "triplet": "triplet", "ntxent": "nt_xent", "proxynca": "proxy_nca"}
    golden |= {"margin": "margin", "margin_class": "margin_class", "nsoftmax": "n_softmax", "cosface": "cosface"}
    golden |= {"arcface": "arcface", "fastap": "fastap", "snr": "snr", "ms": "ms", "ms_miner": "ms_miner"}
    renamed = {"regularizer_weight": "embedding_reg_weight", "reg_weight": "weight_reg_weight"}
    with np.load(ROOT / "tests/golden/mlrc_losses.npz") as arrays:
        given = json.loads(str(arrays["hparams_json"]))
    for loss, method in {**golden, "softtriple": "soft_triple"}.items():
        run = study.run("cub200", method).settings
        arguments = {**run["loss"], **run.get("miner", {})}
        for key, value in given[loss].items():
            assert arguments[renamed.get(key, key)] == value, (method, key)
    sop = study.run("sop", "nt_xent").settings["loss"]
    assert sop["temperature"] == given["ntxent_soptau"]["temperature"] and sop["floor"] == 1e-20


def test_no_digit_of_the_study_has_changed(study):
    """All tuned and published values were compared with their sources by a program; this detects later changes."""
    tuned = {(d, m): {k: run.get(k) for k in ("loss", "miner", "optimisers")} for d, m, run in every_run(study)}
    values = [[*key, value] for key, value in sorted(tuned.items())]
    documents = [document["values"] for document in tables()]
    assert (fingerprint(values), fingerprint(documents)) == (TUNED, PUBLISHED)


def test_every_row_can_be_built_for_every_dataset(study):
    """The classes check their arguments themselves, including nested parts."""
    for dataset, method, run in every_run(study):
        if method == "pretrained":
            continue
        loss = build_loss(run["loss"], num_classes=9, embedding_size=run["model"]["head"]["dim"])
        build_miner(run.get("miner"))
        parts = {"loss": loss, "head": torch.nn.Linear(2, 2)}
        made = build_optimisers(run["optimisers"], parts)
        assert ("loss" in made) == (method in OWN_PARAMETERS), (dataset, method)


def test_optimisers(study):
    for dataset, method, run in every_run(study):
        if method == "pretrained":
            continue
        layer = torch.nn.Linear(2, 2)
        made = build_optimisers(run["optimisers"], {"backbone": layer, "head": layer})
        for optimiser in made.values():
            assert isinstance(optimiser, torch.optim.RMSprop)
            group = optimiser.param_groups[0]
            wanted = {"lr": 1e-6, "momentum": 0.9, "weight_decay": 1e-4, "alpha": 0.99, "eps": 1e-8, "centered": False}
            assert {key: group[key] for key in wanted} == wanted
        of_loss = run["optimisers"].get("loss")
        assert (of_loss is not None) == (method in OWN_PARAMETERS), (dataset, method)
        if of_loss:
            assert of_loss["class"] == "RMSprop" and of_loss["momentum"] == 0.9
            assert of_loss["weight_decay"] == (0 if method.startswith("margin") else 1e-4)


def test_evaluation_interval_and_patience(study):
    wanted = {"cub200": (2, 9), "cars196": (5, 14), "sop": (20, 39)}
    for dataset, method, run in every_run(study):
        schedule = run["schedule"]
        assert (schedule["evaluate_every"], schedule["patience"]) == wanted[dataset]
        assert schedule["steps_per_epoch"] == 100
        assert schedule["epochs"] == (0 if method == "pretrained" else 1000)
        assert run["selection"]["role"] == "val" and run["selection"]["metric"] == "MAP@R"


def test_images_per_class(study):
    for _, method, run in every_run(study):
        assert run["sampler"]["batch"] == 32
        if method != "pretrained":
            assert run["sampler"]["per_class"] == (1 if method in CLASSIFICATION else 4), method


def test_within_pair_rows_are_the_stock_rows_with_64_views(study):
    for dataset in DATASETS:
        for method in WITHIN_PAIR:
            stock, within = (study.run(dataset, name).settings for name in (method, f"{method}_within_pair"))
            assert within["forward"] == {"class": "MultiView", "passes": 8, "masks": 8, "dropout": 0.05}
            assert within["model"] == {**stock["model"], "channel_dropout": 0.1}
            assert within["loss"]["class"] == "WithinPairLoss" and within["loss"]["sharpness"] == 32
            if (dataset, method) == ("cub200", "contrastive"):
                margins = {
                    key: within["loss"]["loss"][key] - stock["loss"][key] for key in ("pos_margin", "neg_margin")
                }
                assert margins == pytest.approx({"pos_margin": 0.1, "neg_margin": -0.2}, abs=1e-15)
            else:
                assert within["loss"]["loss"] == stock["loss"]
            kept = ("sampler", "optimisers", "schedule", "selection", "transforms")
            assert {key: within[key] for key in kept} == {key: stock[key] for key in kept}


@pytest.mark.slow
def test_sampler_straddles_rounds_as_often_as_the_original(study):
    """Measured with 75 classes: a class occurs twice in 1.3 % of batches with m = 4, in 37 % with m = 1."""
    labels = np.repeat(np.arange(75), 58)
    # a class is drawn four times as often with m = 1, so a shorter pass is enough
    for method, length, share, tolerance in (("triplet", 100000, 0.013, 0.008), ("arcface", 25000, 0.37, 0.03)):
        spec = study.run("cub200", method).settings["sampler"]
        assert spec["length"] == 100000
        batches = build_sampler({**spec, "length": length}, labels).draw(np.random.RandomState(1))
        m = spec["per_class"]
        assert sum(map(len, batches)) == (length - length % (m * 75)) // 32 * 32
        counts = [Counter(labels[batch].tolist()) for batch in batches]
        assert np.mean([max(count.values()) > m for count in counts]) == pytest.approx(share, abs=tolerance)


def test_a_class_with_fewer_than_m_images_repeats_some(study):
    spec = {**study.run("sop", "triplet").settings["sampler"], "length": 4000}
    labels = np.array([0, 0, *np.repeat(np.arange(1, 12), 6)])
    positions = np.concatenate(build_sampler(spec, labels).draw(np.random.RandomState(0)))
    rounds = [group for group in positions.reshape(-1, 4) if labels[group[0]] == 0]
    assert rounds and all(set(group) <= {0, 1} for group in rounds)
    full = [group for group in positions.reshape(-1, 4) if labels[group[0]] > 0]
    assert all(len(set(group.tolist())) == 4 for group in full)


def test_images_are_cropped_as_in_the_protocol(study):
    run = study.run("cub200", "triplet").settings
    assert run["transforms"]["resize"] == {"shorter": 256}
    crop, flip = transforms.build(run["transforms"]["train"]).steps
    assert (crop.size, crop.scale, crop.ratio) == ([227, 227], [0.16, 1.0], [0.75, 1.33])
    assert flip.p == 0.5
    image = np.zeros((256, 300, 3), dtype=np.uint8)
    assert transforms.build(run["transforms"]["eval"])(image, torch.Generator()).shape == (3, 227, 227)
