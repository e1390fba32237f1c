"""Tables and figures of published searches: their content, with our searches drawn beside them."""

import csv
import io
import itertools
import json

import numpy as np
import pandas as pd
import pytest

from recheck.quoted_searches import files
from recheck.report import page, quoted
from recheck.report.figures import all_figures, best_so_far, effort, one_setting
from recheck.report.inputs import Inputs
from recheck.report.tables.plain import PlainTable
from recheck.report.tables.searches import selected_values, trials_needed
from recheck.study import facts
from recheck.study.published import load_published, scoped
from support.project import ROOT
from support.project.studies import shipped

pytestmark = pytest.mark.slow

FOLDER = ROOT / "resources/published/mlrc_searches"
DATASETS = ("cub200", "cars196", "sop")


def inputs_of(study, scope="published", ours=None):
    """Dataset → inputs of a study's report; ``ours`` has files of our searches."""
    documents = load_published(ROOT / "resources/published" / study.published)
    shown = scoped(study, scope, documents)
    measured = set() if scope == "published" else set(study.rows)
    quotes = {"quoted_searches": files(FOLDER)}
    return {
        dataset: Inputs(facts.facts(shown, dataset, documents, measured), {**quotes, **(ours or {}).get(dataset, {})})
        for dataset in shown.datasets
    }


@pytest.fixture(scope="module")
def study():
    return shipped("mlrc_tuning")


@pytest.fixture(scope="module")
def published(study):
    return inputs_of(study)


@pytest.fixture(scope="module")
def with_ours(study, tmp_path_factory):
    """The report with our finished search of Triplet on CUB."""
    folder = tmp_path_factory.mktemp("results") / "mlrc_tuning/cub200/triplet/tuning"
    folder.mkdir(parents=True)
    objective = [0.40, None, 0.41, 0.418, 0.42]
    table = pd.DataFrame({"round": 0, "trial": range(5), "state": "finished", "objective": objective})
    table = table.assign(standard_error=0.01, **{"loss.margin": np.linspace(-0.2, 2, 5)})
    table.to_csv(folder / "trials.csv", index=False)
    best = {"values": {"loss.margin": 2.0}, "objective": 0.42, "metric": "val_MAP@R", "trial": 4}
    best |= {"trials": 5, "failed": 1, "on_bound": ["loss.margin"]}
    (folder / "best.json").write_text(json.dumps(best), encoding="utf-8")
    ours = {"cub200": {"searches": [folder / "best.json"], "trials": [folder / "trials.csv"]}}
    return inputs_of(study, "all", ours)


@pytest.fixture(autouse=True)
def not_saved(monkeypatch):
    """Do not write files, which takes most of the time; tests/workflow/test_reality_check.py writes all figures."""
    for module in (best_so_far, effort, one_setting):
        monkeypatch.setattr(module, "save", lambda figure, png, svg: figure)


def drawn(inputs, name):
    figure = all_figures()[name]
    assert figure.applies(inputs.facts)
    return figure.draw(inputs, "a.png", "a.svg")


def legend(drawing):
    return [text.get_text() for text in drawing.legends[0].get_texts()]


def steps(drawing):
    """The curves of a figure of best values so far, without the dots."""
    return [line for axis in drawing.axes for line in axis.get_lines() if line.get_drawstyle() == "steps-post"]


def test_every_published_search_is_a_curve(published):
    curves = {dataset: steps(drawn(inputs, "best_so_far")) for dataset, inputs in published.items()}
    assert {dataset: len(lines) for dataset, lines in curves.items()} == {"cub200": 27, "cars196": 13, "sop": 13}
    assert all(len(line.get_xdata()) == 50 for line in itertools.chain(*curves.values()))
    # without colour: the two batch sizes differ in their lines, and their dots in being filled
    lines = {line.get_linestyle() for line in curves["cub200"]}
    assert lines == {"-", "--"}
    text = all_figures()["best_so_far"].describe(published["cub200"].facts)
    assert "No search with batches of 32 was published for FastAP." in text and "0.5 points" in text
    assert "FastAP" not in all_figures()["best_so_far"].describe(published["sop"].facts)


def test_our_search_is_drawn_beside_the_published_ones(with_ours):
    drawing = drawn(with_ours["cub200"], "best_so_far")
    (axis,) = [axis for axis in drawing.axes if axis.get_title() == "Triplet"]
    lines = [line for line in axis.get_lines() if len(line.get_xdata()) == 5]
    assert [list(np.round(line.get_ydata(), 2)) for line in lines] == [[40, 40, 41, 41.8, 42]]
    assert "ours" in legend(drawing)
    assert "our search" in all_figures()["best_so_far"].describe(with_ours["cub200"].facts)
    drawing = drawn(with_ours["cub200"], "one_setting")
    (axis,) = [axis for axis in drawing.axes if axis.get_title() == "Triplet, batches of 32"]
    assert sorted(len(c.lines[0].get_xdata()) for c in axis.containers) == [4, 50]
    assert any("our trial" in text for text in legend(drawing))
    drawing = drawn(with_ours["cub200"], "effort")
    assert [4] in [list(line.get_xdata()) for line in drawing.axes[0].get_lines() if line.get_marker() == "D"]


def test_searches_with_one_setting_have_every_trial_with_its_bar(published):
    panels = {}
    for dataset, inputs in published.items():
        drawing = drawn(inputs, "one_setting")
        panels[dataset] = [axis.get_title() for axis in drawing.axes]
        for axis in drawing.axes:
            (trials,) = axis.containers
            heights, bars = trials.lines[0].get_ydata(), trials.lines[2][0].get_segments()
            assert len(heights) == len(bars) == 50
            assert all(bar[1][1] > height > bar[0][1] for height, bar in zip(heights, bars, strict=True))
        assert not any("our" in text for text in legend(drawing))
    assert panels["cars196"] == panels["sop"] == ["NT-Xent", "Triplet"]
    assert len(panels["cub200"]) == 5 and "FastAP, batches of 256" in panels["cub200"]


def test_trials_needed_are_marks_in_the_order_of_the_medians(published):
    drawing = drawn(published["cub200"], "effort")
    (axis,) = drawing.axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    medians = [line.get_xdata()[0] for line in axis.get_lines() if line.get_marker() == "|"]
    assert medians == sorted(medians) and (labels[0], labels[-1]) == ("SNR", "N. Softmax")
    counts = {marker: sum(line.get_marker() == marker for line in axis.get_lines()) for marker in "os|"}
    assert counts == {"o": 13, "s": 14, "|": 14}


def records(table):
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_the_table_of_selected_values(published, with_ours):
    table = selected_values("mlrc_tuning_published", list(published.values()))
    lines = records(table)
    assert (
        len(lines) == len(table.rows) == 140
        and len({tuple(line[k] for k in ("dataset", "method", "batch")) for line in lines}) == 53
    )
    assert sum(bool(line["on_bound"]) for line in lines) == 10
    assert "53 published searches with 2,650 trials" in table.caption
    assert "10 selected values lie on a bound" in table.caption and "5 of them" in table.caption
    assert sum(row[5] != "—" for row in table.rows) == 10
    assert (
        r"\begin{tabular}{llllllrrr}" in table.latex() and '<th scope="col" class="word">Setting</th>' in table.html()
    )
    ours = selected_values("mlrc_tuning", list(with_ours.values()))
    (line,) = [line for line in records(ours) if line["ours_selected"]]
    assert (line["method"], line["batch"], line["ours_on_bound"], line["ours_validation_MAP@R"]) == (
        "triplet",
        "32",
        "True",
        "42.0",
    )
    assert len(ours.head) == len(table.head) + 3 and all(len(row) == len(ours.head) for row in ours.rows)


def test_the_table_of_trials_needed(published, with_ours):
    table = trials_needed("mlrc_tuning_published", list(published.values()))
    lines = {line["method"]: line for line in records(table)}
    assert next(iter(lines)) == "snr" and list(lines)[-1] == "n_softmax" and len(lines) == 14
    assert [lines["arcface"][name] for name in ("cub200_32", "cars196_32", "sop_32", "cub200_256", "median")] == [
        "37",
        "1",
        "25",
        "48",
        "31.0",
    ]
    assert lines["fastap"]["cub200_32"] == "" and lines["fastap"]["searches"] == "1"
    assert "5 of 53 searches" in table.caption
    ours = {line["method"]: line for line in records(trials_needed("mlrc_tuning", list(with_ours.values())))}
    assert ours["triplet"]["cub200_ours"] == "4" and ours["ms"]["cub200_ours"] == ""


def test_the_page_shows_the_tables(published):
    table = trials_needed("mlrc_tuning_published", list(published.values()))
    assert PlainTable(**json.loads(json.dumps(table.json()))).markdown() == table.markdown()
    text = page.render(
        study="s", title="S", description="", sections=[], runs=[], labels={}, command="c", searches=[table]
    )
    assert (
        "Trials needed</h3>" in text and "N. Softmax" in text and 'download="mlrc_tuning_published-effort.csv"' in text
    )
    without = page.render(study="s", title="S", description="", sections=[], runs=[], labels={}, command="c")
    assert "Searches" not in without


def test_the_study_with_large_batches_has_its_own_searches():
    (inputs,) = inputs_of(shipped("mlrc_tuning_256")).values()
    assert quoted.study_batch(inputs.facts) == 256 and quoted.other_batches(inputs.facts) == [32]
    assert inputs.facts["validation"] == "MAP@R"
    table = inputs.table.markdown()
    assert "45.39" in table and "44.76" not in table


def test_a_study_without_searches_shows_only_the_validation_of_published_searches():
    study = shipped("mlrc")
    inputs = inputs_of(study)
    assert set(inputs) == set(DATASETS)
    for each in inputs.values():
        shown = [name for name, figure in all_figures().items() if figure.applies(each.facts)]
        assert shown == ([] if each.facts["dataset"] == "sop" else ["metrics"])
    lines = {row["method"]: row for row in csv.DictReader(io.StringIO(inputs["sop"].table.csv()))}
    assert float(lines["arcface"]["validation_MAP@R_published_3"]) == 41.93
    assert "only from" not in inputs["sop"].table.caption
    assert "the view “validation” only from the third source" in inputs["cub200"].table.caption


def test_our_validation_stands_beside_the_published_value(tmp_path):
    """Two seeds of Triplet on SOP and the untrained row, which has no validation."""
    study = shipped("mlrc", seeds=[0, 1])
    paths = {"evaluations": [], "runs": []}
    for row, seed in itertools.product(("pretrained", "triplet"), (0, 1)):
        folder = tmp_path / f"mlrc/sop/{row}/seed{seed}"
        for view in study.views:
            path = folder / f"{view}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            content = {"view": view, "dim": 128, "metrics": dict.fromkeys(("P@1", "RP", "MAP@R"), 0.3 + 0.01 * seed)}
            path.write_text(json.dumps(content), encoding="utf-8")
            paths["evaluations"].append(path)
        for fold in range(4):
            path = folder / f"fold{fold}/run.json"
            path.parent.mkdir(parents=True)
            value = 0.37 + 0.01 * fold + 0.004 * seed if row == "triplet" else None
            path.write_text(json.dumps({"best_value": value, "warnings": []}), encoding="utf-8")
            paths["runs"].append(path)
    table = inputs_of(study, "all", {"sop": paths})["sop"].table
    lines = {row["method"]: row for row in csv.DictReader(io.StringIO(table.csv()))}
    triplet = lines["triplet"]
    assert float(triplet["validation_MAP@R_mean"]) == pytest.approx(38.7)
    assert float(triplet["validation_MAP@R_difference"]) == pytest.approx(38.7 - 38.46)
    assert lines["pretrained"]["validation_MAP@R_status"] == "none"
    assert lines["arcface"]["validation_MAP@R_status"] == "not run"
    markdown = {line.split("|")[1].strip(): line for line in table.markdown().splitlines() if line.startswith("|")}
    assert markdown["Pretrained"].count("not run") == 0
    assert "over the seeds in the last column" in table.caption
    assert "slightly lower" in table.caption
