"""What a run reports if it learns nothing, and that a sane run reports nothing."""

import json

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses
from torch import nn

from recheck.data.fold import FoldData
from recheck.models.embedding import EmbeddingModel
from recheck.training.interrupt import Interrupted
from recheck.training.watch import Watch, needs_pairs, random_frozen_batch_norm
from support.project.runs import CONFIGURATION, StopAfter, make_run, packed_glyphs, with_

SANE = [0, 0, 1, 1]


def watched(steps, needs=True, frozen=False, gradients=(1.0,), change=True, names=("backbone", "head")):
    """The findings after steps of (labels, loss); ``gradients`` are those of the modules in each step."""
    weights = {name: [nn.Parameter(torch.ones(3))] for name in names}
    watch = Watch(weights, needs, frozen)
    for labels, loss in steps:
        for name, gradient in zip(names, [*gradients] * len(names), strict=False):
            weights[name][0].grad = None if gradient is None else torch.full((3,), gradient)
        watch.gradients()
        watch.batch(np.array(labels), loss)
        for name in names if change is True else change or ():
            weights[name][0].data += 1
    watch.epoch()
    return {finding["check"]: finding["text"] for finding in watch.findings()}


def test_a_sane_run_has_no_findings():
    assert watched([(SANE, 0.5), (SANE, 0.4), (SANE, 0.0)]) == {}


def test_a_loss_of_zero():
    findings = watched([(SANE, 0.0)] * 3)
    assert list(findings) == ["zero_loss"]
    assert findings["zero_loss"].startswith("The loss was exactly 0 in all 3 steps")
    # A loss may be 0 when all triplets of a batch are learned.
    assert watched([(SANE, 0.1), *[(SANE, 0.0)] * 8]) == {}


def test_a_constant_loss():
    findings = watched([(SANE, 0.25)] * 3)
    assert list(findings) == ["constant_loss"] and "0.25 in all 3 steps" in findings["constant_loss"]
    assert watched([(SANE, 0.25)]) == {}, "one step cannot show it"


def test_batches_without_negative_pairs():
    single_class = ([3, 3, 3], 0.5)
    findings = watched([single_class, ([3, 3, 3], 0.4)])
    assert list(findings) == ["no_negative_pairs"]
    assert findings["no_negative_pairs"].startswith("2 of 2 batches had images of only one class")
    assert "1 of 2" in watched([single_class, (SANE, 0.4)])["no_negative_pairs"]
    assert watched([single_class, (SANE, 0.4), (SANE, 0.3)]) == {}


def test_batches_without_positive_pairs():
    findings = watched([([0, 1, 2], 0.5), ([0, 1, 3], 0.4)])
    assert list(findings) == ["no_positive_pairs"] and "no two images of one class" in findings["no_positive_pairs"]


def test_a_loss_that_has_proxies_needs_no_pairs():
    assert watched([([3, 3, 3], 0.5), ([0, 1, 2], 0.4)], needs=False) == {}


def test_gradients_of_zero():
    findings = watched([(SANE, 0.5), (SANE, 0.4)], gradients=(0.0, 1.0))
    assert list(findings) == ["zero_gradient"] and "reached the backbone in 2 steps" in findings["zero_gradient"]
    findings = watched([(SANE, 0.5), (SANE, 0.4)], gradients=(None, None), names=("backbone", "head", "loss"))
    assert "reached the backbone, head and loss" in findings["zero_gradient"]


def test_weights_that_do_not_change():
    findings = watched([(SANE, 0.5), (SANE, 0.4)], change=("head",))
    assert list(findings) == ["unchanged_weights"]
    assert (
        "weights of the backbone did not change in 2 steps: check 'optimisers.backbone.lr'"
        in findings["unchanged_weights"]
    )


def test_a_consequence_is_not_reported_again():
    """A loss of 0 has no gradient, and without a gradient no weight changes."""
    assert list(watched([(SANE, 0.0)] * 2, gradients=(0.0, 0.0), change=False)) == ["zero_loss"]
    assert list(watched([(SANE, 0.5), (SANE, 0.4)], gradients=(0.0, 0.0), change=False)) == ["zero_gradient"]


def test_frozen_batch_norm_with_random_weights():
    model = CONFIGURATION["model"]
    assert random_frozen_batch_norm(EmbeddingModel({**model, "batch_norm": "frozen"}))
    assert random_frozen_batch_norm(EmbeddingModel({**model, "backbone": {**model["backbone"], "frozen": True}}))
    assert not random_frozen_batch_norm(EmbeddingModel(model))
    pretrained = EmbeddingModel({**model, "batch_norm": "frozen"})
    next(pretrained.batch_norms()).running_mean += 0.1
    assert not random_frozen_batch_norm(pretrained)
    assert list(watched([(SANE, 0.5), (SANE, 0.4)], frozen=True)) == ["frozen_batch_norm"]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (losses.TripletMarginLoss(), True),
        (losses.MarginLoss(num_classes=5, learn_beta=True), True),
        (losses.ProxyNCALoss(5, 16), False),
        (losses.ArcFaceLoss(5, 16), False),
        (losses.SoftTripleLoss(5, 16), False),
        (losses.CrossBatchMemory(losses.ContrastiveLoss(), 16, memory_size=64), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_losses_that_need_pairs(loss, expected):
    assert needs_pairs(loss, 16, 5) is expected


def test_one_output_per_class_needs_no_pairs():
    assert not needs_pairs(nn.CrossEntropyLoss(), 5, 5)


def test_the_counts_are_plain_data():
    """State files are read without unpickling anything but tensors and plain data."""
    watch = Watch({"head": [nn.Parameter(torch.ones(3))]}, True, False)
    watch.batch(np.array(SANE), 0.5)
    assert json.loads(json.dumps(watch.state())) == watch.state()


class Untouchable(list):
    def __iter__(self):
        raise AssertionError("looked at the weights again")


def test_a_sane_run_is_looked_at_once():
    """On a GPU every look waits for the device."""
    weight = nn.Parameter(torch.ones(3))
    watch = Watch({"head": [weight]}, True, False)
    weight.grad = torch.ones(3)
    watch.gradients()
    weight.data += 1
    watch.epoch()
    assert watch.start == {}, "the initial weights are needed no more"
    watch.weights = {"head": Untouchable()}
    watch.gradients()
    watch.epoch()
    again = Watch({"head": [nn.Parameter(torch.ones(3))]}, True, False)
    again.resume(watch.state())
    assert again.start == {} and again.state() == watch.state()


class Detached(nn.Module):
    """A loss that forgets the embeddings."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, embeddings, labels):
        return self.scale * embeddings.detach().square().mean()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glyphs")
    images, labels = packed_glyphs(folder, classes=8)
    return FoldData(images, labels, {"train": np.flatnonzero(labels < 6), "val": np.flatnonzero(labels >= 6)})


def one_class(**more):
    sampler = {"class": "MPerClass", "batch": 8, "per_class": 8, "length": 48}
    return with_(loss={"class": "TripletMarginLoss"}, sampler=sampler, **more)


def of_run(data, folder, configuration, **more):
    return [warning["check"] for warning in make_run(data, folder, configuration, **more).train().warnings]


@pytest.mark.slow
def test_runs_that_learn_nothing(data, tmp_path):
    assert of_run(data, tmp_path / "a", CONFIGURATION) == []
    assert of_run(data, tmp_path / "b", one_class()) == ["no_negative_pairs", "zero_loss"]
    frozen = {**CONFIGURATION["model"], "batch_norm": "frozen"}
    assert of_run(data, tmp_path / "c", with_(model=frozen)) == ["frozen_batch_norm"]
    assert of_run(data, tmp_path / "d", with_(loss={"class": f"{__name__}:Detached"})) == ["zero_gradient"]
    still = {**CONFIGURATION["optimisers"], "backbone": {"class": "SGD", "lr": 0.0}}
    assert of_run(data, tmp_path / "e", with_(optimisers=still)) == ["unchanged_weights"]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 5, 7])
def test_an_interrupted_run_has_the_same_findings(data, tmp_path, steps):
    whole = make_run(data, tmp_path / "a", one_class()).train().warnings
    assert "15 of 15 batches" in whole[0]["text"]
    with pytest.raises(Interrupted):
        make_run(data, tmp_path / "b", one_class(), stop=StopAfter(steps)).train()
    assert make_run(data, tmp_path / "b", one_class()).train().warnings == whole


@pytest.mark.slow
def test_the_first_epoch_already_warns(data, tmp_path, caplog):
    make_run(data, tmp_path, one_class()).train()
    assert "After epoch 1: The loss was exactly 0 in all 5 steps" in caplog.text
