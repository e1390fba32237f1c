"""Counts on meta tensors, and the stored ones that Snakemake plans with."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from recheck.cost import meta
from recheck.cost.counts import side_of, stored
from recheck.cost.estimate import GIB, estimate
from recheck.cost.plan import sizes_of
from recheck.study.model import load_study
from support.project import SCRIPTS
from support.project.studies import FILES, dataset_of


@pytest.fixture(scope="module")
def count():
    return meta.Counter()


# A training step's TFLOPs, and the GiB that it keeps for the backward pass, as counted before this module existed.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "row", "batch", "teraflops", "saved"),
    [
        ("mlrc", "triplet", 32, 0.386, 1.33),
        ("mlrc", "triplet_within_pair", 256, 3.085, 10.6),
        ("unbiased", "lifted", 128, 1.53, 5.3),
        ("unbiased", "ranked_list", 180, 2.15, 7.4),
        ("unbiased_resnet50", "lifted", 128, 3.11, 10.3),
        ("contextual_256", "ms", 128, 4.06, 13.4),
    ],
)
def test_known_steps(count, study, row, batch, teraflops, saved):
    run = load_study(study, FILES).run("cub200", row)
    counts = count(run.settings["model"], side_of(run.settings["transforms"], "train"))
    assert run.settings["sampler"]["batch"] * (run.settings.get("forward") or {}).get("passes", 1) == batch
    assert batch * counts.training / 1e12 == pytest.approx(teraflops, rel=2e-3)
    assert batch * counts.saved / GIB == pytest.approx(saved, rel=0.01)
    known = stored(run.settings["model"], side_of(run.settings["transforms"], "train"))
    assert known.training == pytest.approx(counts.training, rel=1e-3)  # with another head
    assert known.forward == pytest.approx(counts.forward, rel=1e-3)
    assert known.saved == pytest.approx(counts.saved, rel=0.05)


def test_every_network_of_every_study_is_stored():
    """If this or the previous test fails: python benchmarks/counts.py."""
    for name in FILES.studies:
        for runs in load_study(name, FILES).runs.values():
            for run in runs.values():
                for phase in ("train", "eval") if run.trained else ("eval",):
                    assert stored(run.settings["model"], side_of(run.settings["transforms"], phase)), (
                        name,
                        run.settings,
                    )


@pytest.mark.parametrize(
    ("name", "frozen", "side"), [("efficientnet_lite0", False, 64), ("efficientnet_b0", True, 360)]
)
def test_stored_counts_are_those_of_the_networks(count, name, frozen, side):
    model = {"backbone": {"name": name, "frozen": frozen}, "head": {"class": "Linear", "dim": 512}}
    known, counted = stored(model, side), count({**model, "batch_norm": "frozen"}, side)
    assert replace(known, saved=0) == replace(counted, saved=0)
    assert known.saved == pytest.approx(counted.saved, rel=0.05)


def hours(study, count, speed, steps=None):
    """Hours of all training steps of a study; with ``steps``, of this many steps in every run."""
    total = 0
    for dataset, runs in study.runs.items():
        for name, run in runs.items():
            cost = estimate(run.settings, sizes_of(study, dataset_of, dataset), run.trained, count)
            work = cost.step_flops * steps * run.trained if steps else cost.most.training
            total += len(study.rows[name].seeds) * run.members * work / speed / 3600
    return total


@pytest.mark.parametrize(
    ("study", "speed", "steps", "expected"),
    [
        ("mlrc", 7.8e12, 1000, 75.8),
        ("mlrc", 7.8e12, None, 7580),
        ("unbiased", 7.8e12, None, 170),
        ("unbiased_resnet50", 7.8e12, None, 345),
        ("contextual_224", 36.8e12, None, 46),
        ("contextual_256", 36.8e12, None, 245),
    ],
)
def test_hours_of_whole_studies(study, speed, steps, expected):
    """By the stored counts, so that no network is built; float16 is faster."""
    assert hours(load_study(study, FILES), stored, speed, steps) == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
def test_grouped_convolutions_count_three_forward_passes(count):
    trained, frozen = ({"backbone": {"name": "efficientnet_lite0", "frozen": value}} for value in (False, True))
    head = {"head": {"class": "Linear", "dim": 16}}
    assert count({**trained, **head}, 64).training == 3 * count({**trained, **head}, 64).forward
    # a frozen backbone has no backward pass at all
    assert count({**frozen, **head}, 64).training < 1.01 * count({**frozen, **head}, 64).forward
    assert count({**frozen, **head}, 64).trainable == 1280 * 16 + 16


def test_a_network_that_cannot_be_counted_is_named(tmp_path, count, monkeypatch):
    (tmp_path / "refusing.py").write_text("def net():\n    raise ValueError('no network today')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = {"backbone": {"name": "refusing:net"}, "head": {"class": "Linear", "dim": 4}}
    assert count(model, 32) is None
    assert "no network today" in count.failed["refusing:net"]


def test_planning_does_not_import_torch():
    code = "import sys; from recheck.cost import limits, plan; print('torch' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(output.strip().lower()) is False
