"""Optimisers that update all parameters of a group together, against the same formula for one parameter at a time."""

import pytest
import torch

from recheck.methods.mxnet_adam import MXNetAdam
from recheck.methods.mxnet_sgd import MXNetSGD

SHAPES = [(7,), (4, 3, 3, 3), (1,), (33, 5), (), (0, 3)]
STEPS = 12


def adam(weight, state, *, lr, betas, eps, weight_decay, clip):
    state.setdefault("step", 0)
    for name in ("mean", "square"):
        state.setdefault(name, torch.zeros_like(weight))
    state["step"] += 1
    gradient = weight.grad.add(weight, alpha=weight_decay)
    if clip is not None:
        gradient.clamp_(-clip, clip)
    state["mean"].mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
    state["square"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    rate = lr * (1 - betas[1] ** state["step"]) ** 0.5 / (1 - betas[0] ** state["step"])
    weight.addcdiv_(state["mean"], state["square"].sqrt().add_(eps), value=-rate)


def sgd(weight, state, *, lr, momentum, weight_decay):
    velocity = state.setdefault("velocity", torch.zeros_like(weight))
    velocity.mul_(momentum).sub_(weight.grad.add(weight, alpha=weight_decay), alpha=lr)
    weight.add_(velocity)


def parameters():
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(shape, generator=generator) for shape in SHAPES]
    made[1] = made[1].contiguous(memory_format=torch.channels_last)
    return [torch.nn.Parameter(tensor) for tensor in made]


def step_together(optimiser):
    """Step all parameters of a group together, as on a GPU."""
    with torch.no_grad():
        for group in optimiser.param_groups:
            if parameters := [parameter for parameter in group["params"] if parameter.grad is not None]:
                optimiser.update(parameters, group)


@pytest.mark.parametrize("take_step", [step_together, lambda optimiser: optimiser.step()], ids=["GPU", "CPU"])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(("optimiser", "plain"), [(MXNetAdam, adam), (MXNetSGD, sgd)])
def test_the_bits_of_one_parameter_at_a_time(optimiser, plain, clip, take_step):
    """Also with parameters that sometimes have no gradient, so that their numbers of steps differ."""
    options = {"lr": 0.01, "weight_decay": 0.1}
    if optimiser is MXNetAdam:
        options |= {"betas": (0.9, 0.999), "eps": 0.01, "clip": clip}
    else:
        options |= {"momentum": 0.9}
    ours, theirs = parameters(), parameters()
    states = [{} for _ in theirs]
    halves = [{"params": ours[:2]}, {"params": ours[2:], "lr": 0.02}]
    together = optimiser(halves, **options)
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        for number, (parameter, other) in enumerate(zip(ours, theirs, strict=True)):
            has_gradient = number == 0 or step % number != 1
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad, other.grad = (gradient.clone() if has_gradient else None for _ in range(2))
        take_step(together)
        with torch.no_grad():
            for number, (other, state) in enumerate(zip(theirs, states, strict=True)):
                if other.grad is not None:
                    plain(other, state, **options | {"lr": 0.01 if number < 2 else 0.02})
    for parameter, other, state in zip(ours, theirs, states, strict=True):
        assert torch.equal(parameter, other)
        assert together.state[parameter].keys() == state.keys()
        assert all(
            torch.equal(torch.as_tensor(together.state[parameter][name]), torch.as_tensor(state[name]))
            for name in state
        )


def test_no_gradient_changes_nothing():
    weight = torch.nn.Parameter(torch.ones(3))
    optimiser = MXNetAdam([weight])
    optimiser.step()
    assert torch.equal(weight, torch.ones(3)) and not optimiser.state
