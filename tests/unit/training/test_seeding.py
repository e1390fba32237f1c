"""Random streams are independent of each other and of what ran before."""

import random

import numpy as np
import torch

from recheck.training.seeding import derive, random_state, restore_random_state, seed_everything


def test_streams_differ_and_repeat():
    streams = [
        (0,),
        (1,),
        (0, 0),
        (0, 1),
        (0, 0, "a"),
        (0, 0, "b"),
        (0, 0, "a", 1),
        (0, 0, "a", 1, 0),
        (0, 0, "a", 0, 1),
    ]
    seeds = [derive(*stream) for stream in streams]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [derive(*stream) for stream in streams]


def test_a_seed_equals_that_of_numpys_seed_sequence():
    for stream in [(0,), (7, 3, 2**32 - 1), (2**32, 5), (2**40 + 3, 2**33, 1), (0, 2, 1234, 31)]:
        words = [len(stream) - 1, *stream]
        assert derive(*stream) == int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def draw():
    return random.random(), np.random.rand(), np.random.randn(), torch.rand(3).tolist()


def test_all_generators_are_restored():
    seed_everything(5)
    draw()
    state = random_state()
    expected = draw()
    seed_everything(6)
    restore_random_state(state)
    assert draw() == expected
