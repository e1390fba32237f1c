"""Building losses, miners, optimisers and samplers by name."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning import losses

from recheck.errors import UserError
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.optimisers import build_optimisers, build_schedulers
from recheck.methods.samplers import build_sampler


def test_a_loss_gets_values_of_the_run():
    loss = build_loss({"class": "ArcFaceLoss", "margin": 20.0, "scale": 32.0}, num_classes=7, embedding_size=5)
    assert isinstance(loss, losses.ArcFaceLoss)
    assert loss.W.shape == (5, 7)
    assert loss.scale == 32.0


def test_nested_parts_are_built():
    spec = {"class": "ContrastiveLoss", "pos_margin": 0.9, "neg_margin": 0.1, "distance": {"class": "CosineSimilarity"}}
    loss = build_loss(spec, 3, 4)
    embeddings, labels = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    normal = torch.nn.functional.normalize(embeddings)
    similar = normal @ normal.T
    same = labels[:, None] == labels[None]
    positive = torch.relu(0.9 - similar)[same & ~torch.eye(8, dtype=bool)]
    negative = torch.relu(similar - 0.1)[~same]
    expected = positive[positive > 0].mean() + negative[negative > 0].mean()
    assert loss(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"class": "TripletMarginLos"}, "did you mean 'TripletMarginLoss'"),
        ({"class": "TripletMarginLoss", "margn": 1}, "Unknown argument 'margn' of loss 'TripletMarginLoss'"),
        ({"class": "not_a_module:Loss"}, "Cannot import module 'not_a_module'"),
        ({"class": "torch.nn:NoSuchLoss"}, "has no 'NoSuchLoss'"),
        ({"class": "TripletMarginLoss", "triplets_per_anchor": "all", "distance": {"class": "Nope"}}, "'Nope'"),
    ],
)
def test_mistakes_are_named(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        build_loss(spec, 3, 4)


def test_no_miner_is_none():
    assert build_miner(None) is None


def test_a_loss_with_parameters_needs_an_optimiser():
    loss = build_loss({"class": "ProxyNCALoss"}, 3, 4)
    with pytest.raises(UserError, match=r"'optimisers\.loss' is missing"):
        build_optimisers({"head": {"class": "Adam", "lr": 1}}, {"loss": loss})
    made = build_optimisers({"loss": {"class": "RMSprop", "lr": 0.1, "momentum": 0.9}}, {"loss": loss})
    assert isinstance(made["loss"], torch.optim.RMSprop)
    assert made["loss"].defaults["momentum"] == 0.9


def test_a_module_without_parameters_needs_no_optimiser():
    assert build_optimisers({}, {"loss": build_loss({"class": "TripletMarginLoss"}, 3, 4)}) == {}


def test_schedules_are_stepped_like_torch_does():
    layer = torch.nn.Linear(2, 2)
    spec = {"head": {"class": "SGD", "lr": 1.0}}
    optimisers = build_optimisers(spec, {"head": layer})
    schedulers = build_schedulers({"class": "MultiStepLR", "milestones": [2, 3], "gamma": 0.1}, optimisers, spec)
    rates = []
    for _ in range(4):
        rates.append(optimisers["head"].param_groups[0]["lr"])
        optimisers["head"].step()
        schedulers["head"].step()
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.01])


def labels_of(counts):
    return np.repeat(np.arange(len(counts)), counts)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=4, max_size=12), st.integers(1, 4), st.integers(0, 99))
def test_m_per_class_draws_distinct_images_of_each_class_in_rounds(counts, per_class, seed):
    labels = labels_of(counts)
    sampler = build_sampler({"class": "MPerClass", "batch": 4, "per_class": per_class, "length": 400}, labels)
    batches = sampler.draw(np.random.RandomState(seed))
    assert all(len(batch) == 4 for batch in batches)
    stream = [position for batch in batches for position in batch]
    a_round = per_class * len(counts)
    assert len(stream) == (400 - 400 % a_round) // 4 * 4
    for start in range(0, len(stream) - a_round + 1, a_round):
        chosen = stream[start : start + a_round]
        assert Counter(labels[chosen].tolist()) == dict.fromkeys(range(len(counts)), per_class)
        for label, count in enumerate(counts):
            of_class = [position for position in chosen if labels[position] == label]
            if count >= per_class:
                assert len(set(of_class)) == per_class


def test_a_pass_depends_only_on_its_generator():
    for spec in ({"class": "MPerClass", "batch": 8, "per_class": 2, "length": 200}, {"class": "Shuffled", "batch": 8}):
        sampler = build_sampler(spec, labels_of([5] * 9))
        first = sampler.draw(np.random.RandomState(3))
        np.random.seed(0)
        before = np.random.get_state()[1].copy()
        sampler.draw(np.random.RandomState(4))
        assert sampler.draw(np.random.RandomState(3)) == first
        assert np.array_equal(np.random.get_state()[1], before), "the global generator was touched"


def test_shuffled_gives_every_image_at_most_once():
    batches = build_sampler({"class": "Shuffled", "batch": 4}, labels_of([3, 3, 4])).draw(np.random.RandomState(0))
    stream = [position for batch in batches for position in batch]
    assert len(stream) == len(set(stream)) == 8


def test_too_few_images_for_a_batch():
    with pytest.raises(UserError, match=r"3 training images do not fill one batch: lower 'sampler\.batch' \(4\)"):
        build_sampler({"class": "Shuffled", "batch": 4}, labels_of([1, 2]))
