"""The MLRC benchmark's own numbers, computed by its authors' code and stored as arrays."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from recheck.data.splits import make_split
from recheck.evaluation.clustering import ami, kmeans, nmi
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.reduction import reduce
from recheck.evaluation.views import evaluate_view, normalise
from support.golden.fidelity import compares

GOLDEN = Path(os.environ.get("RECHECK_GOLDEN", Path(__file__).parent))
ROLES = ("train", "val", "test")
RETRIEVAL = ["P@1", "RP", "MAP@R"]
OURS = {
    "precision_at_1": "P@1",
    "r_precision": "RP",
    "mean_average_precision_at_r": "MAP@R",
    "NMI": "NMI",
    "AMI": "AMI",
}


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "mlrc_metrics.npz") as arrays:
        return dict(arrays)


def check(golden, ours, expected, tolerance=1e-9):
    expected = {OURS[str(name)]: value for name, value in zip(golden["metric_names"], expected, strict=True)}
    for name, value in ours.items():
        assert value == pytest.approx(expected[name], abs=tolerance), name


@compares("metric", studies=["mlrc", "mlrc_released"], tolerance="1e-9 (absolute)")
def test_metrics_of_normalised_embeddings(golden):
    check(golden, evaluate(normalise(golden["emb"]), golden["labels"], RETRIEVAL), golden["result"])


def test_metrics_of_raw_embeddings(golden):
    check(golden, evaluate(golden["emb"], golden["labels"], RETRIEVAL), golden["result_raw"])


def test_metrics_with_duplicates(golden):
    embeddings = normalise(golden["emb"])
    embeddings[golden["dup_dst"]] = embeddings[golden["dup_src"]]
    check(golden, evaluate(embeddings, golden["labels"], RETRIEVAL), golden["result_dup"])


def test_clustering_scores_of_given_clusters(golden):
    ours = [score(golden["labels"], golden["kmeans_labels"]) for score in (nmi, ami)]
    np.testing.assert_allclose(ours, golden["kmeans_nmi_ami"], atol=1e-9)


def test_our_clusters_score_about_the_same(golden):
    """On average over five seeds, because one k-means run varies by a few points."""
    embeddings, labels = normalise(golden["emb"]), golden["labels"]
    runs = [kmeans(embeddings, len(np.unique(labels)), seed) for seed in range(5)]
    ours = np.array([[nmi(labels, run), ami(labels, run)] for run in runs])
    np.testing.assert_allclose(ours.mean(axis=0), golden["kmeans_nmi_ami"], atol=0.1)


@compares("metric", studies=["mlrc", "mlrc_released"], tolerance="1e-9 (absolute)")
def test_separated_view(golden):
    ours = evaluate_view("separated", list(golden["fold_emb"]), golden["fold_labels"], RETRIEVAL)
    assert ours["dim"] == golden["fold_emb"].shape[2]
    check(golden, ours["metrics"], golden["fold_separated_mean"])
    for fold, expected in zip(ours["folds"], golden["fold_separated_each"], strict=True):
        check(golden, fold, expected)


@compares("metric", studies=["mlrc", "mlrc_released"], tolerance="1e-9 (absolute)")
def test_concatenated_view(golden):
    ours = evaluate_view("concatenated", list(golden["fold_emb"]), golden["fold_labels"], RETRIEVAL)
    assert ours["dim"] == golden["fold_emb"].shape[0] * golden["fold_emb"].shape[2]
    check(golden, ours["metrics"], golden["fold_concat"])
    careless = golden["fold_concat_wrong_no_prenorm"]
    assert not np.allclose([ours["metrics"][name] for name in RETRIEVAL], careless[:3], atol=1e-4)


def test_pretrained_row(golden):
    features, labels, dimensions = golden["pca_features"], golden["pca_labels"], int(golden["pca_dim"])
    first = normalise(reduce(features, "standardise_pca", dimensions))[:8].astype(np.float64)
    np.testing.assert_allclose(first @ first.T, golden["pca_gram"], atol=1e-5)
    reduction = {"kind": "standardise_pca", "dims": {"concatenated": dimensions}}
    ours = evaluate_view("concatenated", [features] * 4, labels, RETRIEVAL, reduction)
    assert ours["dim"] == dimensions
    check(golden, ours["metrics"], golden["pca_result"])


@pytest.fixture(scope="module")
def splits():
    with np.load(GOLDEN / "mlrc_splits.npz") as arrays:
        return dict(arrays)


def fold_count(splits, name):
    return len({key for key in splits if re.fullmatch(rf"{name}_fold\d+_train_(ranges|indices)", key)})


def values_of(ranges):
    return np.concatenate([np.arange(first, last + 1) for first, last in ranges])


@compares("split", studies=["mlrc", "mlrc_released"], tolerance=0)
def test_folds_of_every_dataset(splits):
    names = sorted({key.split("_fold")[0] for key in splits if key.endswith("_ranges")})
    assert names
    for name in names:
        folds = fold_count(splits, name)
        parts = [values_of(splits[f"{name}_fold0_{role}_ranges"]) for role in ROLES]
        labels = np.sort(np.concatenate(parts))
        made = make_split(labels, {"scheme": "class_disjoint_folds", "folds": folds})
        assert made["classes"] == len(labels)
        for number, fold in enumerate(made["folds"]):
            for role in ROLES:
                key = f"{name}_fold{number}_{role}"
                expected = np.sort(values_of(splits[f"{key}_ranges"]))
                assert np.array_equal(labels[fold[role]], expected), key
                assert len(expected) == splits[f"{key}_count"], key


@compares("split", studies=["mlrc", "mlrc_released"], tolerance=0)
def test_image_numbers_in_dataset_order(splits):
    folds = fold_count(splits, "toy")
    made = make_split(splits["toy_labels"], {"scheme": "class_disjoint_folds", "folds": folds})
    for number, fold in enumerate(made["folds"]):
        for role in ROLES:
            assert fold[role] == splits[f"toy_fold{number}_{role}_indices"].tolist(), (number, role)
