"""Samplers, optimiser and meta-classes of the unbiased evaluation."""

import io
from collections import Counter
from itertools import groupby

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recheck.errors import UserError
from recheck.methods.meta_classes import mapping, relabel
from recheck.methods.mxnet_adam import MXNetAdam
from recheck.methods.optimisers import build_optimisers, build_schedulers
from recheck.methods.samplers import build_sampler
from recheck.methods.samplers.shuffled import Shuffled
from recheck.tuning.seeds import trial_seed


def labels_of(counts):
    """Classes of these sizes, their images mixed."""
    return np.random.RandomState(0).permutation(np.repeat(np.arange(len(counts)), counts))


def generator(seed=0):
    return np.random.RandomState(seed)


BALANCED = {"class": "BalancedClasses", "batch": 20, "per_class": 5, "batches": 7}
PAIRS = {"class": "Pairs", "batch": 8, "batches": 6, "same_image": 0.1}
EPISODES = {"class": "Episodes", "batch": 15, "classes": 3, "supports": 2, "queries": 3, "batches": 4}


@pytest.mark.parametrize("spec", [BALANCED, PAIRS, EPISODES])
def test_a_pass_depends_only_on_its_generator(spec):
    sampler = build_sampler(spec, labels_of([6] * 9))
    first = sampler.draw(generator(3))
    before = np.random.get_state()[1].copy()
    assert sampler.draw(generator(4)) != first
    assert sampler.draw(generator(3)) == first
    assert np.array_equal(np.random.get_state()[1], before), "the global generator was touched"
    assert len(first) == spec["batches"]
    assert all(len(batch) == spec["batch"] and all(type(p) is int for p in batch) for batch in first)


def test_balanced_batches_are_blocks():
    labels = labels_of([5, 6, 9, 12, 7, 5])
    for batch in build_sampler(BALANCED, labels).draw(generator()):
        blocks = labels[batch].reshape(4, 5)
        assert (blocks == blocks[:, :1]).all()
        assert len(set(blocks[:, 0])) == 4
        assert len(set(batch)) == 20


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=6, max_size=15), st.integers(0, 99))
def test_small_classes_contribute_all_their_images(counts, seed):
    labels = labels_of(counts)
    spec = BALANCED | {"batch": 6, "per_class": 3, "batches": 3}
    for batch in build_sampler(spec, labels).draw(generator(seed)):
        assert len(set(batch)) == len(batch) == 6
        runs = [(label, len(list(group))) for label, group in groupby(labels[batch].tolist())]
        assert len({label for label, _ in runs}) == len(runs), "images of a class are consecutive"
        for label, length in runs[:-1]:
            assert length == min(3, counts[label])
        assert runs[-1][1] <= min(3, counts[runs[-1][0]])


def test_balanced_classes_are_uniform():
    labels = labels_of([5, 10, 20, 40, 80])
    spec = BALANCED | {"batch": 6, "per_class": 2, "batches": 3000}
    drawn = Counter(labels[[p for batch in build_sampler(spec, labels).draw(generator()) for p in batch]].tolist())
    assert [drawn[label] / 18000 for label in range(5)] == pytest.approx([0.2] * 5, abs=0.01)


def test_pairs_are_anchors_then_positives_of_different_classes():
    labels = labels_of([2, 3, 1, 9, 5, 4])
    for batch in build_sampler(PAIRS | {"same_image": 0.0}, labels).draw(generator()):
        anchors, positives = np.array(batch).reshape(2, 4)
        assert (labels[anchors] == labels[positives]).all()
        assert (anchors != positives).all()
        assert len(set(labels[anchors])) == 4
        assert 2 not in labels[anchors], "one image does not make a pair"


def test_a_pair_is_the_same_image_with_the_given_probability():
    batches = build_sampler(PAIRS | {"batches": 3000}, labels_of([4] * 8)).draw(generator())
    same = np.mean([batch[i] == batch[4 + i] for batch in batches for i in range(4)])
    assert same == pytest.approx(0.1, abs=0.01)
    images = Counter(position for batch in batches for position in batch)
    assert max(images.values()) / min(images.values()) < 1.25


def test_a_batch_of_two_is_one_pair():
    assert all(len(batch) == 2 for batch in build_sampler(PAIRS | {"batch": 2}, labels_of([4] * 8)).draw(generator()))


def test_episodes_are_supports_then_queries():
    labels = labels_of([5, 4, 7, 9, 5, 6])
    for batch in build_sampler(EPISODES, labels).draw(generator()):
        supports, queries = labels[batch[:6]].reshape(3, 2), labels[batch[6:]].reshape(3, 3)
        assert (supports == supports[:, :1]).all()
        assert (queries == supports[:, :1]).all()
        assert len(set(supports[:, 0])) == 3
        assert 1 not in supports, "four images are too few"
        assert len(set(batch)) == 15


@pytest.mark.parametrize(
    ("spec", "counts", "sentence"),
    [
        (BALANCED, [5, 5, 4, 5], r"give only 19 images: lower 'sampler.batch' \(20\)"),
        (BALANCED | {"per_class": 0}, [9] * 9, "'per_class' of .* must be a whole number of at least 1, found 0"),
        (PAIRS, [1, 2, 2, 2], "needs 4 classes, one per pair, but only 3 training classes have two images"),
        (PAIRS | {"batch": 7}, [9] * 9, "'sampler.batch' must be even, found 7"),
        (PAIRS | {"same_image": 2}, [9] * 9, "probability from 0 to 1, found 2"),
        (EPISODES, [5, 5, 4], "only 2 training classes have the 5 images that an episode needs"),
        (EPISODES | {"batch": 30}, [9] * 9, "'sampler.batch' must be 15, for 3 classes x .* found 30"),
        ({"class": "Shuffled", "batch": 2, "last": "keep"}, [9], "'drop' or 'rollover', found 'keep'"),
    ],
)
def test_impossible_batches_are_named(spec, counts, sentence):
    with pytest.raises(UserError, match=sentence):
        build_sampler(spec, labels_of(counts))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 12))
def test_rollover_carries_leftover_images_into_the_next_pass(count, batch):
    sampler = Shuffled(np.zeros(count), batch, last="rollover")
    passes = [sampler.draw_pass(number, generator) for number in range(9)]
    stream = [position for number in range(9) for position in generator(number).permutation(count).tolist()]
    joined = [position for drawn in passes for one in drawn for position in one]
    assert joined == stream[: len(stream) // batch * batch]
    assert all(len(one) == batch for drawn in passes for one in drawn)
    assert passes[0] == sampler.draw(generator(0))
    assert sampler.draw_pass(7, generator) == passes[7], "a pass does not depend on what was drawn before"


def test_leftover_images_can_be_dropped():
    sampler = build_sampler({"class": "Shuffled", "batch": 4}, labels_of([3, 3, 4]))
    assert sampler.draw_pass(5, generator) == sampler.draw(generator(5))


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3), nn.Flatten(), nn.Linear(32, 3))


def train(net, optimiser, steps, first=0):
    for number in range(first, first + steps):
        x = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(number))
        optimiser.zero_grad(set_to_none=True)
        net(x).square().mean().backward()
        optimiser.step()
    return [parameter.detach().clone() for parameter in net.parameters()]


ADAM = {"class": "MXNetAdam", "lr": 0.01, "eps": 0.01, "weight_decay": 5e-4, "clip": 0.05}


def test_mxnet_adam_resumes_bit_identically():
    straight = small_net()
    expected = train(straight, build_optimisers({"net": ADAM}, {"net": straight})["net"], 6)
    net = small_net()
    optimiser = build_optimisers({"net": ADAM}, {"net": net})["net"]
    train(net, optimiser, 3)
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again = small_net()
    again.load_state_dict(state["net"])
    continued = build_optimisers({"net": ADAM}, {"net": again})["net"]
    continued.load_state_dict(state["optimiser"])
    for ours, theirs in zip(train(again, continued, 3, first=3), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_mxnet_adam_is_nearly_torchs_with_a_small_eps():
    nets = [small_net(), small_net()]
    ours = train(nets[0], MXNetAdam(nets[0].parameters(), lr=1e-3, eps=1e-12, weight_decay=0.1), 5)
    theirs = train(nets[1], torch.optim.Adam(nets[1].parameters(), lr=1e-3, eps=1e-12, weight_decay=0.1), 5)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_mxnet_adam_by_hand():
    """The first step: m = 0.1 g, v = 0.001 g², with g clipped after the L2 term was added."""
    for gradient, clip, g in ((3.0, None, 3.5), (3.0, 2.0, 2.0), (-9.0, 2.0, -2.0)):
        weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        MXNetAdam([weight], lr=0.1, eps=0.01, weight_decay=0.5, clip=clip).step()
        step = 0.1 * 0.001**0.5 / 0.1 * 0.1 * g / (abs(g) * 0.001**0.5 + 0.01)
        assert weight.item() == pytest.approx(1 - step, rel=1e-12)


def test_parameters_without_gradients_are_left_alone():
    weights = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))]
    optimiser = MXNetAdam(weights, lr=0.1, weight_decay=0.1)
    weights[0].grad = torch.ones(2)
    optimiser.step()
    assert (weights[0] != 1).all()
    assert (weights[1] == 1).all()


@pytest.mark.parametrize("kind", ["MXNetAdam", "Adam", "SGD", "RMSprop"])
def test_factors_of_the_learning_rate(kind):
    net = small_net()
    spec = {"class": kind, "lr": 0.5, "lr_factors": {"Conv2d": 0.01, "BatchNorm2d": 0}}
    optimiser = build_optimisers({"net": spec}, {"net": net})["net"]
    rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    assert len(rates) == len(list(net.parameters()))
    for module, rate in ((net[0], 0.005), (net[2], 0.005), (net[1], 0), (net[4], 0.5)):
        assert {rates[id(p)] for p in module.parameters()} == {rate}
    scheduler = build_schedulers(
        {"class": "MultiStepLR", "milestones": [1], "gamma": 0.1}, {"net": optimiser}, {"net": spec}
    )["net"]
    optimiser.step()
    scheduler.step()
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0, 0.0005, 0.05])


def test_factors_apply_to_trained_parameters_and_shared_ones_count_once():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(4, 4), nn.Linear(4, 4))
    net[0].bias.requires_grad_(False)
    net[2].weight = net[1].weight
    spec = {"class": "SGD", "lr": 1.0, "lr_factors": {"Conv2d": 0.1}}
    groups = build_optimisers({"net": spec}, {"net": net})["net"].param_groups
    assert [(group["lr"], len(group["params"])) for group in groups] == [(1.0, 3), (0.1, 1)]


def test_a_factor_scales_the_default_rate_too():
    net = small_net()
    spec = {"class": "MXNetAdam", "lr_factors": {"Conv2d": 0.5}}
    groups = build_optimisers({"net": spec}, {"net": net})["net"].param_groups
    assert [group["lr"] for group in groups] == [1e-3, 5e-4]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr_factors": {"Conv3d": 1}}, "Unknown class 'Conv3d' in .* that class; did you mean 'Conv2d'"),
        ({"lr_factors": {"Conv2d": "a"}}, "must be a number of at least 0, found 'a'"),
        ({"clip": -1}, "'clip' above 0 or null, found .* clip -1"),
        ({"betas": [0.9]}, "must be two numbers of at least 0 and below 1"),
        ({"epsilon": 1}, "Unknown argument 'epsilon' of net optimiser 'MXNetAdam'"),
    ],
)
def test_wrong_settings_of_an_optimiser(options, sentence):
    with pytest.raises(UserError, match=sentence):
        build_optimisers({"net": {"class": "MXNetAdam", **options}}, {"net": small_net()})


def test_meta_classes_of_members_are_independent():
    made = mapping(5, 200, 12, 100)
    assert made.shape == (200, 100)
    shares = np.bincount(made.ravel(), minlength=12) / made.size
    assert shares == pytest.approx([1 / 12] * 12, abs=0.01)
    assert np.mean(made[0] == made[1]) < 0.25
    assert relabel(np.array([3, 3, 99]), made, 7).tolist() == [made[7, 3], made[7, 3], made[7, 99]]
    with pytest.raises(UserError, match=r"'relabel\.count', .* must be at least 2, found 1"):
        mapping(5, 3, 1, 10)


def test_trials_of_a_search_have_meta_classes_too():
    """Their seeds are larger than numpy's legacy generator takes."""
    seed = trial_seed(0, 0)
    assert seed > 2**32
    assert (mapping(seed, 3, 8, 50) == mapping(seed % 2**32, 3, 8, 50)).all()
