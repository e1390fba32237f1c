"""Searches in a study: what is checked when it is read, and what reaches the rules."""

import re

import pytest

from recheck.errors import UserError
from recheck.study import grid
from recheck.study.search import Search
from support.project.studies import TEXT, own_study, shipped

TUNING = "tuning: {sampler: tpe, rounds: 3, trials: 4}\n"
GRID = TUNING.replace("tpe", "grid")
MARGIN = "loss.margin: {low: 0.01, high: 1, log: true}"


def study(folder, space=MARGIN, header=TUNING, row="triplet", text=TEXT, **chosen):
    """The study of ``support.project.studies`` with a search of one row; ``header`` is its `tuning`."""
    line = {"triplet": "TripletMarginLoss, margin: 0.1}\n", "untrained": "schedule: {epochs: 0}\n"}[row]
    changed = text.replace(line, f"{line}    space: {{{space}}}\n", 1)
    assert changed != text
    return own_study(folder, header + changed, **chosen)


@pytest.mark.parametrize(
    ("space", "tuning", "sentence"),
    [
        ("loss.margn: {low: 0, high: 1}", TUNING, r"'space' names 'loss\.margn', .* did you mean 'loss\.margin'\?"),
        (
            "loss.clas: {values: [1, 2]}",
            TUNING,
            r"did you mean 'loss\.margin'\? Known: loss\.margin, model\.batch_norm, ",
        ),
        ("lose.margin: {low: 0, high: 1}", TUNING, r"'space' names 'lose\.margin', which is not a setting of this row"),
        ("loss.margin: {low: 1, high: 1}", TUNING, r"low 1 and high 1\. 'low' must be less than 'high'"),
        ("loss.margin: {low: 2, high: 1}", TUNING, r"low 2 and high 1\. 'low' must be less than 'high'"),
        ("loss.margin: {low: 0, high: 1, log: true}", TUNING, r"'low' must be greater than 0, found 0"),
        ("loss.margin: {low: 0}", TUNING, r"'space\.loss\.margin' has no 'high'"),
        ("loss.margin: {low: 0, values: [1, 2]}", TUNING, r"has both 'values' and 'low'"),
        (
            "loss.margin: {values: [1]}",
            TUNING,
            r"space\.loss\.margin\.values' must have at least 2 values, found \[1\]",
        ),
        ("loss.margin: {values: [1, 1.0]}", TUNING, r"values' must not list a value twice, found \[1, 1\.0\]"),
        ("members: {low: 1, high: 3, integer: true}", TUNING, r"'space' cannot change 'members'"),
        ("loss.margin: {low: 0.5, high: 2, integer: true}", TUNING, r"must be whole numbers, found 0\.5 and 2"),
        ("loss.margin: {values: [0.1, wide, 0.2]}", TUNING, r"several types, found \[0\.1, 'wide', 0\.2\]\. Use only"),
        ("loss.margin: {values: [true, 1]}", TUNING, r"'space\.loss\.margin' has values of several types"),
        (
            "sampler.per_class: {values: [2, 0, 4, 8, 16]}",
            TUNING,
            r"'sampler\.per_class' .*found 0\. .*sampler\.per_class 0",
        ),
        ("loss.margin: {low: 1, high: 1e9, integer: true}", TUNING, None),
        (
            "loss.margin: {low: 1, high: 1e9, integer: true}",
            GRID,
            r"grid of 'space' has 1,000,000,000 points, but at most 100,000 are allowed",
        ),
        ("loss.class: {values: [A, B]}", TUNING, r"'space' cannot change 'loss\.class'"),
        ("selection.metric: {values: [P@1, RP]}", TUNING, r"'space' cannot change 'selection\.metric'"),
        ("sampler.per_class: {low: 2, high: 4}", TUNING, r"'sampler\.per_class' must be a whole number .*'space'"),
        ("optimisers.head.lr: {low: -1, high: 1}", TUNING, r"'optimisers\.head\.lr' must be at least 0"),
        ("schedule.epochs: {low: 0, high: 4, integer: true}", TUNING, None),
        (MARGIN, "", r"'space' needs a search\. Add 'tuning"),
        (MARGIN, TUNING.replace("}", ", startup: 13}"), r"12 trials \(3 × 4\), but 'tuning\.startup' is 13"),
        (MARGIN, TUNING.replace("}", ", folds: 5}"), r"'tuning\.folds' is 5, but the row has \d members"),
        (MARGIN, GRID, r"a grid needs 'values' or 'integer: true' .*'space\.loss\.margin'"),
        (MARGIN, TUNING.replace("tpe", "bayes"), r"'tuning\.sampler' is 'bayes'"),
        (MARGIN, TUNING.replace("rounds: 3, ", ""), r"key 'rounds' is missing in 'tuning'"),
        (MARGIN, TUNING.replace("}", ", objective: {role: test}}"), r"'tuning\.objective\.role' is 'test'"),
        (MARGIN, TUNING.replace("}", ", objective: {metric: NMI}}"), r"'tuning\.objective\.metric' is 'NMI'"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused_in_one_sentence(tmp_path, space, tuning, sentence):
    if sentence is None:
        study(tmp_path, space, tuning)
        return
    with pytest.raises(UserError, match=sentence) as error:
        study(tmp_path, space, tuning)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_rows_that_are_not_trained_and_searches_without_rows_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"row 'untrained': 'space' is only for rows that are trained, but this row is not trained"
    ):
        study(tmp_path, row="untrained")
    with pytest.raises(UserError, match=r"'tuning' needs a row with a 'space'"):
        own_study(tmp_path, TUNING + TEXT)


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ("role: test", "only validation images may decide, but 'selection.role' is 'test'"),
        ("role: val\n    watch: {test: [P@1]}", r"'selection\.watch' names 'test'"),
    ],
)
def test_a_search_sees_only_validation_images(tmp_path, new, sentence):
    assert "    role: val\n" in TEXT
    with pytest.raises(UserError, match=sentence):
        study(tmp_path, text=TEXT.replace("role: val", new))


def test_only_free_settings_are_left_out_of_the_params(tmp_path):
    tuned, plain = study(tmp_path).run("emoji", "triplet"), own_study(tmp_path).run("emoji", "triplet")
    assert tuned.training["loss"] == {"class": "TripletMarginLoss"} and plain.training["loss"]["margin"] == 0.1
    assert {**tuned.training, "loss": None} == {**plain.training, "loss": None}
    assert tuned.untuned.training == plain.training and plain.search is None


def test_more_rounds_change_no_proposal_of_an_earlier_one(tmp_path):
    short, long = (study(tmp_path, header=TUNING.replace("3", rounds)).run("emoji", "triplet") for rounds in "35")
    assert repr(short.search.settings) == repr(long.search.settings)
    assert [list(short.search.trials_of(number)) for number in range(3)] == [
        list(long.search.trials_of(number)) for number in range(3)
    ]
    assert (short.search.total, long.search.total, long.search.last_round) == (12, 20, 4)


def test_a_grid_ends_with_its_last_point():
    space = {"loss.num_bins": {"low": 2, "high": 8, "integer": True}}
    search = Search(space, "grid", rounds=3, trials=4, startup=4, seed=0, objective="val_MAP@R")
    assert search.total == 7 and search.last_round == 1 and list(search.trials_of(1)) == [4, 5, 6]
    assert Search(space, "grid", rounds=1, trials=4, startup=4, seed=0, objective="").total == 4


def test_the_config_shortens_every_search(tmp_path):
    short = study(tmp_path, tuning={"rounds": 2, "trials": 1, "startup": 1}).run("emoji", "triplet")
    assert short.search.total == 2


class Place:
    study, dataset, method, trial = "mine", "emoji", "triplet", "5"


def test_paths_of_a_search(tmp_path):
    run = study(tmp_path).run("emoji", "triplet")
    tuning = "<results>/mine/emoji/triplet/tuning"
    assert grid.trial_files(run, Place)["tuned"] == f"{tuning}/round1.json"
    assert grid.given_files(run, Place)["tuned"] == f"{tuning}/best.json"
    assert grid.round_files(run, Place, -1) == {}
    before = grid.round_files(run, Place, 0)
    assert before["before"] == f"{tuning}/round0.json" and len(before["records"]) == 4 * run.members
    assert before["records"][-1] == f"<results>/mine/emoji/triplet/trial3/fold{run.members - 1}/run.json"


def test_trials_may_train_on_fewer_folds_than_the_final_runs(tmp_path):
    run = study(tmp_path, header=TUNING.replace("}", ", folds: 1}")).run("emoji", "triplet")
    records = grid.round_files(run, Place, 0)["records"]
    assert records == [f"<results>/mine/emoji/triplet/trial{trial}/fold0/run.json" for trial in range(4)]
    assert run.members > 1
    assert "folds" in run.search.settings and "folds" not in study(tmp_path).run("emoji", "triplet").search.settings
    plain = own_study(tmp_path).run("emoji", "triplet")
    assert "tuned" not in grid.given_files(plain, Place) and "tuned" not in grid.model_files(plain, Place)


def test_the_searches_of_the_reality_check():
    """14 rows × 3 datasets × 50 trials; FastAP tries 31 numbers of bins."""
    tuned = shipped("mlrc_tuning")
    for dataset in tuned.datasets:
        searches = {row: tuned.run(dataset, row).search for row in tuned.rows if row != "pretrained"}
        assert len(searches) == 14
        assert {search.total for row, search in searches.items() if row != "fastap"} == {50}
        assert (searches["fastap"].sampler, searches["fastap"].total) == ("grid", 31)
    assert tuned.run("cub200", "ms").search.space["loss.alpha"] == {"low": 0.001, "high": 100}
    assert tuned.run("sop", "arcface").search.space["loss.scale"]["high"] == 300
    assert "loss.weight_reg_weight" not in tuned.run("sop", "soft_triple").search.space
    large = shipped("mlrc_tuning_256")
    assert large.datasets == ("cub200",) and len(large.rows) == 14
    assert {large.run("cub200", row).settings["sampler"]["batch"] for row in large.rows} == {256}
    assert large.run("cub200", "fastap").search.sampler == "gp"
    tiny = shipped("tuning_tiny")
    assert {run.search.total for run in tiny.runs["emoji"].values()} == {9} and len(tiny.rows) == 4


def test_a_study_with_the_chosen_values_has_no_search(tmp_path):
    text = (
        "base: tuning_tiny\ntuning:\nmethods:\n  triplet:\n    datasets:\n      cub200:\n        loss: {margin: 0.5}\n"
    )
    run = own_study(tmp_path, text).run("emoji", "triplet")
    assert run.search is None and run.training["loss"]["margin"] == 0.5
    assert re.search("space|tuning", repr(run.settings)) is None
