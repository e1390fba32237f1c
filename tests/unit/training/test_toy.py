"""The toy experiment with five circles."""

import numpy as np
import pytest
import torch

from recheck.errors import UserError
from recheck.study.toy import load_toy
from recheck.training.toy import RADII, make_circles, run, train, write
from support.project import ROOT

TOY = load_toy(ROOT / "config/toys/contextual_toy.yaml").content
EXPERIMENTS = TOY["experiments"]


def test_circles():
    points, labels = make_circles(2000, 20.0, np.random.RandomState(0))
    assert points.shape == (10000, 2)
    radius = np.linalg.norm(points, axis=1)
    for number, expected in enumerate(RADII):
        mine = radius[labels == number]
        assert len(mine) == 2000
        assert mine.mean() == pytest.approx(expected, abs=0.01)
        assert mine.std() == pytest.approx(1 / 20, abs=0.005)
    assert np.abs(points.mean(axis=0)).max() < 0.05


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_depends_only_on_its_seed(name, tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (run(EXPERIMENTS[name], 30, seed, 10) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before), "the global generator was touched"
    for key, value in first.items():
        assert np.array_equal(value, again[key]), key
    assert not np.array_equal(first["losses"], other["losses"])
    assert first["losses"].shape == (30,)
    assert first["embeddings"].shape == (50, 2)
    write(tmp_path / "toy.npz", first)
    with np.load(tmp_path / "toy.npz") as stored:
        assert {key: stored[key].tolist() for key in stored} == {key: value.tolist() for key, value in first.items()}


def test_training_lowers_the_loss():
    done = []
    spec = EXPERIMENTS["neighbourhood"]["loss"]
    losses = train(spec, lr=0.02, weight_decay=0.0, steps=400, progress=done.append).losses
    assert losses[-100:].mean() < 0.9 * losses[:20].mean()
    assert sum(done) == 400


def test_settings_equal_the_published_ones():
    assert TOY["steps"] == 20_000 and TOY["points"] == 500
    contrastive, neighbourhood = EXPERIMENTS["contrastive"], EXPERIMENTS["neighbourhood"]
    assert (contrastive["lr"], contrastive["weight_decay"]) == (1e-4, 1e-5)
    assert (neighbourhood["lr"], neighbourhood["weight_decay"]) == (4e-5, 1e-4)
    spec = neighbourhood["loss"]
    assert (spec["variant"], spec["eps"], spec["k"]) == (1, 0.05, 4)


def test_losses_are_compared_on_the_same_points():
    runs = [run(each, 2, 0, 10) for each in EXPERIMENTS.values()]
    for key in ("data", "data_labels", "points", "labels"):
        assert np.array_equal(runs[0][key], runs[1][key]), key
    assert not np.array_equal(runs[0]["embeddings"], runs[1]["embeddings"])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("ContextualLoss,", "ContextualLos,", "did you mean 'ContextualLoss'"),
        ("    lr: 1e-4\n", "", "key 'lr' is missing in 'experiments.contrastive'"),
        ("steps: 20000", "step: 20000", "did you mean 'steps'"),
    ],
)
def test_mistakes_are_named(old, new, sentence, tmp_path):
    text = (ROOT / "config/toys/contextual_toy.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=sentence):
        load_toy(path)
