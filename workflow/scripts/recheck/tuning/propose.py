"""Proposals: a pure function of the search's settings and of all finished trials, in the order of their numbers.

Every round builds its own sampler from a seed, so nothing depends on what ran before, on the order in which trials
finish, or on a database. The first trials are Sobol points; searches with the same seed and the same number of
parameters start from the same points.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recheck.space import Parameter, grid, parameters
from recheck.tuning.seeds import derived_seed
from recheck.tuning.trials import Trial

Values = dict[str, Any]


def propose(search: Mapping[str, Any], finished: Sequence[Trial], numbers: Sequence[int]) -> dict[int, Values]:
    """The values of the trials with these numbers, which run side by side; ``finished`` are all earlier trials."""
    free = parameters(search["space"])
    if search["sampler"] == "grid":
        points = grid(free)
        order = np.random.RandomState(derived_seed(search["seed"], "grid")).permutation(len(points))
        return {number: points[order[number]] for number in numbers}
    known = any(trial.objective is not None for trial in finished)
    adaptive = search["sampler"] != "sobol" and known
    started = [number for number in numbers if not adaptive or number < search["startup"]]
    points = sobol(free, search["seed"], max(started, default=-1) + 1)
    proposed = {number: points[number] for number in started}
    remaining = [number for number in numbers if number not in proposed]
    if remaining:
        values = _ask(search, free, finished, list(proposed.values()), remaining)
        proposed |= dict(zip(remaining, values, strict=True))
    return proposed


def sobol(free: Sequence[Parameter], seed: int, count: int) -> list[Values]:
    """The first points of a scrambled Sobol sequence; more points do not change the first ones."""
    from scipy.stats import qmc

    if not count:
        return []
    places = qmc.Sobol(len(free), scramble=True, rng=derived_seed(seed, "sobol")).random_base2((count - 1).bit_length())
    return [
        {parameter.name: parameter.at(place) for parameter, place in zip(free, row, strict=True)}
        for row in places[:count].tolist()
    ]


def _ask(
    search: Mapping[str, Any],
    free: Sequence[Parameter],
    finished: Sequence[Trial],
    running: Sequence[Values],
    numbers: Sequence[int],
) -> list[Values]:
    """The proposals of one of Optuna's adaptive samplers; ``running`` are trials of the same round."""
    study = optuna_study(free, finished, running, _sampler(search, numbers[0]))
    distributions = {parameter.name: _distribution(parameter) for parameter in free}
    proposals = []
    for _ in numbers:
        params = study.ask(distributions).params
        proposals.append({parameter.name: parameter.rounded(params[parameter.name]) for parameter in free})
    return proposals


def optuna_study(
    free: Sequence[Parameter], finished: Sequence[Trial], running: Sequence[Values] = (), sampler: Any = None
) -> Any:
    """An Optuna study in memory with these trials; a failed trial counts as the worst finished one.

    Optuna's samplers ignore failed trials, so they would try the same values again.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {parameter.name: _distribution(parameter) for parameter in free}
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min(trial.objective for trial in finished if trial.objective is not None)
    for trial in finished:
        value = worst if trial.objective is None else trial.objective
        study.add_trial(optuna.trial.create_trial(params=trial.values, value=value, distributions=distributions))
    for values in running:
        unfinished = {"state": optuna.trial.TrialState.RUNNING, "params": values}
        study.add_trial(optuna.trial.create_trial(**unfinished, distributions=distributions))
    return study


def _sampler(search: Mapping[str, Any], first: int) -> Any:
    """A fresh sampler for the round that begins with this trial."""
    import optuna

    seed = derived_seed(search["seed"], search["sampler"], first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if search["sampler"] == "tpe":
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True)
        import torch

        torch.set_num_threads(1)  # another number of threads may change the last digits
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=0, deterministic_objective=False)


def _distribution(parameter: Parameter) -> Any:
    from optuna import distributions

    if parameter.values:
        return distributions.CategoricalDistribution(parameter.values)
    if parameter.integer:
        return distributions.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log)
