"""Memberships in a neighbourhood, from how far inside its border a point lies."""

import torch


class _HeuristicStep(torch.autograd.Function):
    """1 where the argument is at least 0, else 0; backwards a line of constant slope, wherever the argument lies."""

    @staticmethod
    def forward(ctx, inside: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.slope = slope
        return (inside >= 0).to(inside.dtype)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.slope * gradient, None


def heuristic_step(inside: torch.Tensor, slope: float = 10.0) -> torch.Tensor:
    """The true derivative of a step is 0 nearly everywhere and trains nothing; this one always says "move"."""
    return _HeuristicStep.apply(inside, slope)


def sigmoid_step(inside: torch.Tensor, temperature: float) -> torch.Tensor:
    """The smooth alternative, with its true derivative."""
    return torch.sigmoid(inside / temperature)
