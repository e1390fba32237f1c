"""SGD whose momentum contains the learning rate."""

import numpy as np
import pytest
import torch

from recheck.errors import UserError
from recheck.methods.mxnet_sgd import MXNetSGD

GRADIENTS = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 3)))


def walk(optimiser, weight, rates):
    for rate, gradient in zip(rates, GRADIENTS, strict=True):
        optimiser.param_groups[0]["lr"] = rate
        weight.grad = gradient.clone()
        optimiser.step()
    return weight.detach()


def weight():
    return torch.nn.Parameter(torch.ones(3, dtype=torch.float64))


def test_a_constant_rate_is_torchs_sgd():
    parameter, other = weight(), weight()
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    rates = [0.1] * len(GRADIENTS)
    ours = walk(MXNetSGD([parameter], **options), parameter, rates)
    torch.testing.assert_close(ours, walk(torch.optim.SGD([other], **options), other, rates), rtol=1e-12, atol=0)


def test_momentum_keeps_the_rate_it_was_collected_with():
    rates = [0.1, 0.1, 0.1, 0.05, 0.05, 0.025]
    expected, velocity = np.ones(3), np.zeros(3)
    for rate, gradient in zip(rates, GRADIENTS.numpy(), strict=True):
        velocity = 0.9 * velocity - rate * gradient
        expected = expected + velocity
    parameter, other = weight(), weight()
    np.testing.assert_allclose(
        walk(MXNetSGD([parameter], lr=1.0, momentum=0.9), parameter, rates), expected, rtol=1e-12
    )
    torchs = walk(torch.optim.SGD([other], lr=1.0, momentum=0.9), other, rates)
    assert np.abs(torchs.numpy() - expected).max() > 1e-3


def test_it_resumes_from_its_state():
    parameter = weight()
    optimiser, rates = MXNetSGD([parameter], lr=1.0, momentum=0.9), [0.1, 0.1, 0.1, 0.05, 0.05, 0.025]
    expected = walk(MXNetSGD([parameter], lr=1.0, momentum=0.9), parameter, rates).clone()
    parameter = weight()
    optimiser = MXNetSGD([parameter], lr=1.0, momentum=0.9)
    for rate, gradient in zip(rates, GRADIENTS, strict=True):
        state = optimiser.state_dict()
        parameter = torch.nn.Parameter(parameter.detach().clone())
        optimiser = MXNetSGD([parameter], lr=1.0)
        optimiser.load_state_dict(state)
        optimiser.param_groups[0]["lr"] = rate
        parameter.grad = gradient.clone()
        optimiser.step()
    assert torch.equal(parameter.detach(), expected)


@pytest.mark.parametrize("wrong", [{"lr": -1.0}, {"lr": 1.0, "momentum": 1.0}, {"lr": 1.0, "weight_decay": -1.0}])
def test_values_that_are_wrong(wrong):
    with pytest.raises(UserError, match="of the optimiser 'MXNetSGD' must be at least 0"):
        MXNetSGD([weight()], **wrong)
