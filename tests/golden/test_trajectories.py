"""Whole training steps of the original programs, replayed by the engine with the settings of the study.

`RECHECK_GOLDEN` may name a folder with files of other rows; every file in its `trajectories` is replayed.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from recheck.study.compose import compose
from support.golden.fidelity import compares
from support.golden.trajectories import PROBED, Replay, Trajectory, differences, replay_of
from support.project import ROOT
from support.project.studies import FILES, shipped

pytestmark = pytest.mark.slow

HERE = ROOT / "tests/golden/trajectories"
FOLDER = Path(os.environ.get("RECHECK_GOLDEN", ROOT / "tests" / "golden")) / "trajectories"
STUDIES = ("contextual_224", "contextual_256", "mlrc", "unbiased")


def check(replay):
    replay.train()
    wrong = {what: (error, allowed) for what, error, allowed in differences(replay) if not error <= allowed}
    assert not wrong


def recorded(test):
    """Decorate the test with what the files of this repository compare."""
    for path in sorted(HERE.glob("*.npz")):
        file = Trajectory.read(path)
        tolerance = "1e-9" if file.float64 else "1e-5 in float32"
        if not (file.complete and file.float64):
            tolerance += ", losses only"
        if file.variant:
            tolerance += f", variant {file.variant}"
        aspects = ("trajectory", "optimiser", "schedule", *(["metric"] if "evals" in file.arrays else []))
        test = compares(*aspects, studies=[file.study], rows=[file.row], tolerance=tolerance, exact=True)(test)
    return test


@recorded
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.npz")), ids=lambda path: path.stem)
def test_replay_equals_the_original(path, tmp_path):
    check(replay_of(Trajectory.read(path), tmp_path))


def test_every_study_has_a_recorded_row():
    shown = {Trajectory.read(path).study for path in HERE.glob("*.npz")}
    assert shown == set(STUDIES)


# --- rows without a file in this repository ---------------------------------------------------------------------------


def shape_of(settings):
    """Settings without their numbers: rows of the same shape are replayed by the same code."""
    if isinstance(settings, dict):
        return {key: shape_of(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return [shape_of(value) for value in settings]
    return "number" if isinstance(settings, (int, float)) and not isinstance(settings, bool) else settings


REPLAYED = ("forward", "loss", "miner", "optimisers", "relabel", "schedule")


def rows():
    seen = set()
    for name in STUDIES:
        for variant in dict.fromkeys(["recommended", *compose(name, FILES)["variants"]]):
            study = shipped(name, variant=variant)
            for dataset in study.datasets:
                for row in study.rows:
                    run = study.run(dataset, row)
                    replayed = {key: run.training.get(key) for key in REPLAYED}
                    replayed["projector"] = run.training["model"].get("projector")
                    shape = json.dumps(shape_of(replayed), sort_keys=True)
                    if run.trained and shape not in seen:
                        seen.add(shape)
                        yield pytest.param(name, variant, dataset, row, id=f"{name}-{variant}-{dataset}-{row}")


CLASSES, PER_CLASS, TEST_IMAGES = 12, 4, 16


def invented(study, variant, dataset, row):
    """A file without results. Its batch suits every loss: two images per class, then two more in the same order."""
    twice = [[PER_CLASS * label + place for label in range(CLASSES) for place in places] for places in ((0, 1), (2, 3))]
    batch = np.array([twice[0] + twice[1]], np.int32)
    labels = batch[0] // PER_CLASS
    run = shipped(study, variant=variant).run(dataset, row)
    about = {
        "study": study,
        "dataset": dataset,
        "method": row,
        "fidelity": variant,
        "family": study,
        "shallow": False,
        "network": "support.project.small_net:SmallNet",
        "recipes": {},
        "final_is_after": 1,
        "data": {"n": batch.size, "classes": CLASSES, "n_test": TEST_IMAGES, "classes_test": 4, "size": 32},
        "float64": study != "unbiased",
    }
    arrays = {"batches": batch, "epochs": np.zeros(1, np.int32), "losses": np.zeros(1), "evals": np.array([[0], [1]])}
    if "DistanceWeighted" in run.training.get("miner", {}).get("class", ""):
        pairs = [(a, p) for a in range(batch.size) for p in range(batch.size) if a != p and labels[a] == labels[p]]
        arrays["negatives"] = np.array([[next(iter(np.flatnonzero(labels != labels[a]))) for a, _ in pairs]])
    if "val" in run.training["selection"].get("role", ""):
        about["data"] |= {"n": batch.size + TEST_IMAGES, "classes": CLASSES + PER_CLASS, "n_test": 0}
        arrays["role/train"] = np.arange(batch.size)
        arrays["role/val"] = np.arange(batch.size, batch.size + TEST_IMAGES)
    return Trajectory("invented", about, arrays)


def pytest_generate_tests(metafunc):
    """Rows are listed when tests are collected, so that the fidelity page can import this file cheaply."""
    if "row" in metafunc.fixturenames:
        metafunc.parametrize(("study", "variant", "dataset", "row"), list(rows()))


def test_every_row_can_be_replayed(study, variant, dataset, row, tmp_path):
    """One step from the recipe is recorded as a file, which a second run has to repeat."""
    start = invented(study, variant, dataset, row)
    names = [name for name, tensor in Replay(start, tmp_path).tensors() if tensor.is_floating_point()]
    start.about["recipes"] = {name: name for name in names}
    first = Replay(start, tmp_path, start.about["data"]["n"] - start.about["data"]["classes"])
    first.train()
    assert np.isfinite(first.losses).all()
    lines = [line for line in first.position.history if first.columns[0] in line]
    results = {
        "losses": np.array(first.losses),
        "names": np.array(names),
        "final": np.array([first.summary(name) for name in names]),
        "probe": first.probe(),
        "evals": np.array([[line["epoch"], *(line[column] for column in first.columns)] for line in lines]),
    }
    assert results["final"][:, 2].any(), "no weight has moved"
    assert len(results["probe"]) == PROBED
    np.savez(tmp_path / "recorded.npz", **start.arrays | results, meta=json.dumps(start.about))
    check(replay_of(Trajectory.read(tmp_path / "recorded.npz"), tmp_path))
