"""What a study leaves to be written out: rows of other studies, fidelities, sweeps."""

import pytest
import yaml
from project import ROOT

from recheck import config, shorthand
from recheck.errors import UserError
from recheck.study.yaml import names_in

STUDIES = names_in([ROOT / "config/studies"])
STUDY = {
    "protocol": {"sampler": {"class": "A", "batch": 2}},
    "methods": {"one": {"label": "One", "loss": {"class": "L", "x": 1}}, "two": {"label": "Two"}},
}


def loaded(tmp_path, text, fidelity=None):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return config.load_study("mine", {**STUDIES, "mine": path}, fidelity)


def test_a_fidelity_changes_protocol_and_methods():
    study = {**STUDY, "fidelities": {"code": {"protocol": {"sampler": {"batch": 3}}, "methods": {"one": {"seeds": 1}}}}}
    plain = shorthand.with_fidelity(study, None, "x")
    assert plain == {**study, "fidelity": "recommended"}
    changed = shorthand.with_fidelity(study, "code", "x")
    assert changed["protocol"]["sampler"] == {"class": "A", "batch": 3}
    assert changed["methods"]["one"] == {**study["methods"]["one"], "seeds": 1}
    assert changed["methods"]["two"] == study["methods"]["two"]
    assert shorthand.with_fidelity({**study, "fidelity": "code"}, None, "x") == changed
    assert shorthand.with_fidelity(STUDY, "code", "x")["fidelity"] == "recommended", (
        "studies without any are left alone"
    )
    with pytest.raises(UserError, match="no fidelity 'cod'; did you mean 'code'"):
        shorthand.with_fidelity(study, "cod", "x")
    wrong = {**study, "fidelities": {"code": {"methods": {"oen": {}}}}}
    with pytest.raises(UserError, match="no method 'oen'; did you mean 'one'"):
        shorthand.with_fidelity(wrong, "code", "x")


def test_a_sweep_is_every_method_with_every_value():
    values = {2: {"loss": {"x": 2}}, 16: {"loss": {"x": 16}, "methods": {"one": {"seeds": 1}}}}
    study = {**STUDY, "sweep": {"label": "X", "methods": ["one"], "values": values}}
    rows = shorthand.with_sweep(study, "x")["methods"]
    assert rows == {
        "one_2": {"label": "One, 2", "loss": {"class": "L", "x": 2}},
        "one_16": {"label": "One, 16", "loss": {"class": "L", "x": 16}, "seeds": 1},
    }
    assert shorthand.swept({**study, "methods": rows}) == {"One": [(2.0, "one_2"), (16.0, "one_16")]}
    assert shorthand.swept({**study, "methods": {"one_16": rows["one_16"]}}) == {"One": [(16.0, "one_16")]}
    assert shorthand.with_sweep(STUDY, "x") == STUDY
    with pytest.raises(UserError, match=r"'0\.5' must be a whole number"):
        shorthand.with_sweep({**study, "sweep": {**study["sweep"], "values": {0.5: {}}}}, "x")
    with pytest.raises(UserError, match="no method 'on'; did you mean 'one'"):
        shorthand.with_sweep({**study, "sweep": {**study["sweep"], "methods": ["on"]}}, "x")


def test_a_row_of_another_study_brings_its_parts_but_not_its_protocol(tmp_path):
    mine = loaded(tmp_path, "base: mlrc\ntitle: T\nmethods: {angular: {from: unbiased, label: Mine}}\n")
    theirs = config.load_study("unbiased", STUDIES)["methods"]["angular"]
    row = mine["methods"]["angular"]
    assert row["label"] == "Mine"
    assert {key: row[key] for key in ("loss", "forward", "sampler")} == {
        key: theirs[key] for key in ("loss", "forward", "sampler")
    }
    assert not {"transforms", "schedule", "lr_schedule", "optimisers"} & set(row)
    settings = config.resolve(mine, "cub200", "angular")
    assert settings["schedule"] == config.resolve(mine, "cub200", "triplet")["schedule"]


def test_a_rows_own_optimiser_head_and_datasets_come_along(tmp_path):
    mine = loaded(tmp_path, "base: mlrc\ntitle: T\nmethods: {facility_location: {from: unbiased}}\n")
    row = mine["methods"]["facility_location"]
    assert row["model"] == {"head": {"bias": False, "normalise": 1e-10}}
    assert row["datasets"]["sop"] == {
        "sampler": {"class": "BalancedClasses", "batch": 120, "per_class": 5, "batches": 497}
    }
    mine = loaded(tmp_path, "base: quickstart\ntitle: T\nmethods: {margin: {from: unbiased}}\n")
    assert mine["methods"]["margin"]["optimisers"] == {"loss": {"class": "SGD", "lr": 0.1, "momentum": 0.9}}
    head = config.resolve(mine, "emoji", "margin")["model"]["head"]
    assert head == {"class": "Linear", "dim": 128, "normalise": 1e-10}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"from": "unbaised"}, "no other study 'unbaised'; did you mean 'unbiased'"),
        ({"from": "unbiased"}, "study 'unbiased' has no method 'anguler'; did you mean 'angular'"),
    ],
)
def test_rows_that_are_not_there(tmp_path, row, sentence):
    text = yaml.safe_dump({"base": "mlrc", "title": "T", "methods": {"anguler": row}})
    with pytest.raises(UserError, match=sentence):
        loaded(tmp_path, text)


def test_included_studies_must_exist(tmp_path):
    with pytest.raises(UserError, match="'includes' names no other study 'mlcr'; did you mean 'mlrc'"):
        loaded(tmp_path, "base: quickstart\ntitle: T\nincludes: [mlcr]\n")


@pytest.mark.parametrize("fidelity", ["recommended", "code", "paper"])
@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("unbiased")])
def test_every_fidelity_of_the_unbiased_studies_is_whole(name, fidelity):
    study = config.load_study(name, STUDIES, fidelity)
    for dataset in study["datasets"]:
        for method in study["methods"]:
            settings = config.resolve(study, dataset, method)
            sizes = [step["random_crop"]["size"] for step in settings["transforms"]["train"] if "random_crop" in step]
            if fidelity == "paper" and "tiny" not in name and not method.startswith("dreml"):
                assert sizes == [224]
            else:
                assert sizes == []
