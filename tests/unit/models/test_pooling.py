"""Pooling and unit length by their properties."""

import pytest
import torch

from recheck.errors import UserError
from recheck.models.heads import LayerNormLinear
from recheck.models.norm import unit
from recheck.models.pooling import AveragePlusMax, GeM, Max, build_pooling
from recheck.models.projector import LinearProjector

FEATURES = torch.rand(3, 5, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_gem_lies_between_the_mean_and_the_maximum():
    assert torch.allclose(GeM(p=1)(FEATURES), build_pooling({"class": "Average"})(FEATURES))
    assert torch.allclose(GeM(p=300)(FEATURES), Max()(FEATURES), rtol=0.02)
    assert (GeM()(FEATURES) > FEATURES.mean(dim=(2, 3))).all()
    assert (GeM()(FEATURES) < FEATURES.amax(dim=(2, 3))).all()


def test_sum_of_average_and_maximum():
    flat = FEATURES.flatten(2)
    assert torch.allclose(AveragePlusMax()(FEATURES), flat.mean(2) + flat.max(2).values)


def test_gradients_of_empty_maps_are_finite():
    features = torch.zeros(2, 3, 4, 4, requires_grad=True)
    for name in ("GeM", "Average", "Max", "AveragePlusMax"):
        features.grad = None
        build_pooling({"class": name})(features).sum().backward()
        assert torch.isfinite(features.grad).all(), name


def test_unknown_pooling_is_named():
    with pytest.raises(UserError, match="did you mean 'GeM'"):
        build_pooling({"class": "Gem"})


def test_zero_stays_zero_with_unit_length():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    y = unit(x, 1e-12)
    assert torch.allclose(y[0], torch.tensor([0.6, 0.8], dtype=torch.float64))
    assert (y[1] == 0).all()
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("layer", [LayerNormLinear(7, 5), LinearProjector(7, 5)])
def test_heads_give_unit_length_at_any_scale(layer):
    layer = layer.double()
    x = torch.randn(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(layer(x).norm(dim=1), torch.ones(4, dtype=torch.float64))
    assert torch.allclose(layer(x), layer(3 * x), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_channels_with_little_signal_have_a_finite_gradient_in_every_precision(dtype):
    """In float16, 1e-3 to the power of 3 is 0, where the root has an infinite slope."""
    features = torch.zeros(2, 3, 4, 4, dtype=dtype)
    features[:, 1], features[:, 2] = 0.5, 1e-3
    features.requires_grad_()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        pooled = build_pooling({"class": "GeM"})(features)
    pooled.sum().backward()
    assert pooled.dtype == torch.float32
    assert torch.isfinite(features.grad).all()
    assert features.grad[:, 1:].float().sum(dim=(2, 3)) == pytest.approx(1, rel=0.02)
