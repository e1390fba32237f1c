"""Heads: initial weights, output sizes and unit lengths."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from recheck.errors import UserError
from recheck.models.heads import build_head
from recheck.models.initialisation import initialise


def built(spec, features=1024, **known):
    torch.manual_seed(0)
    return build_head(spec, features, **known)


def features(count=6, size=1024):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(1))


HEADS = [
    ({"class": "Linear", "dim": 64}, 64),
    ({"class": "Linear", "dim": 8, "bias": False, "normalise": 1e-10}, 8),
    ({"class": "Identity"}, 1024),
    ({"class": "NormProxyHead", "dim": 32}, 32),
    ({"class": "DiscriminativeHead"}, 7),
]


@pytest.mark.parametrize(("spec", "dim"), HEADS)
def test_dim_is_the_size_of_the_output(spec, dim):
    head = built(spec, num_classes=7)
    assert head.dim == dim
    assert head(features()).shape == (6, dim)


def test_the_usual_head_starts_like_torch():
    torch.manual_seed(0)
    expected = torch.nn.Linear(1024, 64)
    head = built({"class": "Linear", "dim": 64})
    assert torch.equal(head.weight, expected.weight)
    assert torch.equal(head.bias, expected.bias)
    assert torch.equal(head(features()), expected(features()))
    assert list(head.state_dict()) == ["weight", "bias"]


def test_normalised_outputs():
    plain = built({"class": "Linear", "dim": 8})
    unit = built({"class": "Linear", "dim": 8, "normalise": 1e-10})
    torch.testing.assert_close(unit(features()), normalize(plain(features())))
    large = built({"class": "Linear", "dim": 8, "normalise": 3.0})(features())
    raw = plain(features())
    torch.testing.assert_close(large, raw / (raw.square().sum(dim=1, keepdim=True) + 3).sqrt())


def test_a_zero_output_has_a_finite_gradient():
    head = built({"class": "Linear", "dim": 8, "bias": False, "normalise": 1e-10})
    x = torch.zeros(2, 1024, requires_grad=True)
    head(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("rule", "std", "most"),
    [
        ("uniform 0.2", 0.01917 / math.sqrt(3), 0.01918),
        ("uniform 2", 0.06063 / math.sqrt(3), 0.06064),
        ("truncated_normal 0.001", 0.00088, 0.002),
        ("normal 0.00125", 0.00125, 0.01),
        ("kaiming_normal fan_out", math.sqrt(2 / 64), 1),
        ("kaiming_normal fan_in", math.sqrt(2 / 1024), 1),
    ],
)
def test_initial_weights(rule, std, most):
    head = built({"class": "Linear", "dim": 64, "init": rule})
    assert head.weight.std().item() == pytest.approx(std, rel=0.01)
    assert head.weight.mean().item() == pytest.approx(0, abs=std / 50)
    assert head.weight.abs().max() <= most
    assert (head.bias == 0).all()


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("unifrm 1", "Unknown rule 'unifrm' in 'init' of a test; did you mean 'uniform'"),
        ("uniform", "must be a rule and a number"),
        ("uniform -1", "'uniform' needs a number above 0, found '-1'"),
        ("kaiming_normal 1", "needs fan_in or fan_out, found '1'"),
    ],
)
def test_wrong_initialisation_rules_are_named(rule, sentence):
    with pytest.raises(UserError, match=sentence):
        initialise(torch.empty(2, 3), rule, "a test")


def test_norm_proxy_head():
    head = built({"class": "NormProxyHead", "dim": 32})
    assert head.gain.item() == 1
    assert head.direction.abs().max() <= 0.002
    head.eval()
    out = head(features())
    torch.testing.assert_close(out.norm(dim=1), torch.ones(6))
    head.direction.data *= 1000  # only its direction counts
    torch.testing.assert_close(head(features()), out, rtol=1e-4, atol=1e-5)
    head.train()
    dropped = head(features()) == 0
    assert 0.3 < dropped.float().mean() < 0.7


def test_embeddings_are_binarised_in_evaluation_only():
    head = built({"class": "NormProxyHead", "dim": 32, "binarise": True})
    assert head(features()).unique().numel() > 2
    bits = head.eval()(features())
    assert bits.unique().tolist() == [0, 1]
    assert bits.dtype == torch.float32
    assert (head(torch.ones(1, 1024)) == 0).all(), "a coordinate of 0 is not above 0"
    assert torch.equal(bits, (built({"class": "NormProxyHead", "dim": 32}).eval()(features()) > 0).float())


def test_discriminative_head():
    head = built({"class": "DiscriminativeHead"}, num_classes=7).eval()
    assert head.output.bias is None
    assert head.hidden.weight.abs().max() <= math.sqrt(0.2 / 544)
    x = features()
    torch.testing.assert_close(head(x), normalize((x @ head.hidden.weight.T) @ head.output.weight.T))
    with pytest.raises(UserError, match="num_classes"):
        build_head({"class": "DiscriminativeHead"}, 1024)
