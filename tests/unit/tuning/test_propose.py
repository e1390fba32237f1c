"""Proposals are pure, stay inside the space, and find the optimum of a known function."""

import json
import math
import random
import statistics

import numpy as np
import pytest

from recheck import quoted_searches
from recheck.space import parameters
from recheck.tuning.propose import optuna_study, propose, sobol
from recheck.tuning.seeds import trial_seed
from recheck.tuning.trials import FAILED, FINISHED, Trial, round_file
from support.project import ROOT

SPACE = {
    "loss.margin": {"low": -5, "high": 10},
    "loss.scale": {"low": 1e-3, "high": 15, "log": True},
    "model.head.dim": {"values": [8, 16, 32]},
    "sampler.per_class": {"low": 2, "high": 8, "integer": True},
}


def search(sampler, space=SPACE, **changes):
    return {"sampler": sampler, "space": space, "startup": 4, "seed": 0, "objective": "val_MAP@R", **changes}


def value(values):
    return -((values["loss.margin"] - 2) ** 2) - math.log(values["loss.scale"]) ** 2


def finish(proposed, number, failed=()):
    return [
        Trial(trial, number, values, FAILED, reason="no")
        if trial in failed
        else Trial(trial, number, values, FINISHED, value(values), 0.1)
        for trial, values in proposed.items()
    ]


def inside(values):
    assert set(values) == set(SPACE)
    assert -5 <= values["loss.margin"] <= 10 and 1e-3 <= values["loss.scale"] <= 15
    assert values["model.head.dim"] in (8, 16, 32)
    assert values["sampler.per_class"] in range(2, 9) and isinstance(values["sampler.per_class"], int)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gp", "tpe", "sobol"])
def test_the_same_trials_give_the_same_bytes_and_the_next_round_others(sampler):
    first = propose(search(sampler), [], range(4))
    assert first == propose(search("sobol"), [], range(4)), "every search begins with the same points"
    finished = finish(first, 0, failed=[1])
    second = [round_file(1, finished, propose(search(sampler), finished, range(4, 6))) for _ in range(2)]
    assert json.dumps(second[0]) == json.dumps(second[1])
    proposed = [each["values"] for each in second[0]["proposed"]]
    for values in [*first.values(), *proposed]:
        inside(values)
    assert proposed[0] != proposed[1] and not any(values in first.values() for values in proposed)
    assert json.loads(json.dumps(second[0])) == second[0], "values survive a file"


def test_more_rounds_and_another_seed():
    points = sobol(parameters(SPACE), 0, 9)
    assert sobol(parameters(SPACE), 0, 3) == points[:3], "more points do not change the first"
    assert sobol(parameters(SPACE), 1, 3) != points[:3]


def test_startup_points_may_end_within_a_round():
    first = propose(search("tpe"), [], range(3))
    finished = finish(first, 0)
    second = propose(search("tpe"), finished, range(3, 6))
    points = sobol(parameters(SPACE), 0, 6)
    assert second[3] == points[3] and second[4] != points[4]
    for values in second.values():
        inside(values)


def test_a_search_without_any_result_goes_on_with_sobol_points():
    finished = finish(propose(search("gp"), [], range(4)), 0, failed=range(4))
    assert propose(search("gp"), finished, [4, 5]) == dict(zip([4, 5], sobol(parameters(SPACE), 0, 6)[4:], strict=True))


def test_a_failed_trial_is_a_bad_trial_to_the_sampler():
    """Optuna's samplers ignore failed trials, so they would propose the same values again."""
    finished = finish(propose(search("tpe"), [], range(4)), 0, failed=[2])
    told = [trial.value for trial in optuna_study(parameters(SPACE), finished).trials]
    assert told[2] == min(told) == min(trial.objective for trial in finished if trial.objective is not None)
    assert told[3] == finished[3].objective


def test_a_grid_tries_each_point_once_in_any_number_of_rounds():
    space = {"loss.num_bins": {"low": 2, "high": 32, "integer": True}}
    together = propose(search("grid", space), [], range(31))
    assert sorted(values["loss.num_bins"] for values in together.values()) == list(range(2, 33))
    assert propose(search("grid", space), [], range(5, 10)) == {number: together[number] for number in range(5, 10)}


def test_no_trial_shares_a_seed_with_another_or_with_a_final_run():
    seeds = {trial_seed(seed, trial) for seed in range(3) for trial in range(200)}
    assert len(seeds) == 600 and min(seeds) >= 2**32


def branin(values):
    """Branin's function with the opposite sign: three optima of −0.398."""
    x, y = values["x"], values["y"]
    curve = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return -(curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


BRANIN = {"x": {"low": -5, "high": 10}, "y": {"low": 0, "high": 15}}


def published_curve():
    """The published trials of Triplet on CUB as a smooth function of the margin, and its space."""
    searches = quoted_searches.read(ROOT / "resources/published/mlrc_searches")
    (published,) = [each for each in searches if (each.dataset, each.row, each.batch) == ("cub200", "triplet", 32)]
    (margin,) = published.space
    places = np.array([margin.place(trial.values[margin.name]) for trial in published.trials])
    objectives = np.array([trial.objective for trial in published.trials])

    def curve(values):
        weights = np.exp(-(((margin.place(values[margin.name]) - places) / 0.07) ** 2))
        return float(weights @ objectives / weights.sum())

    return curve, {margin.name: {"low": margin.low, "high": margin.high, "log": margin.log}}


def optimised(function, space, sampler, seed, rounds, trials):
    asked, finished = search(sampler, space, seed=seed, startup=trials), []
    for number in range(rounds):
        proposed = propose(asked, finished, range(number * trials, (number + 1) * trials))
        measured = [Trial(t, number, v, FINISHED, function(v), 0.0) for t, v in proposed.items()]
        random.Random(seed).shuffle(measured)  # the order of finishing
        finished = sorted([*finished, *measured], key=lambda trial: trial.trial)
    return max(trial.objective for trial in finished)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "function", "space", "rounds", "trials"),
    [("tpe", branin, BRANIN, 10, 5), ("gp", *published_curve(), 2, 3)],
    ids=["tpe-branin", "gp-published"],
)
def test_a_known_function_is_optimised_at_least_as_well_as_by_sobol_points(sampler, function, space, rounds, trials):
    """In the median of 8 seeds; benchmarks/tuning.py compares all samplers with more trials."""
    medians = {
        name: statistics.median(optimised(function, space, name, seed, rounds, trials) for seed in range(8))
        for name in (sampler, "sobol")
    }
    assert medians[sampler] >= medians["sobol"]
