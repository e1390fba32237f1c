"""How much each free setting mattered in a search."""

from collections.abc import Mapping, Sequence
from typing import Any

from recheck.space import parameters
from recheck.tuning.propose import optuna_study
from recheck.tuning.trials import Trial


def importance(search: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, float] | None:
    """The share of each setting in the variance of the objective, by fANOVA; None if the trials do not determine it."""
    free = parameters(search["space"])
    finished = [trial for trial in trials if trial.objective is not None]
    if len(free) < 2 or len({trial.objective for trial in finished}) < 2:
        return None
    import optuna

    shares = optuna.importance.get_param_importances(
        optuna_study(free, finished), evaluator=optuna.importance.FanovaImportanceEvaluator(seed=search["seed"])
    )
    return {parameter.name: float(f"{shares.get(parameter.name, 0.0):.6g}") for parameter in free}
