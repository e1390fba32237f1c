"""A study selected on the test set, with queries and a gallery, an ensemble, and different embedding sizes."""

import csv
import json

import pytest
from safetensors.numpy import load_file

from support.project import Project, small_study

EVALUATION = {"metrics": ["R@1", "R@2", "MAP@R", "NMI"], "table": ["R@1", "NMI"], "normalise": False}
WARM_UP = {"epochs": 1, "fresh_optimisers": True}
METHODS = {
    "untrained": {"label": "Untrained", "model": {"head": {"class": "Identity"}}, "schedule": {"epochs": 0}},
    "triplet": {
        "label": "Triplet",
        "model": {"projector": {"class": "LinearProjector", "dim": 24}, "batch_norm": "frozen_affine"},
        "forward": {"class": "InTurns", "parts": 2},
        "loss": {"class": "TripletMarginLoss", "margin": 0.1},
    },
    "ensemble": {
        "label": "Ensemble",
        "members": 2,
        "relabel": {"class": "MetaClasses", "count": 3},
        "loss": {"class": "ProxyNCALoss"},
        "sampler": {"per_class": 1},
        "evaluation": {"normalise": True},
    },
}


def study(**evaluation):
    return small_study(
        views=["best_on_test", "last_epoch"],
        methods=METHODS,
        protocol={
            "split": {"scheme": "official"},
            "optimisers": {
                "backbone": {"class": "Adam", "lr": 0.001},
                "head": {"class": "Adam", "lr": 0.001},
                "projector": {"class": "Adam", "lr": 0.001},
                "loss": {"class": "Adam", "lr": 0.01},
            },
            "schedule": {"epochs": 2, "steps_per_epoch": 3, "evaluate_every": 1, "warm_up": WARM_UP},
            "selection": {"role": "test", "metric": "R@1", "watch": {"train": ["R@1"]}},
            "evaluation": {**EVALUATION, **evaluation},
        },
    )


@pytest.fixture(scope="module")
def made(shared):
    return shared("epochs", make)


def make(folder):
    project = Project.create(folder)
    lines = ["path,label,class_name,role"]
    for number, folder in enumerate(sorted(project.path("glyphs").iterdir())):
        for place, image in enumerate(sorted(folder.iterdir())):
            role = "train" if number < 6 else "query" if place < 2 else "gallery"
            lines.append(f"{folder.name}/{image.name},{number},{folder.name},{role}")
    project.write("glyphs.csv", "\n".join([*lines, ""]))
    project.edit("config/datasets/glyphs.yaml", "parser: folder\n", "parser: csv\ncsv: glyphs.csv\n")
    project.write("config/studies/letters.yaml", study(distances="train"))
    project.succeed("--cores", "2")
    return project


def evaluation(project, method, view):
    return json.loads(project.read(f"results/letters/glyphs/{method}/seed0/{view}.json"))


def test_both_checkpoints_are_embedded_and_evaluated(made):
    shapes = {
        method: {
            role: rows.shape
            for role, rows in load_file(
                made.path(f"results/letters/glyphs/{method}/seed0/fold0/embeddings.safetensors")
            ).items()
        }
        for method in ("untrained", "triplet")
    }
    assert shapes["untrained"] == {"query": (12, 32), "gallery": (18, 32), "train": (30, 32)}
    assert shapes["triplet"] == {
        "query": (12, 16),
        "gallery": (18, 16),
        "train": (30, 16),
        "best_on_test/query": (12, 16),
        "best_on_test/gallery": (18, 16),
    }
    record = json.loads(made.read("results/letters/glyphs/triplet/seed0/fold0/run.json"))
    rows = list(csv.DictReader(made.read("results/letters/glyphs/triplet/seed0/fold0/history.csv").splitlines()))
    assert record["best_on_test"]["epoch"] == record["best_epoch"]
    best, last = evaluation(made, "triplet", "best_on_test"), evaluation(made, "triplet", "last_epoch")
    assert best["metrics"]["R@1"] == record["best_value"] == record["best_on_test"]["test_R@1"]
    assert last["metrics"]["R@1"] == float(rows[-1]["test_R@1"])
    assert all(row["train_R@1"] for row in rows)


def test_untrained_rows_are_equal_in_both_views(made):
    best, last = (evaluation(made, "untrained", view) for view in ("best_on_test", "last_epoch"))
    for result in (best, last):  # a warning's text names its view
        result["view"], result["warnings"] = "", [warning["check"] for warning in result["warnings"]]
    assert best == last


def test_an_ensemble_uses_its_best_first_members(made):
    best, last = evaluation(made, "ensemble", "best_on_test"), evaluation(made, "ensemble", "last_epoch")
    assert last["dim"] == 32 and "members" not in last
    assert best["dim"] == 16 * best["members"]


def test_the_table_shows_the_selection_and_the_sizes_of_rows(made):
    table = made.read("results/letters/glyphs/table.md")
    assert "Best epoch on test" in table and "Last epoch" in table
    assert "selected on the test set itself" in table
    assert "12 queries of 6 classes, all unseen in training. Each query searches 18 gallery images." in table
    rows = {row["method"]: row for row in csv.DictReader(made.read("results/letters/glyphs/table.csv").splitlines())}
    assert rows["untrained"]["size"] == "32" and rows["triplet"]["size"] == "16"
    for figure in ("metrics", "bars", "generalisation", "curves", "recall", "map", "gallery"):
        assert made.path(f"results/letters/figures/glyphs_{figure}.png").stat().st_size > 5000


def test_nothing_runs_again_and_new_metrics_do_not_retrain(made, tmp_path):
    assert made.planned() == {}
    copied = made.copy(tmp_path / "project")
    copied.edit("config/studies/letters.yaml", "metrics: [R@1, R@2, MAP@R, NMI]", "metrics: [R@1, R@2, R@4, NMI]")
    planned = copied.planned()
    assert planned["evaluate_epochs"] == 3
    assert not {"train", "embed", "evaluate"} & set(planned)
    copied.write("config/studies/letters.yaml", study())
    planned = copied.planned()
    assert planned["embed"] == 4 and "train" not in planned
