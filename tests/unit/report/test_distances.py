"""Histograms of distances between pairs, compared with counting one by one and with the density on the sphere."""

import numpy as np
import pytest

from recheck.report.figures import distances

pytestmark = pytest.mark.slow


def sphere(count, dimension, seed=0):
    points = np.random.RandomState(seed).standard_normal((count, dimension))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_every_pair_is_counted_once_in_its_bin(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 7)
    vectors, labels = 3 * sphere(40, 5), np.random.RandomState(1).randint(0, 6, 40)
    vectors[3] = vectors[8]
    vectors[5] = -vectors[9]
    pairs, positives = np.zeros((2, distances.BINS), int)
    for i in range(40):
        for j in range(i):
            cosine = vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j])
            place = min(int(np.sqrt(max(0, 2 - 2 * cosine) + 1e-5) * 500), 999)
            pairs[place] += 1
            positives[place] += labels[i] == labels[j]
    result = distances.histogram(vectors, labels)
    assert result.pairs.sum() == 40 * 39 // 2
    assert np.array_equal(result.pairs, pairs) and np.array_equal(result.positives, positives)
    order = np.random.RandomState(2).permutation(40)
    again = distances.histogram(vectors[order], labels[order])
    assert np.array_equal(again.pairs, pairs) and np.array_equal(again.positives, positives)


@pytest.mark.parametrize("dimension", [3, 8, 64, 512])
def test_the_density_matches_uniform_points(dimension):
    places = distances.centres()
    width = places[1] - places[0]
    chance = distances.density(places, dimension)
    assert chance.sum() * width == pytest.approx(1, abs=1e-3)
    result = distances.histogram(sphere(1500, dimension), np.arange(1500))
    assert result.positives.sum() == 0
    share = result.pairs / result.pairs.sum()
    assert np.abs(np.cumsum(share) - np.cumsum(chance) * width).max() < 0.02


def test_vectors_of_length_zero_are_accepted():
    vectors = np.zeros((3, 4), np.float32)
    assert distances.histogram(vectors, np.zeros(3, int)).pairs.sum() == 3


def test_the_figure_has_one_panel_per_model(tmp_path):
    labels = np.repeat(np.arange(20), 5)
    trained = sphere(20, 16, 1)[labels] + 0.1 * sphere(100, 16, 2)
    models = {"before": sphere(100, 16).astype(np.float32), "after": trained.astype(np.float32)}
    figure = distances.draw(models, labels, png=tmp_path / "a.png", svg=tmp_path / "a.svg")
    assert [axis.get_title() for axis in figure.axes] == ["before", "after"]
    assert all(axis.get_yscale() == "log" for axis in figure.axes)
    assert (tmp_path / "a.png").stat().st_size and (tmp_path / "a.svg").stat().st_size
