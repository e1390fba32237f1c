"""Reading results, summarising them over seeds, and tables in all formats. All numbers here are made up."""

import io
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recheck.errors import UserError
from recheck.files import write_json, write_text
from recheck.report import results, tables
from recheck.report.inputs import Inputs
from recheck.report.tables import caption, columns
from support.report.facts import facts

VIEWS, METRICS = ["concatenated", "separated"], ["P@1", "MAP@R"]
METHODS = {"pretrained": "Pretrained", "triplet": "Triplet", "ms_miner": "MS & miner_2"}


def summary_of(values, seeds=1, dataset="emoji"):
    """The summary of values: (method, view, metric) → list of fractions over seeds."""
    rows = [
        [dataset, method, seed, view, {"concatenated": 512, "separated": 128}[view], metric, value]
        for (method, view, metric), each in values.items()
        for seed, value in enumerate(each)
    ]
    return results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS))


def every(value_of, seeds=1, methods=METHODS):
    return {
        (method, view, metric): [value_of(row, view, metric) + 0.01 * seed for seed in range(seeds)]
        for row, method in enumerate(methods)
        for view in VIEWS
        for metric in METRICS
    }


def usual(row, view, metric):
    return 0.5 + 0.1 * row - 0.05 * VIEWS.index(view) - 0.2 * METRICS.index(metric)


def table(values, seeds=1, methods=METHODS, failures=(), sizes=None, **options):
    return tables.make(facts(methods, seeds=seeds, **options), summary_of(values), failures=failures, sizes=sizes)


def write_evaluation(root, method, seed, view, metrics, **more):
    path = root / "results" / "quick" / "emoji" / method / f"seed{seed}" / f"{view}.json"
    dim = {"concatenated": 512, "separated": 128}[view]
    write_json(path, {"method": method, "seed": seed, "view": view, "dim": dim, "metrics": metrics, **more})
    return path


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# results


def test_a_path_encodes_study_dataset_method_seed_and_fold():
    run = results.place("/data/results/mlrc/cub/ms_miner/seed3/fold2/run.json")
    assert (run.study, run.dataset, run.method, run.seed, run.fold, run.name) == (
        "mlrc",
        "cub",
        "ms_miner",
        3,
        2,
        "run.json",
    )
    assert results.place("results/mlrc/cub/ms_miner/seed10/separated.json").fold is None


def test_a_path_outside_the_results_tree_is_an_error():
    with pytest.raises(UserError, match=r"cub/table\.csv"):
        results.place("results/mlrc/cub/table.csv")


def test_evaluations_become_one_tidy_frame(tmp_path):
    paths = [
        write_evaluation(tmp_path, "triplet", 0, "concatenated", {"P@1": 0.5, "RP": 0.25}),
        write_evaluation(tmp_path, "triplet", 1, "separated", {"P@1": 0.4}, folds=[{"P@1": 0.3}, {"P@1": 0.5}]),
    ]
    frame = results.read_evaluations(paths)
    assert frame[["method", "seed", "view", "metric", "value", "dim"]].values.tolist() == [
        ["triplet", 0, "concatenated", "P@1", 0.5, 512],
        ["triplet", 0, "concatenated", "RP", 0.25, 512],
        ["triplet", 1, "separated", "P@1", 0.4, 128],
    ]
    folds = results.read_folds(paths)
    assert folds[["seed", "fold", "value"]].values.tolist() == [[1, 0, 0.3], [1, 1, 0.5]]


@pytest.mark.parametrize("content", [{"view": "separated"}, [1, 2]])
def test_a_malformed_evaluation_is_an_error_with_its_path(tmp_path, content):
    path = tmp_path / "s" / "d" / "m" / "seed0" / "separated.json"
    write_json(path, content)
    with pytest.raises(UserError, match=r"seed0/separated\.json"):
        results.read_evaluations([path])


def test_the_interval_is_the_t_interval_of_the_mean():
    values = [0.50, 0.53, 0.49, 0.55]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert results.interval(values) == pytest.approx((high - low) / 2, rel=1e-12)
    # By hand: t(0.975, 1) = 12.7062, s = 0.02 / sqrt(2), over sqrt(2).
    assert results.interval([0.4, 0.42]) == pytest.approx(12.7062047 * 0.01, rel=1e-7)


def test_one_seed_has_no_interval():
    assert math.isnan(results.interval([0.5]))
    assert not math.isnan(results.interval([0.5, 0.5]))


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.randoms())
def test_a_summary_does_not_depend_on_the_order_of_files(values, random):
    shuffled = random.sample(values, len(values))
    key = ("triplet", "separated", "P@1")
    one, other = (summary_of({key: each}).iloc[0] for each in (values, shuffled))
    assert one["mean"] == pytest.approx(other["mean"], rel=1e-12, abs=1e-15)
    assert one["interval"] == pytest.approx(other["interval"], rel=1e-9, abs=1e-12)
    assert one["seeds"] == len(values)


def test_the_best_method_excludes_the_reference_and_the_first_of_equals_wins():
    equal = summary_of(every(lambda row, view, metric: 0.5))
    assert results.best_method(equal, "P@1", "separated") == "pretrained"
    assert results.best_method(equal, "P@1", "separated", exclude=["pretrained"]) == "triplet"
    assert results.best_method(equal, "R@1", "separated") is None


def test_split_facts_count_classes_and_detect_shared_ones():
    index = pd.DataFrame({"label": [0, 0, 1, 1, 2, 2, 3, 3]})
    disjoint = {"folds": [{"train": [0, 1], "test": [4, 5, 6, 7]}, {"train": [2, 3], "test": [4, 5, 6, 7]}]}
    assert results.split_facts(disjoint, index) == {
        "test_images": 4,
        "test_classes": 2,
        "unseen_classes": True,
        "folds": 2,
        "train_images": 2,
        "train_classes": 1,
    }
    shared = {"folds": [{"train": [0, 4], "test": [5, 6]}]}
    assert results.split_facts(shared, index)["unseen_classes"] is False


# tables


def test_rows_and_columns_are_in_the_order_of_the_study():
    lines = table(every(usual)).markdown().splitlines()
    assert cells_of(lines[0]) == [
        "Method",
        "Concatenated 512-d P@1",
        "Concatenated 512-d MAP@R",
        "Separated 128-d P@1",
        "Separated 128-d MAP@R",
        "Seeds",
    ]
    assert [cells_of(line)[0] for line in lines[2:5]] == list(METHODS.values())
    assert cells_of(lines[2]) == ["Pretrained", "50.00", "30.00", "45.00", "25.00", "1"]
    backwards = table(every(usual), methods=dict(reversed(METHODS.items()))).markdown().splitlines()
    assert [cells_of(line)[0] for line in backwards[2:5]] == list(reversed(METHODS.values()))


def test_several_seeds_show_mean_interval_and_count():
    made = table(every(usual, seeds=3), seeds=3)
    half = 100 * results.interval([0.5, 0.51, 0.52])
    assert cells_of(made.markdown().splitlines()[2])[1] == f"51.00 ± {half:.2f}"
    assert cells_of(made.markdown().splitlines()[2])[-1] == "3"
    assert "95 % t-interval over 3 seeds" in made.caption


def test_missing_seeds_are_shown():
    values = every(usual, seeds=3)
    for key in values:
        if key[0] == "triplet":
            values[key] = values[key][:2]
    made = table(values, seeds=3)
    assert [cells_of(line)[-1] for line in made.markdown().splitlines()[2:5]] == ["3", "2 of 3", "3"]
    assert "over the seeds in the last column" in made.caption and "over 3 seeds" not in made.caption


def test_released_checkpoints_have_one_seed_in_a_table_of_several():
    values = every(usual, seeds=3)
    for key in values:
        if key[0] == "triplet":
            values[key] = values[key][:1]
    made = table(values, seeds=3, released=["triplet"])
    lines = made.markdown().splitlines()
    assert [cells_of(line)[-1] for line in lines[2:5]] == ["3", "1", "3"]
    assert "±" not in lines[3] and "±" in lines[2]
    assert "over the seeds in the last column (if two or more)" in made.caption
    assert "Rows marked “released” are checkpoints published by others" in made.caption
    assert "released" not in table(values, seeds=3).caption


BROKEN = "The loss became nan at step 1 (lr 0.1 & 50 %)."


def failed(method="ms_miner", seed=0, fold=1, rule="train", reason=BROKEN):
    return results.Failure(method, seed, fold, rule, reason)


def test_rows_that_were_not_run_or_failed_are_marked():
    values = {key: value for key, value in every(usual).items() if key[0] == "pretrained"}
    made = table(values, failures=[failed()])
    lines = made.markdown().splitlines()
    assert cells_of(lines[3])[1:] == ["not run"] * 4 + ["0 of 1"]
    assert cells_of(lines[4])[1:] == ["failed"] * 4 + ["0 of 1"]
    assert "“not run”: not measured here yet (1 of 3 rows)" in made.caption
    assert "not run" not in table(every(usual)).caption
    wide = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    assert wide["separated_P@1_status"].tolist() == ["measured", "not run", "failed"]


def test_each_reason_for_failure_appears_once_in_every_format():
    other = failed(seed=1, fold=None, rule="evaluate", reason="No space left.")
    made = table({}, failures=[failed(), failed(fold=2), failed("triplet"), other])
    runs = "MS & miner_2 (seed 0, fold 1, train; seed 0, fold 2, train), Triplet (seed 0, fold 1, train)"
    first, second = f"failed: {runs}: {BROKEN}", "failed: MS & miner_2 (seed 1, evaluate): No space left."
    assert made.reasons == [first, second]
    assert made.markdown().splitlines()[-5:-1] == ["", f"- {first}", f"- {second}", ""]
    text = made.latex()
    assert r"(lr 0.1 \& 50 \%).\par failed: MS \& miner\_2 (seed 1, evaluate): No space left.}" in text
    assert text.index(r"\end{tabular}") < text.index("No space left") < text.index(r"\caption")
    wide = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    assert wide.loc["triplet", "failed"] == f"seed 0, fold 1, train: {BROKEN}"
    assert wide.loc["ms_miner", "failed"].endswith("; seed 1, evaluate: No space left.")
    assert np.isnan(wide.loc["pretrained", "failed"])
    assert "failed" not in table({}).csv() and "failed" not in table({}).markdown()


def test_a_row_with_one_failed_seed_keeps_its_values():
    made = table(every(usual, seeds=2), seeds=3, failures=[failed(seed=2)])
    lines = made.markdown().splitlines()
    assert "±" in cells_of(lines[4])[1] and cells_of(lines[4])[-1] == "2 of 3"
    assert "failed: MS & miner_2 (seed 2, fold 1, train)" in made.markdown()
    assert "measured" in made.csv() and "failed,not run" not in made.csv()


def test_failures_of_seeds_measured_since_are_ignored(tmp_path):
    evaluations = [write_evaluation(tmp_path, "triplet", 0, view, {"P@1": 0.5, "MAP@R": 0.4}) for view in VIEWS]
    logs = tmp_path / "logs" / "quick" / "emoji" / "triplet"
    files = [logs / "seed0" / "fold1" / "train.failed", logs / "seed1" / "evaluate.failed"]
    for file in files:
        write_text(file, "The disk is full.\n")
    made = Inputs(facts(METHODS, seeds=2, scope="so_far"), {"evaluations": evaluations, "failures": files}).table
    assert made.reasons == ["failed: Triplet (seed 1, evaluate): The disk is full."]
    assert cells_of(made.markdown().splitlines()[3])[-1] == "1 of 2"
    made = Inputs(facts(METHODS, seeds=2, scope="so_far"), {"failures": files}).table
    assert made.reasons == ["failed: Triplet (seed 0, fold 1, train; seed 1, evaluate): The disk is full."]
    assert cells_of(made.markdown().splitlines()[3])[1:] == ["failed"] * 4 + ["0 of 2"]


def test_rows_may_have_different_numbers_of_seeds():
    values = every(usual, seeds=3)
    for key in values:
        if key[0] == "triplet":
            values[key] = values[key][:1]
    about = facts(METHODS, seeds=3)
    about["rows"][1]["seeds"] = 1
    made = tables.make(about, summary_of(values))
    assert [cells_of(line)[-1] for line in made.markdown().splitlines()[2:5]] == ["3", "1", "3"]
    assert "over the seeds in the last column (if two or more)" in made.caption and "released" not in made.caption
    one = tables.make(facts(METHODS), summary_of(every(usual)))
    assert "Measured here with one seed" in one.caption


def test_a_row_that_was_not_run_keeps_its_published_value_and_has_no_difference():
    values = {key: value for key, value in every(usual).items() if key[0] != "triplet"}
    made = table(values, quoted=[ONE])
    assert cells_of(made.markdown().splitlines()[3])[1:7] == ["not run", "61.25", "—", "not run", "40.00", "—"]
    assert r"{\scriptsize 61.25} & {\scriptsize 40.00}" in made.latex()


def test_a_table_without_runs_does_not_mention_measurements():
    made = table({}, seeds=3, quoted=[ONE])
    assert cells_of(made.markdown().splitlines()[3])[1:4] == ["not run", "61.25", "—"]
    assert "(3 of 3 rows)" in made.caption
    assert "interval" not in made.caption and "Bold" not in made.caption


def test_the_best_value_of_each_column_is_bold_including_ties_as_printed():
    values = every(lambda row, view, metric: 0.5, seeds=2)
    values["triplet", "separated", "P@1"] = [0.500001, 0.510001]
    values["ms_miner", "concatenated", "MAP@R"] = [0.6, 0.61]
    rows = table(values, seeds=2).rows()
    assert [[cell.bold for cell in cells] for _, cells, _ in rows] == [
        [True, False, True, True],
        [True, False, True, True],
        [True, True, True, True],
    ]


def test_a_dimension_that_differs_between_rows_is_a_range():
    summary = summary_of(every(usual))
    summary.loc[(summary["method"] == "pretrained") & (summary["view"] == "separated"), "dim"] = 64
    made = tables.make(facts(METHODS), summary)
    assert "Separated 64–128-d" in made.markdown()
    assert "Concatenated 512-d" in made.markdown()


def rows_of(text):
    return [cells_of(line) for line in text.splitlines() if line.startswith("|")]


def test_rows_with_different_embedding_sizes_have_a_size_column():
    summary = summary_of(every(usual))
    summary.loc[(summary["method"] == "pretrained") & (summary["view"] == "separated"), "dim"] = 64
    made = tables.make(facts(METHODS), summary)
    head, _, *body = rows_of(made.markdown())
    assert head[-2:] == ["Size", "Seeds"]
    assert [row[-2] for row in body] == ["512 / 64", "512 / 128", "512 / 128"]
    assert pd.read_csv(io.StringIO(made.csv()))["size"].tolist() == ["512 / 64", "512 / 128", "512 / 128"]
    assert {len(row) for row in latex_rows(made.latex())} == {7}
    assert '<th scope="col" rowspan="2" class="size">Size</th>' in made.html()


def test_show_size_adds_the_size_column():
    assert "Size" not in table(every(usual)).markdown()
    values = {key: each for key, each in every(usual).items() if key[0] != "ms_miner"}
    body = rows_of(table(values, show_size=True).markdown())[2:]
    assert [row[-2] for row in body] == ["512 / 128", "512 / 128", "—"]
    assert "Size" not in table({}, scope="published", quoted=[ONE], show_size=True).markdown()


def epochs_table(**options):
    rows = [
        ["emoji", method, 0, view, 64, metric, 0.5 + 0.1 * (view == "best_on_test")]
        for method in METHODS
        for view in ("best_on_test", "last_epoch")
        for metric in METRICS
    ]
    summary = results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS))
    return tables.make(facts(METHODS, views=["best_on_test", "last_epoch"], **options), summary)


def test_selection_on_test_is_mentioned():
    made = epochs_table()
    assert rows_of(made.markdown())[0][1:] == [
        "Best epoch on test 64-d P@1",
        "Best epoch on test 64-d MAP@R",
        "Last epoch 64-d P@1",
        "Last epoch 64-d MAP@R",
        "Seeds",
    ]
    assert "“Best epoch on test” is selected on the test set itself" in made.caption
    assert "selected on the test set" not in table(every(usual)).caption
    about = facts(METHODS, views=["last_epoch"], lead_metric="P@1", reference=None)
    assert caption.headline(about, made.frame).startswith("P@1 (last epoch): ")


def same_again(made, path):
    """Assert that a table is the same in every format after writing and loading it."""
    write_json(path, made.json())
    again = tables.load(path)
    for kind in ("csv", "markdown", "latex", "html", "json"):
        assert getattr(again, kind)() == getattr(made, kind)(), kind
    assert (again.headline, again.notes, again.reasons) == (made.headline, made.notes, made.reasons)
    pd.testing.assert_frame_equal(again.frame, made.frame)


def test_a_table_of_epochs_and_sizes_can_be_loaded(tmp_path):
    quoted = {"source": "Paper A", "values": {"emoji": {"triplet": {"best_on_test": {"P@1": 61.25}}}}}
    made = epochs_table(quoted=[quoted], show_size=True)
    same_again(made, tmp_path / "table.json")
    assert {len(row) for row in latex_rows(made.latex())} == {7}


@pytest.mark.parametrize("content", [{}, [1], {"rows": []}])
def test_a_file_that_is_not_a_table_is_an_error_with_its_path(tmp_path, content):
    write_json(tmp_path / "table.json", content)
    with pytest.raises(UserError, match=r"table\.json is not a table"):
        tables.load(tmp_path / "table.json")


def test_a_new_last_column_is_one_entry_of_a_list(monkeypatch):
    best = columns.LastColumn(
        "Highest",
        shown=lambda table: table.measured,
        text=lambda rows: f"{rows['mean'].max():.1f}",
        csv=lambda rows: {"highest": rows["mean"].max()},
    )
    monkeypatch.setattr(columns, "LAST", [*columns.LAST, best])
    made = table(every(usual))
    head, _, *body = rows_of(made.markdown())
    assert head[-2:] == ["Seeds", "Highest"] and [row[-1] for row in body] == ["50.0", "60.0", "70.0"]
    assert pd.read_csv(io.StringIO(made.csv()))["highest"].tolist() == pytest.approx([50, 60, 70])
    assert {len(row) for row in latex_rows(made.latex())} == {7} and "& Highest" in made.latex()
    assert '<td class="highest">70.0</td>' in made.html() and "Highest" not in table({}, scope="published").html()


def test_split_facts_of_queries_and_a_gallery():
    index = pd.DataFrame({"label": [0, 0, 1, 1, 2, 2, 2]})
    split = {"folds": [{"train": [0, 1], "query": [2, 4], "gallery": [3, 5, 6]}]}
    sizes = results.split_facts(split, index)
    assert sizes["gallery_images"] == 3
    assert caption.about_sizes("shop", sizes)[0] == (
        "shop: 2 queries of 2 classes, all unseen in training. Each query searches 3 gallery images."
    )
    assert caption.about_sizes("shop", sizes)[-1] == "Trained on 2 images of 1 classes."
    assert caption.about_sizes("shop", sizes, trained=False) == [
        "shop: 2 queries of 2 classes. Each query searches 3 gallery images."
    ]
    assert results.test_images(split).tolist() == [2, 4]


ONE = {"source": "Paper A", "values": {"emoji": {"triplet": {"concatenated": {"P@1": 61.25, "MAP@R": 40.0}}}}}
TWO = {"source": "Paper B", "values": {"emoji": {"triplet": {"concatenated": {"P@1": 59.0, "MAP@R": 40.0}}}}}
# values read off a plot, one of them doubtful, and logs with values that the plot lacks
READ_OFF = {
    "source": "Plot",
    "approximate": True,
    "values": {
        "emoji": {
            "pretrained": {"concatenated": {"P@1": 48.3, "MAP@R": 33.25}},
            "triplet": {"concatenated": {"P@1": 61.0}},
        }
    },
    "notes": {"emoji": {"pretrained": "P@1 doubtful: 50 % ± x.", "triplet": "One run.", "absent": "Not shown."}},
}
LOGS = {
    "source": "Logs",
    "values": {"emoji": {"triplet": {"concatenated": {"P@1": 61.04}}, "ms_miner": {"concatenated": {"P@1": 70.5}}}},
    "notes": {"emoji": {"ms_miner": "One run.", "pretrained": "Of a value that is not there."}},
}


def test_values_read_off_a_plot_are_marked_and_keep_their_digits():
    made = table(every(usual), quoted=[READ_OFF, LOGS])
    rows = {row[0]: row for row in rows_of(made.markdown())}
    assert rows["Pretrained"][1:7] == ["50.00", "≈\u00a048.3⁽¹⁾", "+1.7", "30.00", "≈\u00a033.25", "−3.2"]
    assert rows["Triplet"][2:4] == ["≈\u00a061.0⁽²⁾ / 61.04", "−1.0"]
    assert rows["MS & miner_2"][2:4] == ["70.50⁽²⁾", "−0.50"]
    assert "“≈”: read off a plot (the first source)." in made.caption
    assert "≈" not in table(every(usual), quoted=[ONE, TWO]).markdown()
    plain = table(every(usual), quoted=[READ_OFF]).caption
    assert "quoted from Plot. “≈”: read off a plot. Δ" in plain


def test_notes_are_footnotes_of_shown_values():
    made = table(every(usual), quoted=[READ_OFF, LOGS])
    # two rows share one note; a note on one metric is not at other metrics
    assert made.notes == ["P@1 doubtful: 50 % ± x.", "One run."]
    lines = made.markdown().splitlines()
    assert lines[-5:-1] == ["", "1. P@1 doubtful: 50 % ± x.", "2. One run.", ""] and lines[-1] == made.caption
    fewer = table(every(usual), quoted=[READ_OFF], methods={"triplet": "Triplet"})
    assert fewer.notes == ["One run."] and "61.0⁽¹⁾" in fewer.markdown()
    assert table(every(usual), quoted=[ONE]).notes == []
    text = made.latex()
    assert r"{\scriptsize $\approx$~48.3\textsuperscript{1} ($+1.7$)}" in text
    assert r"{\scriptsize / 61.04}" in text
    assert r"\textsuperscript{1} P@1 doubtful: 50 \% $\pm$ x.\par \textsuperscript{2} One run.}" in text
    assert text.index(r"\end{tabular}") < text.index("One run") < text.index(r"\caption")
    assert text.isascii() and {len(row) for row in latex_rows(text)} == {6}
    wide = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    assert wide.loc["pretrained", "concatenated_P@1_note"] == "P@1 doubtful: 50 % ± x."
    assert wide["concatenated_P@1_note_2"].isna().tolist() == [True, True, False]
    assert wide["concatenated_P@1_approximate"].isna().tolist() == [False, False, True]
    assert "note" not in table(every(usual), quoted=[ONE]).csv()


def test_values_come_from_the_first_document_that_has_them_and_the_caption_says_so():
    made = table(every(usual), quoted=[READ_OFF, LOGS])
    assert (
        "from Plot and Logs; where they disagree, both values are given, in this order; 1 of 3 rows only from the "
        "second source." in (made.caption)
    )
    late = {"source": "Logs", "values": {"emoji": {"triplet": {"separated": {"P@1": 50.0}}}}}
    caption = table(every(usual), quoted=[ONE, late]).caption
    assert "from Paper A and Logs; the view “separated” only from the second source." in caption
    assert "Δ = measured here − published." in caption
    # a document without a shown value is not a source
    other = {"source": "Elsewhere", "values": {"emoji": {"unknown": {"separated": {"P@1": 1.0}}}}}
    assert "Elsewhere" not in table(every(usual), quoted=[ONE, other]).caption


def test_only_metrics_with_published_values_have_a_published_column():
    head = rows_of(table(every(usual), quoted=[ONE]).markdown())[0]
    assert [title for title in head if title.startswith("Separated")] == [
        "Separated 128-d P@1",
        "Separated 128-d MAP@R",
    ]
    assert sum(title.endswith("published") for title in head) == 2


def test_published_values_are_next_to_ours_with_the_difference():
    made = table(every(usual), quoted=[ONE])
    lines = made.markdown().splitlines()
    assert cells_of(lines[0])[1:4] == [
        "Concatenated 512-d P@1",
        "Concatenated 512-d P@1 published",
        "Concatenated 512-d P@1 Δ",
    ]
    assert cells_of(lines[3])[1:7] == ["60.00", "61.25", "−1.25", "40.00", "40.00", "0.00"]
    assert cells_of(lines[2])[1:4] == ["50.00", "—", "—"]
    assert "quoted from Paper A" in made.caption
    assert "Paper A" not in table(every(usual)).caption


def test_both_values_of_disagreeing_documents_are_shown_and_the_first_is_compared():
    made = table(every(usual), quoted=[ONE, TWO])
    lines = made.markdown().splitlines()
    assert cells_of(lines[3])[1:7] == ["60.00", "61.25 / 59.00", "−1.25", "40.00", "40.00", "0.00"]
    assert "quoted from Paper A and Paper B; where they disagree, both values are given, in this order." in made.caption
    assert "Δ = measured here − published (the first source)." in made.caption


def test_a_table_of_published_values_only_claims_no_measurement():
    made = table({}, quoted=[ONE, TWO], scope="published")
    head = cells_of(made.markdown().splitlines()[0])
    # no separated value was published, so there is no column for it
    assert head == ["Method", "Concatenated P@1", "Concatenated MAP@R"]
    assert made.caption.startswith("emoji. Nothing was measured here: all values are quoted from Paper A and Paper B;")
    assert cells_of(made.markdown().splitlines()[3]) == ["Triplet", "61.25 / 59.00", "40.00"]
    assert list(pd.read_csv(io.StringIO(made.csv())).columns[:4]) == [
        "method",
        "label",
        "concatenated_P@1_published",
        "concatenated_P@1_published_2",
    ]
    assert "mean" not in made.csv() and "seeds" not in made.csv() and "not run" not in made.latex()


def test_the_caption_names_sizes_backbone_and_scale():
    sizes = {
        "test_images": 1392,
        "test_classes": 131,
        "unseen_classes": True,
        "folds": 4,
        "train_images": 1038,
        "train_classes": 98,
    }
    line = table(every(usual), sizes=sizes, backbone="efficientnet_lite0", scale="80 steps").markdown().splitlines()[-1]
    for words in (
        "1,392 test images of 131 classes",
        "unseen",
        "98 classes",
        "efficientnet_lite0",
        "80 steps",
        "one seed",
    ):
        assert words in line


def test_csv_has_full_precision_and_explicit_columns():
    values = every(lambda row, view, metric: 1 / (row + 3), seeds=2)
    made = table(values, seeds=2, quoted=[ONE])
    wide = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    expected = 100 * np.mean(values["triplet", "concatenated", "P@1"])
    assert wide.loc["triplet", "concatenated_P@1_mean"] == expected
    assert wide.loc["triplet", "concatenated_P@1_difference"] == expected - 61.25
    assert wide.loc["triplet", "concatenated_P@1_interval"] == 100 * results.interval(
        values["triplet", "concatenated", "P@1"]
    )
    assert wide.loc["triplet", ["seeds", "planned_seeds", "concatenated_P@1_dim"]].tolist() == [2, 2, 512]
    assert wide.loc["pretrained", "concatenated_P@1_status"] == "measured"
    assert np.isnan(wide.loc["pretrained", "concatenated_P@1_published"])


@pytest.mark.parametrize(
    ("quoted", "scope"),
    [([], "all")]
    + [(quoted, scope) for quoted in ([ONE], [ONE, TWO], [READ_OFF, LOGS]) for scope in ("so_far", "published")],
)
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_table_can_be_loaded_from_its_file(tmp_path, quoted, scope, seeds):
    measured = scope != "published"
    values = {key: value for key, value in every(usual, seeds).items() if key[0] != "ms_miner" and measured}
    failures = [failed(), failed(seed=2, fold=None)] if measured else []
    same_again(table(values, seeds=seeds, quoted=quoted, scope=scope, failures=failures), tmp_path / "table.json")


def test_an_empty_table_can_be_loaded(tmp_path):
    same_again(table({}, scope="so_far"), tmp_path / "table.json")


def test_latex_is_escaped_and_every_row_is_complete():
    methods = {**METHODS, "triplet": r"[50% {#1} $x_i$ ~ a\b ^"}
    text = table(every(usual, seeds=3), seeds=3, methods=methods).latex()
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line]
    assert all(len(re.findall(r"(?<!\\)&", row)) == 5 and row.endswith(r"\\") for row in rows)
    assert rows[1].startswith("{}["), "not an option of the line before it"
    assert r"50\% \{\#1\} \$x\_i\$ \textasciitilde{} a\textbackslash{}b \textasciicircum{}" in rows[1]
    assert r"MS \& miner\_2" in rows[2]
    assert r"\textbf{" in rows[2] and r"$\pm$" in rows[0]
    assert r"\begin{tabular}{lrrrrr}" in text
    assert text.isascii()


def test_latex_knows_greek_letters_and_arrows():
    text = table(every(usual), methods={**METHODS, "triplet": "β = 0.5 → λ, Δ ≥ ∞"}).latex()
    assert r"$\beta$ = 0.5 $\to$ $\lambda$, $\Delta$ $\geq$ $\infty$" in text
    assert text.isascii()


def latex_rows(text):
    """The cells of every row in the body, without booktabs commands."""
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    return [re.split(r"(?<!\\)&", line.removesuffix(r"\\")) for line in body if line != r"\addlinespace"]


def test_latex_puts_published_values_below_ours_in_the_same_column():
    made = table(every(usual), quoted=[ONE, TWO])
    rows = [[cell.strip() for cell in row] for row in latex_rows(made.latex())]
    ours = next(number for number, row in enumerate(rows) if row[0] == "Triplet")
    assert rows[ours][1:3] == ["60.00", "40.00"]
    assert rows[ours + 1][:3] == ["", r"{\scriptsize 61.25 ($-1.25$)}", r"{\scriptsize 40.00 ($0.00$)}"]
    # the second document has its own line, only where it disagrees
    assert rows[ours + 2][:3] == ["", r"{\scriptsize / 59.00}", ""]
    assert rows[ours + 3][0].startswith("MS")
    assert rows[1][1] == r"{\scriptsize ---}"
    assert "Below each value, in small type" in made.latex() and "Below each value" not in made.markdown()


QUOTED = {"scope": "published", "quoted": [ONE, TWO]}


@pytest.mark.parametrize("options", [{}, {"quoted": [ONE]}, QUOTED])
@pytest.mark.parametrize("seeds", [1, 3])
def test_latex_is_balanced_and_every_line_has_as_many_cells_as_columns(options, seeds):
    values = {} if "scope" in options else every(usual, seeds)
    text = table(values, seeds=seeds, **options).latex()
    assert re.findall(r"\\begin\{(.+?)\}", text) == ["table*", "tabular"]
    assert re.findall(r"\\end\{(.+?)\}", text) == ["tabular", "table*"]
    bare = re.sub(r"\\[{}]", "", text)
    depths = np.cumsum([{"{": 1, "}": -1}.get(character, 0) for character in bare])
    assert depths.min() >= 0 and depths[-1] == 0
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    columns = re.search(r"\\begin\{tabular\}\{(l(r+))\}", text)[1]
    # one column per view and metric; without measurements only those with published values
    quotes_alone = "scope" in options
    assert len(columns) == 1 + (len(METRICS) if quotes_alone else len(VIEWS) * len(METRICS) + 1)
    assert {len(row) for row in latex_rows(text)} == {len(columns)}
    assert text.isascii()


def test_latex_labels_contain_the_study():
    assert r"\label{tab:mlrc-published-cub200}" in table(every(usual), study="mlrc_published", dataset="cub200").latex()


def test_html_is_a_real_table_with_escaped_text():
    methods = {**METHODS, "triplet": "<b>a & b"}
    text = table(every(usual, seeds=2), seeds=2, methods=methods).html()
    assert '<th scope="colgroup" colspan="2">Concatenated 512-d</th>' in text
    assert '<th scope="row">&lt;b&gt;a &amp; b</th>' in text
    assert text.count("<tr>") == 2 + len(METHODS)
    assert "<strong>70.50 ± " in text


def test_a_bar_in_a_label_does_not_break_a_markdown_row():
    lines = table(every(usual), methods={**METHODS, "triplet": "a|b"}).markdown().splitlines()
    assert len(cells_of(lines[3])) == len(cells_of(lines[0]))


def test_the_headline_names_the_best_and_the_untrained_row():
    made = table(every(usual))
    sentence = made.headline
    assert "MS & miner_2" in sentence and "50.00" in sentence and "Pretrained" in sentence and "30.00" in sentence
    assert table(every(usual), lead_metric="NMI").headline == ""


def test_a_seed_without_all_views_does_not_count():
    """While a study is running, a view may exist before the other; both must have the same seeds."""
    rows = [("d", "m", seed, view, 8, "P@1", 0.5 + seed / 10) for seed in (0, 1) for view in ("a", "b")]
    rows.append(("d", "m", 2, "a", 8, "P@1", 0.9))
    table = pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS)
    kept = results.complete(table, ["a", "b"])
    assert sorted(kept.loc[kept["method"] == "m", "seed"].unique()) == [0, 1]
    assert len(results.complete(table, ["a"])) == len(table)
    assert results.complete(table.iloc[:0], ["a"]).empty
