"""Membership in a neighbourhood, as a function of how far a point lies inside its border."""

import torch


class _HeuristicStep(torch.autograd.Function):
    """Forward: 1 if the argument is at least 0, else 0. Backward: a constant slope everywhere."""

    @staticmethod
    def forward(ctx, inside: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.slope = slope
        return (inside >= 0).to(inside.dtype)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.slope * gradient, None


def heuristic_step(inside: torch.Tensor, slope: float = 10.0) -> torch.Tensor:
    """Step function with a constant slope as gradient: its true derivative is 0 almost everywhere."""
    return _HeuristicStep.apply(inside, slope)


def sigmoid_step(inside: torch.Tensor, temperature: float) -> torch.Tensor:
    """Smooth step with its true derivative."""
    return torch.sigmoid(inside / temperature)
