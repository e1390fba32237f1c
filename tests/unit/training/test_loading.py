"""Loader processes: protected from signals, and without influence on batches and embeddings."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch

from recheck.errors import UserError
from recheck.training.device import autocast
from recheck.training.loading import Batches, Loading, Task, embed, loader_processes
from support.suite.hang import children_end

CPU = torch.device("cpu")
STOP = {signal.SIGTERM, signal.SIGINT}


def blocked():
    return STOP & signal.pthread_sigmask(signal.SIG_BLOCK, [])


class Images:
    def image(self, number):
        return np.full((2, 2, 3), number, np.uint8)


def test_signals_to_the_process_group_never_reach_a_worker():
    """Not even while it starts. The parent gets them again afterwards."""
    when_forked = []
    os.register_at_fork(before=lambda: when_forked.append(blocked()))

    def transform(image, generator):
        return torch.tensor(len(blocked()))

    tasks = [Task(np.array([0])), Task(np.array([1]))]
    with Batches(Loading(Images(), transform), tasks, 1, CPU) as batches:
        assert [int(seen) for seen, _ in batches] == [2, 2]
    assert when_forked[0] == STOP
    assert blocked() == set()


def noisy(image, generator):
    return torch.from_numpy(image)[0] + torch.randint(100, (), generator=generator, dtype=torch.uint8)


class Mean(torch.nn.Module):
    def forward(self, pixels):
        return pixels.float().mean((1, 2))[:, None]


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_and_embeddings_are_the_same_for_any_number_of_workers(workers):
    """Also if the transform is random, in training and in an evaluation."""
    numbers = np.random.RandomState(0).permutation(50)
    tasks = [Task(numbers[:4], np.arange(4), 7), Task(numbers[4:9]), Task(numbers[9:11], np.arange(2), 8)]
    loaded, rows = [], []
    for count in (0, workers):
        with Batches(Loading(Images(), noisy, noisy, seed=1, fold=2), iter(tasks), count, CPU) as batches:
            loaded.append([pixels.tolist() for pixels, _ in batches])
        rows.append(embed(Mean(), Images(), numbers, noisy, 8, CPU, autocast(CPU, "float32"), workers=count))
    assert loaded[0] == loaded[1]
    assert np.array_equal(*rows) and rows[0].shape == (50, 1)
    one_by_one = embed(Mean(), Images(), numbers[::-1], noisy, 1, CPU, autocast(CPU, "float32"))
    assert np.array_equal(one_by_one[::-1], rows[0]), "an image's transform depends on its number only"


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_a_transform_arrives_with_its_batch_as_one_sentence(workers):
    def picky(image, generator):
        if image[0, 0, 0] == 3:
            raise UserError("Image 3 is too dark.")
        return torch.from_numpy(image)

    tasks = [Task(np.array([number])) for number in range(10)]
    with Batches(Loading(Images(), picky), tasks, workers, CPU) as batches:
        for _ in range(3):
            next(batches)
        with pytest.raises(UserError, match=r"^Image 3 is too dark\.$"):
            next(batches)
    assert children_end()


def test_no_process_starts_before_the_first_batch():
    assert children_end()  # those of other tests
    with Batches(Loading(Images()), [Task(np.array([0]))], 2, CPU):
        assert not multiprocessing.active_children()


def test_a_job_has_a_process_per_thread_besides_its_own():
    assert loader_processes({"workers": None}, 8) == 7
    assert loader_processes({"workers": 3}, 8) == 3
