"""The experiment with five circles."""

import numpy as np
import pytest
import torch

from recheck.errors import UserError
from recheck.training.toy import EXPERIMENTS, RADII, make_circles, run, train, write


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
def test_a_run_is_a_function_of_its_seed(name, tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = run(name, 30, 1, 10), run(name, 30, 1, 10), run(name, 30, 2, 10)
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
    part = EXPERIMENTS["neighbourhood"]["loss"]
    losses = train(part, lr=0.02, weight_decay=0.0, steps=400, progress=done.append).losses
    assert losses[-100:].mean() < 0.9 * losses[:20].mean()
    assert sum(done) == 400


def test_unknown_experiments_are_named():
    with pytest.raises(UserError, match="did you mean 'contrastive'"):
        run("contrastiv")
