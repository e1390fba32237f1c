"""Trials: what the runs of a round measured, in whatever order they finished, and which trial is the best."""

import csv
import json

import pytest

from recheck.errors import UserError
from recheck.tuning.choose import choose
from recheck.tuning.importance import importance
from recheck.tuning.trials import completed, finished_trials, round_file, table

SEARCH = {
    "objective": "val_MAP@R",
    "sampler": "tpe",
    "seed": 0,
    "startup": 2,
    "space": {"loss.margin": {"low": 0, "high": 1}, "loss.scale": {"low": 1, "high": 64, "log": True}},
}
PROPOSED = {trial: {"loss.margin": trial / 4, "loss.scale": 64.0 / 2**trial} for trial in range(4)}


@pytest.fixture
def written(tmp_path):
    """Write a round and the records of its runs; return the path of the round and the paths of the records."""

    def write(scores, name="round0.json", finished=(), number=0):
        path = tmp_path / name
        proposed = {trial: PROPOSED[trial] for trial in scores}
        path.write_text(json.dumps(round_file(number, finished, proposed)), encoding="utf-8")
        records = []
        for trial, folds in scores.items():
            for fold, score in enumerate(folds):
                record = {"trial": trial, "fold": fold}
                record |= {"failed": score} if isinstance(score, str) else {"best": {"epoch": 2, "val_MAP@R": score}}
                records.append(tmp_path / f"trial{trial}_fold{fold}.json")
                records[-1].write_text(json.dumps(record), encoding="utf-8")
        return path, records

    return write


def test_trials_are_means_over_folds_in_any_order(written):
    path, records = written({0: [0.2, 0.4], 1: [0.5, 0.7]})
    first = finished_trials(path, records, "val_MAP@R")
    assert [trial.objective for trial in first] == pytest.approx([0.3, 0.6])
    assert first[0].standard_error == pytest.approx(0.1)
    assert finished_trials(path, records[::-1], "val_MAP@R") == first
    path, records = written({2: [0.1, 0.1], 3: ["The loss became nan.", 0.9]}, "round1.json", first, 1)
    second = finished_trials(path, records[::-1], "val_MAP@R")
    assert second[:2] == first and [trial.round for trial in second] == [0, 0, 1, 1]
    assert second[3].state == "failed" and second[3].objective is None
    assert second[3].reason == "fold 0: The loss became nan."


def test_the_best_trial_is_the_highest_mean_and_the_first_of_equals(written):
    path, records = written({0: [0.1, 0.3], 1: [0.3, 0.1], 2: ["no", 0.9], 3: [0.1, 0.1]})
    trials = finished_trials(path, records, "val_MAP@R")
    best = choose(SEARCH, trials)
    assert best["trial"] == 0 and best["values"] == PROPOSED[0]
    assert best["on_bound"] == ["loss.margin", "loss.scale"]
    assert (best["trials"], best["failed"]) == (4, 1)
    shares = importance(SEARCH, trials)
    assert set(shares) == set(SEARCH["space"]) and sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert importance(SEARCH, trials) == shares
    assert choose(SEARCH, trials) == best
    rows = list(csv.DictReader(table(trials, sorted(SEARCH["space"])).splitlines()))
    assert [row["state"] for row in rows] == ["finished", "finished", "failed", "finished"]
    assert float(rows[0]["loss.scale"]) == 64 and rows[2]["objective"] == "" and rows[2]["reason"] == "fold 0: no"


def test_one_setting_has_no_importance(written):
    path, records = written({0: [0.1], 1: [0.3]})
    trials = finished_trials(path, records, "val_MAP@R")
    search = {**SEARCH, "space": {"loss.margin": SEARCH["space"]["loss.margin"]}}
    assert importance(search, trials) is None and choose(search, trials)["standard_error"] is None


def test_a_search_in_which_everything_failed_ends_in_one_sentence(written):
    path, records = written({0: ["The loss became nan."], 1: ["The loss became inf."]})
    trials = finished_trials(path, records, "val_MAP@R")
    with pytest.raises(
        UserError, match=r"^All 2 trials failed; the first: fold 0: The loss became nan\. Change 'space'"
    ):
        choose(SEARCH, trials)


def test_free_settings_are_filled_from_a_round_or_from_the_chosen_values(written, tmp_path):
    path, _ = written({0: [0.2], 1: [0.3]})
    assert completed({"loss": {"class": "A"}}, path, 1)["loss"] == {"class": "A", "margin": 0.25, "scale": 32.0}
    best = tmp_path / "best.json"
    best.write_text(json.dumps({"values": {"model.head.dim": 8}}), encoding="utf-8")
    assert completed({"model": {}}, best) == {"model": {"head": {"dim": 8}}}
    assert completed({"loss": 1}, None) == {"loss": 1}
    with pytest.raises(UserError, match=r"round0\.json has no trial 7"):
        completed({}, path, 7)
    with pytest.raises(UserError, match=r"round0\.json has no 'values'"):
        completed({}, path)
