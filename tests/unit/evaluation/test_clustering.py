"""Reproducible k-means, and scores checked by hand."""

import numpy as np
import pytest

from recheck.errors import UserError
from recheck.evaluation import clustering, metrics
from recheck.evaluation.clustering import ami, evaluate, kmeans, kmeans_of_scikit_learn, nmi


def far_apart(classes=5, each=8, d=16, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), each))
    x = 100 * np.eye(classes, d)[labels] + rng.normal(size=(len(labels), d))
    return x.astype(np.float32), labels


def test_a_seed_gives_the_same_clusters_and_another_seed_others():
    x = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    np.testing.assert_array_equal(kmeans(x, 20, seed=3), kmeans(x, 20, seed=3))
    assert (kmeans(x, 20, seed=3) != kmeans(x, 20, seed=4)).any()


def test_each_point_is_with_its_nearest_mean():
    x = np.random.default_rng(1).normal(size=(400, 4)).astype(np.float32)
    result = kmeans(x, 3)
    means = np.stack([x[result == cluster].mean(axis=0) for cluster in range(3)])
    nearest = ((x[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == result).mean() > 0.95, "k-means has nearly converged after twenty iterations"


def test_classes_that_are_clusters_score_higher_than_noise():
    x, labels = far_apart()
    noise = np.random.default_rng(2).normal(size=x.shape)
    clear, unclear = evaluate(x, labels, ["NMI", "AMI"]), evaluate(noise, labels, ["NMI", "AMI"])
    assert clear["NMI"] > 0.8 and clear["AMI"] > 0.8
    assert unclear["NMI"] < 0.5 and abs(unclear["AMI"]) < 0.25


def test_scores_by_hand():
    halves = np.array([0, 0, 1, 1])
    assert nmi(halves, halves[::-1]) == pytest.approx(1)
    assert ami(halves, halves[::-1]) == pytest.approx(1)
    assert nmi(halves, [0, 1, 0, 1]) == pytest.approx(0)
    # entropies: ln 4 (clusters) and ln 2 (classes); mutual information ln 2; means of (1, 2): 3/2 and sqrt 2
    assert nmi(halves, [0, 1, 2, 3]) == pytest.approx(2 / 3)
    assert nmi(halves, [0, 1, 2, 3], "geometric") == pytest.approx(0.5**0.5)


def test_few_images_per_class_print_no_warning(capfd):
    x, labels = far_apart(each=2)
    evaluate(x.astype(np.float64)[:, ::-1], labels, ["NMI"])
    assert capfd.readouterr() == ("", "")


def test_as_many_classes_as_images():
    x, _ = far_apart()
    assert sorted(kmeans(x, len(x))) == list(range(len(x)))
    assert evaluate(x, np.arange(len(x)), ["NMI"])["NMI"] == pytest.approx(1)


def test_nan_is_refused():
    with pytest.raises(UserError, match="NaN"):
        kmeans(np.full((4, 2), np.nan), 2)


GEOMETRIC = {"kmeans": "scikit-learn", "average": "geometric"}


def test_settings_choose_the_kmeans_and_the_average():
    x, labels = far_apart()
    x = x / 20  # so that clusters are not the classes
    ours = kmeans(x, 5, seed=2)
    assert evaluate(x, labels, ["NMI"], 2) == {"NMI": nmi(labels, ours)}
    assert evaluate(x, labels, ["NMI"], 2, {"average": "geometric"}) == {"NMI": nmi(labels, ours, "geometric")}
    peers = kmeans_of_scikit_learn(x, 5, seed=2)
    expected = {"AMI": ami(labels, peers, "geometric"), "NMI": nmi(labels, peers, "geometric")}
    assert evaluate(x, labels, ["AMI", "NMI"], 2, GEOMETRIC) == expected
    assert metrics.evaluate(x, labels, ["R@1", "NMI"], seed=2, clusters=GEOMETRIC)["NMI"] == expected["NMI"]


def test_scikit_learns_clusters():
    x, labels = far_apart()
    assert nmi(labels, kmeans_of_scikit_learn(x, 5)) == pytest.approx(1), "the best of ten finds them all"
    noise = np.random.default_rng(0).normal(size=(300, 16))
    assert (kmeans_of_scikit_learn(noise, 20, 3) == kmeans_of_scikit_learn(noise, 20, 3)).all()
    assert (kmeans_of_scikit_learn(noise, 20, 3) != kmeans_of_scikit_learn(noise, 20, 4)).any()


def test_many_clusters_are_found_on_mini_batches(monkeypatch):
    monkeypatch.setattr(clustering, "MOST_CLUSTERS", 4)
    x, labels = far_apart(each=40)
    result = kmeans_of_scikit_learn(x, 5, 1)
    assert (result == kmeans_of_scikit_learn(x, 5, 1)).all()
    assert nmi(labels, result) > 0.8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kmean": "faiss"}, "did you mean 'kmeans'"),
        ({"average": "harmonic"}, "Unknown value 'harmonic' for clustering setting 'average'"),
    ],
)
def test_unknown_settings(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        evaluate(*far_apart(), ["NMI"], settings=settings)
