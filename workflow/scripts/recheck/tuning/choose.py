"""The end of a search: the best trial, which of its values lie on a bound, and how much each setting mattered."""

from collections.abc import Mapping, Sequence
from typing import Any

from recheck.errors import UserError
from recheck.space import parameters
from recheck.tuning.trials import Trial, best


def choose(search: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, Any]:
    """The content of best.json: the trial with the highest mean over folds, and what it took to find it."""
    chosen = best(trials)
    if chosen is None:
        raise UserError(
            f"All {len(trials)} trials failed; the first: {trials[0].reason} Change 'space' or the row's settings, and "
            "run again."
        )
    free = parameters(search["space"])
    return {
        "trial": chosen.trial,
        "round": chosen.round,
        "values": chosen.values,
        "metric": search["objective"],
        "objective": chosen.objective,
        "standard_error": chosen.standard_error,
        "on_bound": [each.name for each in free if each.on_bound(chosen.values[each.name])],
        "trials": len(trials),
        "failed": sum(trial.objective is None for trial in trials),
        "importance": importance(search, trials),
    }


def importance(search: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, float] | None:
    """The share of each setting in the variance of the objective, by fANOVA; None if the trials cannot tell."""
    free = parameters(search["space"])
    finished = [trial for trial in trials if trial.objective is not None]
    if len(free) < 2 or len(finished) < 2 or len({trial.objective for trial in finished}) < 2:
        return None
    import optuna

    from recheck.tuning.propose import optuna_study

    shares = optuna.importance.get_param_importances(
        optuna_study(free, finished), evaluator=optuna.importance.FanovaImportanceEvaluator(seed=search["seed"])
    )
    return {parameter.name: float(f"{shares.get(parameter.name, 0.0):.6g}") for parameter in free}
