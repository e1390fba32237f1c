"""Random streams are independent of each other and of what ran before."""

import random

import numpy as np
import pytest
import torch

from recheck.methods.mxnet_adam import MXNetAdam
from recheck.training.seeding import derive, make_deterministic, random_state, restore_random_state, seed_everything
from support.project.small_net import SmallNet


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


@pytest.fixture
def restored():
    mode, benchmark = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    fill = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.set_deterministic_debug_mode(mode)
    torch.backends.cudnn.benchmark = benchmark
    torch.utils.deterministic.fill_uninitialized_memory = fill


def test_memory_is_not_filled_and_the_bits_are_the_same(restored):
    """PyTorch fills new tensors with NaN in its deterministic mode; results must not depend on it."""

    def trained(fill):
        make_deterministic(True)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.utils.deterministic.fill_uninitialized_memory is False
        torch.utils.deterministic.fill_uninitialized_memory = fill
        assert bool(torch.empty(3).isnan().all()) or not fill
        torch.manual_seed(0)
        network = SmallNet(dropout=0.2)
        optimiser = MXNetAdam(network.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            network(torch.randn(8, 3, 32, 32)).square().mean().backward()
            optimiser.step()
        return network.state_dict()

    filled = trained(True)
    assert all(torch.equal(tensor, filled[name]) for name, tensor in trained(False).items())
