"""The end of a search: the best trial, and which of its values lie on a bound."""

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
    }
