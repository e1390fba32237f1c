"""Queries of seen and unseen classes: metrics, chance and errors."""

import math
from itertools import combinations

import numpy as np
import pytest

from recheck.errors import UserError
from recheck.evaluation.query_sets import chance, findings, query_sets
from recheck.evaluation.sanity import is_at_chance
from recheck.evaluation.views import normalise
from recheck.names import CALIBRATED, QUERY_VIEWS, check_query_metrics
from support.project.studies import FILES, own_study, shipped

METRICS = ["R@1", "R@2", "R@4", *CALIBRATED]


@pytest.fixture
def case():
    """Five classes with three indexed images and four queries each; classes 3 and 4 are unseen."""
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(5), 7)
    place = np.tile(np.arange(7), 5)
    split = {
        "index": np.flatnonzero(place < 3),
        "seen_queries": np.flatnonzero((place >= 3) & (labels < 3)),
        "unseen_queries": np.flatnonzero((place >= 3) & (labels >= 3)),
    }
    centres = generator.normal(size=(5, 6))
    rows = (3 * (centres[labels] + generator.normal(size=(35, 6)))).astype(np.float32)
    return {role: rows[images] for role, images in split.items()}, split, labels


def slow(embeddings, split, labels, role):
    """Metrics by loops over queries and thresholds."""
    unit = {name: normalise(rows).astype(np.float64) for name, rows in embeddings.items()}
    near, hits = [], dict.fromkeys((1, 2, 4), 0)
    for query, image in zip(unit[role], split[role], strict=True):
        distances = sorted((1 - query @ other, number) for number, other in enumerate(unit["index"]))
        order = [labels[split["index"][number]] == labels[image] for _, number in distances]
        near.append((distances[0][0], order[0]))
        for k in hits:
            hits[k] += any(order[:k])
    best = (-1.0,)
    for threshold, _ in near:
        tp = sum(right and distance <= threshold for distance, right in near)
        fp = sum(not right and distance <= threshold for distance, right in near)
        fn = sum(right for _, right in near) - tp
        f1 = 2 * tp / (2 * tp + fp + fn) if tp else 0.0
        best = max(best, (f1, threshold, tp / (tp + fp) if tp else 0.0, tp / (tp + fn) if tp else 0.0))
    return {f"R@{k}": count / len(near) for k, count in hits.items()}, best


@pytest.mark.parametrize("role", QUERY_VIEWS)
def test_metrics_agree_with_loops(case, role):
    values = query_sets(*case, METRICS)[role].metrics(METRICS)
    recalls, (f1, distance, precision, recall) = slow(*case, role)
    assert {name: values[name] for name in recalls} == recalls
    assert values["F1"] == pytest.approx(f1)
    assert values["distance"] == pytest.approx(distance, abs=1e-6)
    assert (values["precision"], values["recall"]) == (pytest.approx(precision), pytest.approx(recall))
    assert list(values) == METRICS


def test_each_set_is_calibrated_on_itself(case):
    sets = query_sets(*case, METRICS)
    seen, unseen = (sets[role].as_json() for role in QUERY_VIEWS)
    assert seen["distance"] != unseen["distance"]
    assert (seen["queries"], unseen["queries"]) == (12, 8)
    # other queries in one set do not change the other set
    embeddings, split, labels = case
    changed = {**embeddings, "unseen_queries": embeddings["unseen_queries"][::-1].copy()}
    assert query_sets(changed, split, labels, METRICS)["seen_queries"].as_json() == seen


def test_length_and_order_of_the_index_do_not_matter(case):
    embeddings, split, labels = case
    order = np.random.default_rng(0).permutation(len(split["index"]))
    other = {**embeddings, "index": 7 * embeddings["index"][order]}
    moved = {**split, "index": split["index"][order]}
    for role in QUERY_VIEWS:
        one, two = (query_sets(*inputs, METRICS)[role].metrics(METRICS) for inputs in (case, (other, moved, labels)))
        assert one == pytest.approx(two, abs=1e-6)


def test_legacy_takes_the_largest_distance(case):
    for queries in query_sets(*case, METRICS, "legacy").values():
        values = queries.metrics(METRICS)
        assert values["recall"] == 1
        assert values["precision"] == values["binary_accuracy"] == values["R@1"]
        assert values["distance"] == pytest.approx(queries.closest.distances[:, 0].max(), abs=1e-7)


def test_chance_is_the_share_of_all_orders(case):
    """Computed from all ways to choose k images of the index."""
    _, split, labels = case
    places = labels[split["index"]]
    for k in (1, 2, 4):
        hits = [any(places[list(chosen)] == 0) for chosen in combinations(range(len(places)), k)]
        assert chance(split, labels, [f"R@{k}"])["seen_queries"][f"R@{k}"] == pytest.approx(np.mean(hits))


def test_chance_of_the_published_benchmark():
    """10 of 1,960 indexed images have a query's class."""
    labels = np.repeat(np.arange(196), 20)
    place = np.tile(np.arange(20), 196)
    split = {
        "index": np.flatnonzero(place < 10),
        "seen_queries": np.flatnonzero((place >= 10) & (labels < 98)),
        "unseen_queries": np.flatnonzero((place >= 10) & (labels >= 98)),
    }
    values = chance(split, labels, ["R@1", "R@2", "R@4", "R@8", "F1"])["unseen_queries"]
    published = {"R@1": 0.00510, "R@2": 0.01018, "R@4": 0.02027, "R@8": 0.04017}
    assert values == pytest.approx(published, abs=5e-6)


@pytest.mark.parametrize(("right", "at_chance"), [(5, True), (8, True), (10, True), (13, False), (300, False)])
def test_the_published_results_are_at_chance(right, at_chance):
    """5 to 10 of its 980 queries are right; 5 are expected by chance."""
    assert is_at_chance(right / 980, np.full(980, 10 / 1960)) is at_chance


def test_an_untrained_network_is_detected(case):
    embeddings, split, labels = case
    assert findings(query_sets(*case, METRICS), *case) == {name: [] for name in QUERY_VIEWS}
    generator = np.random.default_rng(0)
    noise = {role: generator.normal(size=rows.shape).astype(np.float32) for role, rows in embeddings.items()}
    warnings = findings(query_sets(noise, split, labels, METRICS), noise, split, labels)
    assert [[finding["check"] for finding in warnings[name]] for name in QUERY_VIEWS] == [["chance"], ["chance"]]
    assert "R@1 (seen queries) is" in warnings["seen_queries"][0]["text"]
    assert "no better than chance: a random order has 20.00 ±" in warnings["seen_queries"][0]["text"]
    flat = {role: np.ones_like(rows) for role, rows in embeddings.items()}
    warnings = findings(query_sets(flat, split, labels, METRICS), flat, split, labels)
    assert "collapsed" in {finding["check"] for finding in warnings["unseen_queries"]}


def test_a_class_without_indexed_images_is_never_found():
    split = {"index": [0, 1], "seen_queries": [2], "unseen_queries": [3]}
    values = chance(split, np.array([0, 0, 0, 1]), ["R@1"])
    assert values == {"seen_queries": {"R@1": 1.0}, "unseen_queries": {"R@1": 0.0}}


def test_more_neighbours_than_indexed_images_are_refused(case):
    with pytest.raises(UserError, match="R@99 needs 99 neighbours per query"):
        query_sets(*case, ["R@99"])["seen_queries"].metrics(["R@99"])


def test_unknown_query_metrics_are_refused():
    with pytest.raises(UserError, match="Unknown metric 'MAP@R'"):
        check_query_metrics(["R@1", "MAP@R"])
    with pytest.raises(UserError, match=r"Unknown metric 'precison' .*did you mean 'precision'"):
        check_query_metrics(["precison"])


def test_a_missing_role_is_named(case):
    embeddings, split, labels = case
    with pytest.raises(UserError, match="Found no embeddings of 'unseen_queries'"):
        query_sets({k: v for k, v in embeddings.items() if k != "unseen_queries"}, split, labels, METRICS)


def test_metrics_are_finite_if_no_query_is_right(case):
    embeddings, split, labels = case
    wrong = labels.copy()
    wrong[split["seen_queries"]] = 99
    values = query_sets(embeddings, split, wrong, METRICS)["seen_queries"].metrics(METRICS)
    assert values["F1"] == values["R@4"] == 0
    assert all(map(math.isfinite, values.values()))


# Studies


def changed(tmp_path, **changes):
    lines = ["base: calibration_tiny", "title: Mine", *(f"{key}: {value}" for key, value in changes.items())]
    return own_study(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"views": "[seen_queries, concatenated]"},
            "the view 'seen_queries' cannot be combined with 'concatenated'. Use only seen_queries and unseen_queries,",
        ),
        (
            {"protocol": "{split: {scheme: class_halves}}"},
            "needs 'split: {scheme: seen_unseen, …}', found 'class_halves'.",
        ),
        ({"protocol": "{evaluation: {metrics: [R@1, NMI], table: [R@1]}}"}, "Unknown metric 'NMI'"),
        (
            {"protocol": "{evaluation: {table: [R@16]}}"},
            "'evaluation.table' names 'R@16', which is not in 'evaluation.metrics'",
        ),
        ({"methods": "{circle_loss: {members: 2}}"}, "'members' must be 1, found 2"),
        ({"baseline": "corected"}, "'baseline': unknown row 'corected'"),
        (
            {"methods": "{circle_loss: {evaluation: {calibration: best}}}"},
            "'methods.circle_loss.evaluation.calibration'",
        ),
    ],
)
def test_studies_that_cannot_be_calibrated(tmp_path, changes, sentence):
    with pytest.raises(UserError, match="mine.yaml.*" + sentence.replace("{", r"\{").replace("}", r"\}")):
        changed(tmp_path, **changes)


def test_the_study_is_the_published_protocol():
    study = shipped("calibration")
    settings = study.run("cars196", "multi_similarity").settings
    assert settings["split"] == {"scheme": "seen_unseen", "index_shots": 10, "query_shots": 10}
    assert settings["transforms"]["resize"] == {"fit": [360, 360]}
    assert settings["model"]["head"]["dim"] == 256
    assert settings["sampler"]["batch"] == 128 and settings["sampler"]["batches"] == 48
    assert settings["optimisers"]["head"]["lr"] == 1e-4
    assert study.run("cars196", "circle_loss").settings["optimisers"]["head"]["lr"] == 1e-3
    for method in ("circle_loss", "multi_similarity", "pn_loss_semi"):
        assert study.run("cars196", method).settings["schedule"]["epochs"] == 10


def test_triplets_differ_only_in_their_negatives():
    study = shipped("calibration")
    losses = [
        dict(study.run("cars196", f"triplet_{name}").settings["loss"]) for name in ("hard", "semi", "easy", "soft")
    ]
    assert [loss.pop("negative_mining") for loss in losses] == ["hard", "semi-hard", "easy", "semi-hard"]
    assert losses[3].pop("soft_margin") is True
    assert losses[:3] == [{**losses[3], "margin": 0.1}] * 3


def test_every_fault_changes_one_thing():
    """Each fault row differs from the corrected row only in what its name says."""
    study = shipped("calibration_faults")
    corrected = study.run("emoji", "corrected").settings
    where = {
        "scaled_twice": {"model"},
        "legacy_loss": {"loss"},
        "unbalanced": {"sampler"},
        "largest_distance": {"evaluation"},
    }
    for method, keys in where.items():
        settings = study.run("emoji", method).settings
        assert {key for key in corrected if settings.get(key) != corrected[key]} == keys
        assert settings["schedule"]["steps_per_epoch"] == 40, "otherwise the length of a sampler's pass would decide"
        assert settings["sampler"]["batch"] == corrected["sampler"]["batch"]
    twice = study.run("emoji", "scaled_twice").settings["model"]["backbone"]
    assert twice == {**corrected["model"]["backbone"], "input_scale": 1 / 255}
    fresh, rounded = (study.run("emoji", method).settings for method in ("fresh_weights", "fresh_rounded"))
    assert rounded["model"] == {**fresh["model"], "pooling": {**fresh["model"]["pooling"], "maths": "legacy"}}
    assert study.run("emoji", "all_faults").settings["model"]["pooling"] == rounded["model"]["pooling"]
    # the legacy loss differs only in its sums: lambda 1 without a centre equals lambda 0 with centre 1
    legacy = study.run("emoji", "legacy_loss").settings["loss"]
    assert legacy == {**corrected["loss"], "lmda": 1.0, "maths": "legacy"}


@pytest.mark.parametrize("study", FILES.studies)
def test_every_study_of_the_project_can_be_read(study):
    """A change of a base study can make a study based on it contradictory."""
    assert shipped(study).rows
