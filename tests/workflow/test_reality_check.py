"""The reality check as a user runs it: in miniature, and its published tables."""

import csv
import json
import math
import shutil

import pytest
import yaml

from support.project import ROOT, Project
from support.project.studies import shipped

ROWS = 19


# The small icon sets, which draw about a fifth of the classes: reading and drawing all twelve takes 40 CPU seconds.
SETS = ("emojione", "emojione-monotone", "fluent-emoji-high-contrast", "fxemoji", "noto", "streamline-emojis")


@pytest.fixture
def bare(tmp_path):
    """A fresh clone of the project with six icon sets, whose downloads are already in place if they were made here."""
    project = Project.create(tmp_path / "project").add_shipped_studies()
    dataset = yaml.safe_load(project.read("config/datasets/emoji.yaml"))
    dataset["options"] |= {"sets": [*SETS], "min_images": len(SETS)}
    dataset["files"] = [file for file in dataset["files"] if file["path"].split("/")[0] in SETS]
    dataset["expected"] = {"images": 6 * 212, "classes": 212}
    project.write("config/datasets/emoji.yaml", yaml.safe_dump(dataset))
    # about as many classes as the study has with all sets
    project.edit("config/studies/mlrc_tiny.yaml", "every: 12", "every: 2")
    for name in SETS:
        downloads = ROOT / "resources/datasets/emoji/downloads" / name
        if downloads.exists():
            shutil.copytree(downloads, project.path("resources/datasets/emoji/downloads") / name)
    return project


def table_rows(project, path):
    with project.path(path).open(encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


# An untrained row and a pair loss. tests/unit/training/test_rows.py trains all rows.
SOME = ("pretrained", "triplet")


def test_rows_of_the_study_in_miniature(bare):
    """Checks that must hold after a few steps, without expected values."""
    bare.succeed("--cores", "2", "mlrc_tiny", "--config", f"methods=[{','.join(SOME)}]")
    report = f"results/mlrc_tiny_selected_{'_'.join(SOME)}"
    rows = table_rows(bare, f"{report}/emoji/table.csv")
    assert set(rows) == set(SOME)
    runs = bare.path("results/mlrc_tiny/emoji")
    for method, row in rows.items():
        for view in ("concatenated", "separated"):
            for metric in ("P@1", "RP", "MAP@R"):
                assert 0 < float(row[f"{view}_{metric}_mean"]) < 100, (method, view, metric)
        for fold in range(1 if method == "pretrained" else 2):
            folder = runs / method / "seed0" / f"fold{fold}"
            assert (folder / "model.safetensors").stat().st_size > 1e6
            with (folder / "history.csv").open(encoding="utf-8", newline="") as file:
                losses = [float(line["loss"]) for line in csv.DictReader(file) if line["loss"]]
            assert all(map(math.isfinite, losses)), (method, losses)
            if method != "pretrained":
                assert len(losses) == 2
                record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
                assert record["configuration"]["loss"]["class"]
    for metric in ("P@1", "RP", "MAP@R"):
        gains = [
            float(row[f"concatenated_{metric}_mean"]) - float(row[f"separated_{metric}_mean"]) for row in rows.values()
        ]
        assert sum(gains) / len(gains) > 0, f"two folds together should be better than one, on average ({metric})"
    for view in ("concatenated", "separated"):
        reached = {method: float(row[f"{view}_MAP@R_mean"]) for method, row in rows.items()}
        untrained = reached.pop("pretrained")
        assert sum(reached.values()) / len(reached) > untrained, f"training should help, on average ({view})"
    for figure in ("metrics", "curves", "recall", "map", "gallery"):
        assert bare.path(f"{report}/figures/emoji_{figure}.png").stat().st_size > 1000
    assert "Triplet" in bare.read(f"{report}/index.html")


def test_published_tables_and_searches_need_neither_images_nor_training(tmp_path):
    project = Project.create(tmp_path / "project").add_shipped_studies()
    output = project.succeed("--cores", "1", "mlrc_published", "mlrc_tuning_published")
    assert "train" not in output.split("Job stats:")[1].split("total")[0]
    assert not project.path("resources/datasets").exists()
    for dataset in ("cub200", "cars196"):
        rows = table_rows(project, f"results/mlrc_published/{dataset}/table.csv")
        assert len(rows) == ROWS
        assert all(float(row["concatenated_MAP@R_published"]) > 0 for row in rows.values())
        assert not any(column.endswith("_mean") and row[column] for row in rows.values() for column in row)
        assert r"\begin{tabular}" in project.read(f"results/mlrc_published/{dataset}/table.tex")
    markdown = project.read("results/mlrc_published/cub200/table.md")
    assert "67.08 / 66.02" in markdown and "Nothing was measured here" in markdown
    assert "Average ranks over datasets</h3>" in project.read("results/mlrc_published/index.html")
    assert project.path("results/mlrc_published/figures/critical_difference.png").stat().st_size > 5000
    validation = table_rows(project, "results/mlrc_published/sop/table.csv")
    assert float(validation["arcface"]["validation_MAP@R_published_3"]) == 41.93
    figures = {path.stem for path in project.path("results/mlrc_tuning_published/figures").glob("*.png")}
    names = ("best_so_far", "one_setting", "effort")
    assert figures >= {f"{dataset}_{name}" for dataset in ("cub200", "cars196", "sop") for name in names}
    searches = table_rows(project, "results/mlrc_tuning_published/effort.csv")
    assert len(searches) == 14 and searches["snr"]["median"] == "6.0"
    assert "53 published searches" in project.read("results/mlrc_tuning_published/searches.md")
    page = project.read("results/mlrc_tuning_published/index.html")
    assert "Selected values</h3>" in page and "10 selected values lie on a bound" in page


def test_the_whole_study_can_be_planned(tmp_path):
    """3 datasets, 18 rows with 4 folds and an untrained row; two of the ten seeds, which all have the same jobs."""
    assert {row.seeds for row in shipped("mlrc").rows.values()} == {tuple(range(10))}
    project = Project.create(tmp_path / "project").add_shipped_studies()
    planned = project.planned("mlrc", "--config", "seeds=[0,9]")
    assert planned["train"] == planned["embed"] == 2 * 3 * (18 * 4 + 1)
    assert planned["evaluate"] == 2 * 3 * ROWS
    assert planned["table"] == 3 and planned["page"] == 1
