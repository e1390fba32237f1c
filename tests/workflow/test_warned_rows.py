"""A study whose rows learn nothing says so in the terminal, the logs, the table and the page."""

import csv
import json

import pytest

from support.project import Project, small_study

pytestmark = pytest.mark.slow

ONE_CLASS = {"class": "MPerClass", "batch": 32, "per_class": 32, "length": 96}
NO_PAIRS = "images of only one class"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Letters with batches of one class and frozen batch norm on random weights, and a sane row beside it."""
    project = Project.create(tmp_path_factory.mktemp("sanity") / "project")
    study = small_study(
        protocol={
            "split": {"scheme": "class_halves"},
            "selection": {},
            "schedule": {"epochs": 2, "steps_per_epoch": 3, "evaluate_every": 1},
        },
        methods={
            "triplet": {
                "label": "Triplet",
                "loss": {"class": "TripletMarginLoss", "margin": 0.1},
                "sampler": ONE_CLASS,
                "model": {"batch_norm": "frozen"},
            },
            "sane": {"label": "Sane", "loss": {"class": "TripletMarginLoss", "margin": 0.1}},
        },
    )
    project.write("config/studies/letters.yaml", study)
    project.output = project.succeed("--cores", "2")
    return project


def test_the_terminal_warns_before_and_after_training(project):
    first = "row 'triplet': 'sampler.per_class' (32) fills whole batches of 32 images"
    assert project.output.count(first) == 1, "once, when the study is read"
    assert "WARNING: triplet, seed 0, fold 0: The loss was exactly 0 in all 6 steps" in project.output
    assert first in project.succeed("--cores", "1", "--dry-run", "--forceall")


def test_the_log_and_the_record_of_the_run_have_one_sentence_per_finding(project):
    log = project.read("logs/letters/glyphs/triplet/seed0/fold0/train.log")
    record = json.loads(project.read("results/letters/glyphs/triplet/seed0/fold0/run.json"))
    checks = [warning["check"] for warning in record["warnings"]]
    assert checks == ["frozen_batch_norm", "no_negative_pairs", "zero_loss"]
    assert all(f"WARNING triplet, seed 0, fold 0: {warning['text']}" in log for warning in record["warnings"])
    assert json.loads(project.read("results/letters/glyphs/sane/seed0/fold0/run.json"))["warnings"] == []


def test_the_row_is_marked_and_not_bold_in_every_format(project):
    text = project.read("results/letters/glyphs/table.md")
    row = next(line for line in text.splitlines() if line.startswith("| Triplet"))
    assert "Triplet ⚠" in row and "**" not in row
    assert any(line.startswith("- ⚠ ") and NO_PAIRS in line for line in text.splitlines())
    with project.path("results/letters/glyphs/table.csv").open(encoding="utf-8") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert NO_PAIRS in rows["triplet"]["warnings"] and NO_PAIRS not in rows["sane"]["warnings"]
    latex = project.read("results/letters/glyphs/table.tex")
    assert r"Triplet \textsuperscript{$\dagger$} &" in latex and NO_PAIRS in latex
    table = json.loads(project.read("results/letters/glyphs/table.json"))
    assert ("triplet", "zero_loss") in {(warning["method"], warning["check"]) for warning in table["warnings"]}
    assert not any(row["best"] for row in table["rows"] if row["method"] == "triplet")


def test_the_page_shows_the_warning_and_its_headline_does_not_praise_the_row(project):
    page = project.read("results/letters/index.html")
    assert '<th scope="row">Triplet ⚠</th>' in page
    assert f"⚠ Triplet: at least half of the batches had {NO_PAIRS}.</li>" in page
    headline = page.split('<p class="headline">')[1].split("</p>")[0]
    assert "Triplet" not in headline and "Sane" in headline
