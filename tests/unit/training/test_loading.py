import os
import signal

import numpy as np
import torch

from recheck.training.loading import training_batches

STOP = {signal.SIGTERM, signal.SIGINT}


def blocked():
    return STOP & signal.pthread_sigmask(signal.SIG_BLOCK, [])


class Images:
    def image(self, number):
        return np.zeros((2, 2, 3), np.uint8)


def test_signals_to_the_process_group_never_reach_a_worker():
    """Not even while it starts. The parent gets them again afterwards."""
    when_forked = []
    os.register_at_fork(before=lambda: when_forked.append(blocked()))

    def transform(image, generator):
        return torch.tensor(len(blocked()))

    loaded = training_batches(
        Images(), np.arange(2), np.zeros(2, np.int64), [[0], [1]], 0, transform, 0, 0, 1, torch.device("cpu")
    )
    assert [int(seen) for seen, _ in loaded] == [2, 2]
    assert when_forked[0] == STOP
    assert blocked() == set()
