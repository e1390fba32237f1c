"""Deleted files of finished experiments are found."""

from pathlib import Path

import pytest

from recheck.study import grid
from support.project.studies import own_study, shipped


@pytest.fixture
def place(tmp_path):
    return lambda path: path.replace("<results>", str(tmp_path / "results"))


def make(study, place, dataset):
    for row in study.rows.values():
        for path in [
            *grid.evaluations(study, dataset),
            *(path for file in grid.RUN_FILES for path in grid.members(study, dataset, row.name, 0, file)),
        ]:
            file = place(path)
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).touch()


def test_only_missing_files_of_finished_experiments_are_listed(tmp_path, place):
    study = own_study(tmp_path)
    assert list(grid.deleted(study, "emoji", place, has_table=False)) == [], "nothing was made yet"
    assert len(list(grid.deleted(study, "emoji", place, has_table=True))) == 8, "the table needs all evaluations"
    make(study, place, "emoji")
    assert list(grid.deleted(study, "emoji", place, has_table=True)) == []
    gone = ["seed0/fold0/history.csv", "seed0/fold1/model.safetensors"]
    for path in gone:
        Path(place(f"<results>/mine/emoji/triplet/{path}")).unlink()
    expected = [f"<results>/mine/emoji/triplet/{path}" for path in gone]
    assert list(grid.deleted(study, "emoji", place, has_table=False)) == expected


def test_calibrations_belong_to_an_experiment(place):
    study = shipped("calibration_tiny")
    make(study, place, "emoji")
    assert "<results>/calibration_tiny/emoji/untrained/seed0/calibration.json" in list(
        grid.deleted(study, "emoji", place, has_table=True)
    )
