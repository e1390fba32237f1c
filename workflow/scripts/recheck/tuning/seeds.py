"""Seeds of a search, for its proposals and for the training of its trials."""

import numpy as np


def derived_seed(seed: int, *stream: int | str) -> int:
    """A seed for one purpose, from 0 to 2³² − 1."""
    words = [int.from_bytes(word.encode(), "little") if isinstance(word, str) else word for word in stream]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])


def trial_seed(seed: int, trial: int) -> int:
    """The seed of a trial's training: different for every trial, and never one of a study's small seeds.

    So no final run repeats the trial that was selected.
    """
    return 2**32 + derived_seed(seed, "trial", trial)
