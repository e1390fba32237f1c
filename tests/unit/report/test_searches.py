"""Searches in reports: figures of trials, the columns of a table, and the chosen values as a study."""

import json

import pandas as pd
import pytest
import yaml

from recheck.errors import UserError
from recheck.report import searches, tables
from recheck.report.figures import all_figures
from recheck.report.inputs import Inputs
from recheck.report.tables.table import load
from recheck.space import filled
from recheck.study.compose import Files
from recheck.study.model import load_study
from recheck.tuning.choose import choose
from recheck.tuning.importance import importance
from recheck.tuning.trials import FAILED, FINISHED, Trial, table
from support.project.studies import FILES, own_study
from support.report.facts import facts

LABELS = {"pretrained": "Pretrained", "triplet": "Triplet", "arcface": "ArcFace"}
SPACES = {
    "triplet": {"loss.margin": {"low": 0, "high": 1}},
    "arcface": {"loss.scale": {"low": 1, "high": 200, "log": True}, "sampler.last": {"values": ["drop", "rollover"]}},
}
NAMES = ("search", "slices", "parallel", "importance")


def search(row):
    common = {"sampler": "tpe", "startup": 2, "seed": 0, "objective": "val_MAP@R", "trials": 4}
    return {**common, "space": SPACES[row]}


def trials(row):
    for number, objective in enumerate((0.3, 0.5, None, 0.4)):
        value = [0.0, 0.25, 0.5, 0.75][number]
        values = (
            {"loss.margin": value}
            if row == "triplet"
            else {"loss.scale": 1 + 10 * number, "sampler.last": ["drop", "rollover"][number % 2]}
        )
        state = FAILED if objective is None else FINISHED
        yield Trial(
            number, number // 2, values, state, objective, objective and 0.02, "" if objective else "fold 0: no"
        )


@pytest.fixture
def inputs(tmp_path):
    """Inputs with the files of two searches and of the final runs."""
    about = facts(LABELS, dataset="emoji")
    for row in about["rows"]:
        if row["name"] in SPACES:
            row["search"] = search(row["name"])
    files = {"searches": [], "trials": [], "importances": [], "runs": []}
    for row in SPACES:
        folder = tmp_path / f"quick/emoji/{row}"
        (folder / "tuning").mkdir(parents=True)
        of_row = list(trials(row))
        best = choose(search(row), of_row)
        (folder / "tuning/best.json").write_text(json.dumps(best), encoding="utf-8")
        (folder / "tuning/trials.csv").write_text(table(of_row, sorted(SPACES[row])), encoding="utf-8")
        shares = {"importance": importance(search(row), of_row)}
        (folder / "tuning/importance.json").write_text(json.dumps(shares), encoding="utf-8")
        files["importances"].append(folder / "tuning/importance.json")
        files["searches"].append(folder / "tuning/best.json")
        files["trials"].append(folder / "tuning/trials.csv")
        for seed, value in ((0, 0.44), (1, 0.48)):
            path = folder / f"seed{seed}/fold0/run.json"
            path.parent.mkdir(parents=True)
            record = {"best": {"val_MAP@R": value}, "configuration": filled({}, best["values"])}
            path.write_text(json.dumps(record), encoding="utf-8")
            files["runs"].append(path)
    return Inputs(about, files)


@pytest.mark.slow
def test_every_figure_of_a_search_is_drawn_and_the_same_data_gives_the_same_bytes(inputs, tmp_path):
    for name in NAMES:
        figure = all_figures()[name]
        assert figure.applies(inputs.facts) and "emoji" in figure.describe(inputs.facts)
        for turn in (0, 1):
            figure.draw(inputs, tmp_path / f"{name}{turn}.png", tmp_path / f"{name}{turn}.svg")
        assert (tmp_path / f"{name}0.svg").read_bytes() == (tmp_path / f"{name}1.svg").read_bytes()
        assert (tmp_path / f"{name}0.png").stat().st_size > 5000


def test_figures_of_searches_apply_only_to_studies_with_searches(inputs, tmp_path):
    assert not any(all_figures()[name].applies(facts(LABELS)) for name in NAMES)
    assert not any(all_figures()[name].applies({**inputs.facts, "scope": "published"}) for name in NAMES)
    one = {**inputs.facts, "rows": [row for row in inputs.facts["rows"] if row["name"] != "arcface"]}
    assert [name for name in NAMES if all_figures()[name].applies(one)] == ["search", "slices"]
    nothing = Inputs(inputs.facts, {})
    for name in NAMES:
        all_figures()[name].draw(nothing, tmp_path / "a.png", tmp_path / "a.svg")


def test_the_table_has_the_selected_trial_its_reruns_the_price_and_the_bounds(inputs, tmp_path):
    rows = searches.searched(inputs.chosen, searches_runs(inputs))
    assert rows["triplet"].selected == pytest.approx(50) and rows["triplet"].rerun == pytest.approx(46)
    summary = pd.DataFrame(
        [["emoji", row, "separated", "P@1", 0.01, 0.5, 2, 8, {0: 0.5, 1: 0.5}] for row in LABELS],
        columns=["dataset", "method", "view", "metric", "interval", "mean", "seeds", "dim", "by_seed"],
    )
    shown = tables.make(inputs.facts, summary, searched=rows)
    assert [column.title for column in shown.last] == ["Selected trial", "Reruns", "Trials", "On a bound", "Seeds"]
    texts = {label: last for label, _, last in shown.rows()}
    assert texts["Triplet"][:4] == ["50.00", "46.00", "4 (1 failed)", "—"]
    assert texts["Pretrained"][:4] == ["—"] * 4
    assert "validation MAP@R of the best trial" in shown.caption
    path = tmp_path / "table.json"
    path.write_text(json.dumps(shown.json()), encoding="utf-8")
    assert load(path).markdown() == shown.markdown()
    plain = tables.make(facts(LABELS), summary)
    assert [column.title for column in plain.last] == ["Seeds"] and "trial" not in plain.caption


def searches_runs(inputs):
    from recheck.report.results import read_runs

    return read_runs(inputs.paths("runs"))


def test_runs_with_values_that_are_no_longer_chosen_are_not_reruns(inputs):
    """As in `<study>_so_far` after a search has got more rounds."""
    runs = searches_runs(inputs)
    runs[0]["configuration"] = {"loss": {"margin": 0.75}}
    assert searches.searched(inputs.chosen, runs)["triplet"].rerun == pytest.approx(48)
    inputs.chosen["triplet"] = {**inputs.chosen["triplet"], "values": {"loss.margin": 0.9}}
    assert pd.isna(searches.searched(inputs.chosen, runs)["triplet"].rerun)


def test_a_row_on_a_bound_is_named(inputs):
    inputs.chosen["triplet"] = {**inputs.chosen["triplet"], "on_bound": ["loss.margin"]}
    rows = searches.searched(inputs.chosen, [])
    assert rows["triplet"].on_bound == ("loss.margin",) and pd.isna(rows["triplet"].rerun)


def test_only_searches_with_several_settings_have_importances(inputs):
    assert set(inputs.importances) == {"arcface"}
    assert sum(inputs.importances["arcface"].values()) == pytest.approx(1, abs=1e-5)


def test_chosen_values_are_a_study(inputs):
    text = searches.chosen_study("quick", inputs.paths("searches"), {"emoji": {"block": "cub200", "new": None}})
    assert yaml.safe_load(text) == {
        "base": "quick",
        "tuning": None,
        "methods": {
            "triplet": {"datasets": {"cub200": {"loss": {"margin": 0.25}}}},
            "arcface": {"datasets": {"cub200": {"loss": {"scale": 11}, "sampler": {"last": "rollover"}}}},
        },
    }


SHARED = """
base: mlrc
title: Three datasets with the hyper-parameters of CUB
keep: [triplet, ms]
seeds: [0]
tuning: {sampler: tpe, rounds: 1, trials: 2}
datasets:
  cub200:
  cars196: {hyperparameters_of: cub200}
  emoji: {hyperparameters_of: cub200}
methods:
  triplet: {space: {loss.margin: {low: 0, high: 1}}}
"""


def test_datasets_that_share_hyperparameters_keep_their_own_chosen_values(tmp_path):
    """All other settings of the pasted study stay those of the block that the datasets shared."""
    study = own_study(tmp_path, SHARED)
    margins, paths = {"cub200": 0.2, "cars196": 0.3, "emoji": 0.4}, []
    for dataset, margin in margins.items():
        paths.append(tmp_path / f"mine/{dataset}/triplet/tuning/best.json")
        paths[-1].parent.mkdir(parents=True)
        paths[-1].write_text(json.dumps({"values": {"loss.margin": margin}}), encoding="utf-8")
    text = searches.chosen_study("mine", paths, study.blocks)
    path = tmp_path / "pasted.yaml"
    path.write_text(text, encoding="utf-8")
    pasted = load_study("pasted", Files({**FILES.studies, "mine": study.path, "pasted": path}, FILES.methods))
    for dataset, margin in margins.items():
        values = {row: pasted.run(dataset, row).settings for row in ("triplet", "ms")}
        assert values["triplet"]["loss"] == {**study.run(dataset, "triplet").settings["loss"], "margin": margin}
        assert values["ms"]["loss"] == study.run("cub200", "ms").settings["loss"]
    assert "cars196_tuned" in text, "the row has a block for cars196 already, with other values"


def test_damaged_files_end_in_one_sentence(tmp_path):
    folder = tmp_path / "quick/emoji/triplet/tuning"
    folder.mkdir(parents=True)
    (folder / "best.json").write_text("[]", encoding="utf-8")
    (folder / "trials.csv").write_text("trial\n0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"best\.json has no 'values': delete it and run again to recreate it"):
        searches.read_chosen([folder / "best.json"])
    (folder / "importance.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"importance\.json has no 'importance': delete it and run again to recreate it"
    ):
        searches.read_importances([folder / "importance.json"])
    with pytest.raises(UserError, match=r"trials\.csv has no column 'round': delete it and run again to recreate it"):
        searches.read_trials([folder / "trials.csv"])
