"""The search for the free settings of a row on one dataset, and the paths of its files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recheck import space as spaces
from recheck.files import canonical

ADAPTIVE = ("gp", "tpe")
TUNING = "<results>/{study}/{dataset}/{row}/tuning"
TRIAL = "<results>/{study}/{dataset}/{row}/trial{trial}"


@dataclass(frozen=True)
class Search:
    """A fixed number of rounds, each with the same number of trials (except the last, if a grid ends earlier).

    Trials are numbered through all rounds. Trial t < ``startup`` is a Sobol point.
    """

    space: Mapping[str, Mapping[str, Any]]
    sampler: str
    rounds: int
    trials: int
    startup: int
    seed: int
    objective: str
    # the number of folds that each trial trains on; None for every member of the row
    folds: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Search | None":
        """The search of a run with these settings; None for a row without free settings."""
        tuning, space = settings.get("tuning"), settings.get("space")
        if not tuning or not space:
            return None
        objective = {**settings["selection"], **tuning.get("objective", {})}
        return cls(
            space,
            tuning["sampler"],
            tuning["rounds"],
            tuning["trials"],
            tuning.get("startup", tuning["trials"]),
            tuning.get("seed", 0),
            f"{objective.get('role', 'val')}_{objective.get('metric')}",
            tuning.get("folds"),
        )

    @property
    def total(self) -> int:
        """The number of trials: rounds × trials, or all points of a smaller grid."""
        planned = self.rounds * self.trials
        return min(planned, self.grid_points) if self.sampler == "grid" else planned

    @property
    def grid_points(self) -> int:
        """The number of points of a grid."""
        return math.prod(len(each.points) for each in spaces.parameters(self.space))

    @property
    def last_round(self) -> int:
        return (self.total - 1) // self.trials

    def round_of(self, trial: int) -> int:
        return trial // self.trials

    def trials_of(self, number: int) -> range:
        """The trials of a round."""
        return range(number * self.trials, min((number + 1) * self.trials, self.total))

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the proposals: not the number of rounds, so that more rounds do not change earlier ones."""
        return canonical(
            {
                "objective": self.objective,
                "sampler": self.sampler,
                "seed": self.seed,
                "space": {name: dict(entry) for name, entry in self.space.items()},
                "startup": self.startup,
                **({} if self.folds is None else {"folds": self.folds}),
            }
        )
