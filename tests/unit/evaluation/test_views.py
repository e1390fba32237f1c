"""Views and reductions, compared with their definitions."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from recheck.errors import UserError
from recheck.evaluation.embeddings import read_test_set, write_embeddings
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.reduction import reduce
from recheck.evaluation.views import concatenated, evaluate_view, normalise, separated

NAMES = ["P@1", "RP", "MAP@R", "R@2"]


def folds(count=4, n=90, d=8, classes=9, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    lengths = 10 ** rng.uniform(-1, 1, size=(count, n, 1))
    x = rng.normal(size=(count, classes, d))[:, labels] + rng.normal(size=(count, n, d))
    return list((lengths * x).astype(np.float32)), labels


def test_normalise_gives_length_one_and_leaves_zero():
    x = np.array([[3, 4], [0, 0], [1e-38, 0], [3e38, -3e38]], np.float32)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(normalise(x), [[0.6, 0.8], [0, 0], [1, 0], [half, -half]], rtol=1e-7)
    assert normalise(x).dtype == np.float32
    assert x[0, 0] == 3, "the input is not modified"


def test_normalise_forgets_length():
    x, _ = folds(1)
    np.testing.assert_array_equal(normalise(x[0] * np.float32(0.25)), normalise(x[0]))
    np.testing.assert_allclose(normalise(x[0] * np.float32(17.3)), normalise(x[0]), rtol=3e-7)


def test_separated_is_the_mean_of_the_folds():
    x, labels = folds()
    result = evaluate_view("separated", x, labels, NAMES)
    assert result["dim"] == 8
    assert result["folds"] == [evaluate(normalise(fold), labels, NAMES) for fold in x]
    for name in NAMES:
        assert result["metrics"][name] == pytest.approx(sum(fold[name] for fold in result["folds"]) / 4, abs=1e-15)
    assert separated(x, labels, NAMES) == (result["metrics"], result["folds"])
    assert json.loads(json.dumps(result)) == result


def test_concatenated_gives_every_fold_the_same_weight_in_its_place():
    x, labels = folds()
    joined = concatenated(x)
    for number, fold in enumerate(x):
        np.testing.assert_allclose(joined[:, number * 8 : number * 8 + 8], normalise(fold) / 2, rtol=3e-7)
    result = evaluate_view("concatenated", x, labels, NAMES)
    assert result == {"dim": 32, "metrics": evaluate(joined, labels, NAMES), "warnings": []}
    careless = evaluate(normalise(np.concatenate(x, axis=1)), labels, NAMES)
    assert result["metrics"] != careless


@pytest.mark.parametrize(("n", "d"), [(60, 20), (15, 20)])
def test_pca_agrees_with_scikit_learn(n, d):
    x = (np.random.default_rng(0).normal(size=(n, d)) @ np.diag(np.arange(1.0, d + 1))).astype(np.float32)
    for kind, prepared in {"pca": x, "standardise_pca": StandardScaler().fit_transform(x.astype(np.float64))}.items():
        theirs = PCA(6, svd_solver="full").fit_transform(prepared.astype(np.float64))
        ours = reduce(x, kind, 6)
        signs = np.sign((ours * theirs).sum(axis=0))
        np.testing.assert_allclose(ours, theirs * signs, atol=1e-4)
        assert ours.dtype == np.float32


def test_constant_features_do_not_matter():
    x = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    constant = np.concatenate([x, np.full((50, 2), 0.1, np.float32)], axis=1)
    for kind in ("pca", "standardise_pca"):
        np.testing.assert_allclose(reduce(constant, kind, 3), reduce(x, kind, 3), atol=1e-5)


def test_direction_of_components_is_fixed():
    x = np.random.default_rng(0).normal(size=(50, 6))
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_allclose(reduce(x[order], "pca", 4), reduce(x, "pca", 4)[order], atol=1e-6)


def test_random_linear_keeps_distances_roughly_and_follows_its_seed():
    x = np.random.default_rng(0).normal(size=(30, 400))
    reduced = reduce(x, "random_linear", 2000, seed=5)
    before = np.linalg.norm(x[0] - x[1:], axis=1) / 20
    after = np.linalg.norm(reduced[0] - reduced[1:], axis=1) / np.sqrt(2000)
    np.testing.assert_allclose(after, before, rtol=0.15)
    np.testing.assert_array_equal(reduce(x, "random_linear", 2000, seed=5), reduced)
    assert (reduce(x, "random_linear", 2000, seed=6) != reduced).any()


def test_reduction_has_a_dimension_for_each_view_and_copies_of_a_network_count_once():
    (x,), labels = folds(1, d=40)
    reduction = {"kind": "standardise_pca", "dims": {"separated": 5, "concatenated": 20}}
    small = evaluate_view("separated", [x] * 4, labels, NAMES, reduction)
    large = evaluate_view("concatenated", [x] * 4, labels, NAMES, reduction)
    assert (small["dim"], large["dim"]) == (5, 20)
    assert small["metrics"] == evaluate(normalise(reduce(x, "standardise_pca", 5)), labels, NAMES)
    assert large["metrics"] == evaluate(normalise(reduce(x, "standardise_pca", 20)), labels, NAMES)


def test_reduction_of_different_networks_sees_them_all():
    x, labels = folds(2, d=12)
    result = evaluate_view("concatenated", x, labels, NAMES, {"kind": "pca", "dims": {"concatenated": 16}})
    assert result["dim"] == 16
    assert result["metrics"] == evaluate(normalise(reduce(np.concatenate(x, axis=1), "pca", 16)), labels, NAMES)


def test_seed_reaches_clustering_and_random_projection():
    x, labels = folds(1, d=40)
    reduction = {"kind": "random_linear", "dims": {"separated": 5}}
    results = [evaluate_view("separated", x, labels, ["NMI"], reduction, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("kind", "dimensions", "sentence"),
    [
        ("pca", 9, "'reduction.dims' must be at most 8 for 90 embeddings of 8 dimensions, found 9"),
        ("pca", 0, "'reduction.dims' must be at least 1, found 0"),
        ("pcaa", 2, "Unknown reduction 'pcaa'; did you mean 'pca'"),
    ],
)
def test_impossible_reductions_are_refused(kind, dimensions, sentence):
    with pytest.raises(UserError, match=sentence):
        reduce(folds(1)[0][0], kind, dimensions)


def test_impossible_views_are_refused():
    x, labels = folds()
    with pytest.raises(UserError, match="Unknown view 'seperated'; did you mean 'separated'"):
        evaluate_view("seperated", x, labels, NAMES)
    with pytest.raises(UserError, match="same 90 test images, found 90, 89 test embeddings"):
        evaluate_view("separated", [x[0], x[1][:-1]], labels, NAMES)
    with pytest.raises(UserError, match="same 90 test images, found no test embeddings"):
        evaluate_view("concatenated", [], labels, NAMES)


EPOCHS = ("best_on_test", "last_epoch")


def test_views_of_epochs_are_concatenated_embeddings_of_these_epochs():
    x, labels = folds()
    for view in EPOCHS:
        assert evaluate_view(view, x, labels, NAMES) == evaluate_view("concatenated", x, labels, NAMES)
        assert evaluate_view(view, x[:1], labels, NAMES) == {
            "dim": 8,
            "metrics": evaluate(normalise(normalise(x[0])), labels, NAMES),
            "warnings": [],
        }


def test_best_on_test_of_an_ensemble_uses_the_best_first_members():
    x, labels = folds(5)
    noise = np.random.default_rng(1).normal(size=(2, 90, 8)).astype(np.float32)
    members = [*x[:3], *noise]
    result = evaluate_view("best_on_test", members, labels, NAMES, select="MAP@R")
    values = [evaluate(concatenated(members[:count]), labels, ["MAP@R"])["MAP@R"] for count in range(1, 6)]
    assert max(values) > max(values[0], values[-1]), "there is nothing to select"
    assert result["members"] == values.index(max(values)) + 1 == 3
    assert result["dim"] == 24
    assert result["metrics"] == evaluate(concatenated(members[:3]), labels, NAMES)
    assert json.loads(json.dumps(result)) == result
    # Of equal members the first is enough; a single member and the last epoch have no selection.
    assert evaluate_view("best_on_test", [x[0]] * 3, labels, NAMES, select="P@1")["members"] == 1
    assert "members" not in evaluate_view("best_on_test", x[:1], labels, NAMES, select="P@1")
    assert evaluate_view("last_epoch", members, labels, NAMES, select="MAP@R")["dim"] == 40


def test_embeddings_can_stay_unnormalised():
    x, labels = folds(2)
    raw = evaluate_view("concatenated", x, labels, NAMES, unit=False)
    assert raw["metrics"] == evaluate(np.concatenate(x, axis=1), labels, NAMES)
    assert raw["metrics"] != evaluate_view("concatenated", x, labels, NAMES)["metrics"]
    assert evaluate_view("separated", x, labels, NAMES, unit=False)["folds"] == [
        evaluate(fold, labels, NAMES) for fold in x
    ]


@pytest.mark.parametrize("view", ["separated", "concatenated", *EPOCHS])
def test_queries_search_the_gallery(view):
    x, labels = folds(2)
    joined = [normalise(fold) for fold in x] if view == "separated" else [concatenated(x)]
    each = [evaluate(rows[:30], labels[:30], NAMES, rows[30:], labels[30:]) for rows in joined]
    result = evaluate_view(view, x, labels, NAMES, gallery=60)
    assert result["metrics"] == {name: np.mean([entry[name] for entry in each]) for name in NAMES}
    assert result["metrics"] != evaluate_view(view, x, labels, NAMES)["metrics"]


def test_a_reduction_is_fitted_on_queries_and_gallery():
    (x,), labels = folds(1, d=40)
    reduction = {"kind": "pca", "dims": {"concatenated": 5}}
    rows = normalise(normalise(reduce(x, "pca", 5)))
    result = evaluate_view("last_epoch", [x], labels, NAMES, reduction, gallery=60)
    expected = evaluate(rows[:30], labels[:30], NAMES, rows[30:], labels[30:])
    assert result == {"dim": 5, "metrics": expected, "warnings": []}


def test_clustering_settings_are_passed_on(monkeypatch):
    x, labels = folds(1)
    asked = []

    def cluster(embeddings, labels, metrics, seed=0, settings=None):
        asked.append((len(embeddings), len(labels), seed, settings))
        return dict.fromkeys(metrics, 0.25)

    monkeypatch.setattr("recheck.evaluation.clustering.evaluate", cluster)
    settings = {"kmeans": "scikit-learn", "average": "geometric"}
    result = evaluate_view("concatenated", x, labels, ["NMI", "P@1", "AMI"], seed=3, gallery=60, clusters=settings)
    assert list(result["metrics"]) == ["NMI", "P@1", "AMI"]
    assert result["metrics"]["NMI"] == 0.25
    assert asked == [(30, 30, 3, settings)]


def test_embeddings_of_a_test_set_come_from_the_roles_of_the_split(tmp_path):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    split = {"train": np.array([0]), "query": np.array([4, 1]), "gallery": np.array([2, 3, 5])}
    path = tmp_path / "e.safetensors"
    write_embeddings(path, {"query": rows[:2], "gallery": rows[2:]})
    result = read_test_set(path, split)
    assert result.images.tolist() == [4, 1, 2, 3, 5] and result.gallery == 3
    np.testing.assert_array_equal(result.embeddings, rows)
    np.testing.assert_array_equal(read_test_set(path, split, "best_on_test").embeddings, rows)
    best = {f"best_on_test/{role}": -piece for role, piece in (("query", rows[:2]), ("gallery", rows[2:]))}
    write_embeddings(path, {"query": rows[:2], "gallery": rows[2:], **best})
    np.testing.assert_array_equal(read_test_set(path, split).embeddings, rows)
    np.testing.assert_array_equal(read_test_set(path, split, "best_on_test").embeddings, -rows)
    with pytest.raises(UserError, match="has no embeddings of 'test': delete it and run again"):
        read_test_set(path, {"test": np.arange(5)})
