"""Steps, evaluations and images of a run, against the samplers and the engine's rules."""

import numpy as np
import pytest

from recheck.cost.sizes import Sizes
from recheck.cost.steps import PASSES, courses, evaluations, fewest_epochs
from recheck.methods.samplers import build_sampler
from recheck.methods.samplers.passes import draw_pass
from recheck.parts import KINDS

SAMPLERS = [
    {"class": "Shuffled", "batch": 7},
    {"class": "Shuffled", "batch": 7, "last": "rollover"},
    {"class": "MPerClass", "batch": 8, "per_class": 3, "length": 100},
    {"class": "MPerClass", "batch": 8, "per_class": 4, "length": 10},
    {"class": "BalancedRounds", "batch": 12},
    {"class": "BalancedRounds", "batch": 16, "per_class": 2, "classes": 12},
    {"class": "RandomClassGroups", "batch": 12, "tries": 3},
    {"class": "RandomClassGroups", "batch": 8, "per_class": 2, "tries": 5, "cap": 7},
    {"class": "BalancedClasses", "batch": 8, "per_class": 2, "batches": 5},
    {"class": "Pairs", "batch": 8, "batches": 4},
    {"class": "Episodes", "batch": 12, "classes": 3, "supports": 2, "queries": 2, "batches": 6},
    {"class": "Hierarchical", "batch": 8, "per_class": 2, "batches": 10},
    {"class": "Hierarchical", "batch": 8, "per_class": 2, "batches": 10, "cap": 6},
]


@pytest.mark.parametrize("spec", SAMPLERS, ids=lambda spec: "-".join(map(str, spec.values())))
def test_a_pass_has_as_many_steps_as_the_sampler_draws(spec):
    labels = np.repeat(np.arange(20), 9)
    sampler = build_sampler(spec, labels, np.where(labels % 2, "odd", "even"))
    passes = [len(draw_pass(sampler, number, np.random.RandomState)) for number in range(7)]
    assert PASSES[spec["class"]](spec, len(labels), 20) == pytest.approx(np.mean(passes), abs=0.2)


def test_every_sampler_of_recheck_is_known():
    assert set(PASSES) == {name for names in KINDS["sampler"].values() for name in names}


def evaluated(schedule, last):
    """Epochs that the engine evaluates in a run that ends after ``last``."""
    every = schedule["evaluate_every"]
    return [epoch for epoch in range(last + 1) if epoch == schedule["epochs"] or epoch % every == 0]


@pytest.mark.parametrize("every", [1, 2, 5, 20])
@pytest.mark.parametrize("patience", [None, 0, 9, 14, 39, 500])
def test_early_stopping_and_evaluations_follow_the_engine(every, patience):
    schedule = {"epochs": 103, "evaluate_every": every, "patience": patience}
    late = [epoch for epoch in evaluated(schedule, 103) if patience is not None and epoch > patience]
    fewest = fewest_epochs(schedule, {"role": "val", "metric": "P@1"})
    assert fewest == min([*late, 103])
    for last in (fewest, 103):
        assert evaluations(schedule, last) == len(evaluated(schedule, last))
    assert fewest_epochs(schedule, {}) == 103


def settings(**changes):
    return {
        "sampler": {"class": "Shuffled", "batch": 10},
        "schedule": {"epochs": 6, "evaluate_every": 3, "warm_up": {"epochs": 2}},
        "selection": {"role": "test", "metric": "R@1", "watch": {"train": ["R@1"]}},
        "evaluation": {"distances": "train"},
        "forward": {"class": "MultiView", "passes": 4, "masks": 1, "dropout": 0.1},
        **changes,
    }


def test_a_run_sees_its_steps_evaluations_and_embeddings():
    course, longest = courses(settings(), Sizes({"train": 100, "query": 30, "gallery": 20}, 5, True), True)
    assert course == longest
    assert (course.steps, course.warm, course.batch, course.passed) == (60, 20, 10, 40)
    assert course.evaluated == 3 * (100 + 50)  # epochs 0, 3 and 6, on training and test images
    assert course.embedded == 2 * 50 + 100  # two checkpoints, and the training images once
    assert course.loaded == 600 + course.evaluated
    untrained, _ = courses(settings(evaluation={}), Sizes({"train": 100, "test": 50}, 5, True), False)
    assert (untrained.steps, untrained.evaluated, untrained.embedded) == (0, 0, 50)


def test_steps_of_a_users_own_sampler_are_known_only_by_the_schedule():
    sizes, sampler = Sizes({"train": 100, "test": 50}, 5, True), {"class": "mine:Sampler", "batch": 10}
    for wrong in (
        sampler,
        {"class": "MPerClass", "batch": 8},
        {"class": "MPerClass", "batch": 8, "per_class": "x", "length": 9},
    ):
        assert courses(settings(sampler=wrong), sizes, True) is None
    schedule = {"epochs": 2, "steps_per_epoch": 7, "evaluate_every": 1}
    assert courses(settings(sampler=sampler, schedule=schedule), sizes, True)[0].steps == 14
    assert courses(settings(), None, True) is None
