"""Stochastic gradient descent as MXNet computes it; the difference matters when the learning rate changes."""

from collections.abc import Iterable
from typing import Any

import torch

from recheck.errors import UserError
from recheck.methods.foreach import Foreach


class MXNetSGD(Foreach):
    """SGD whose momentum contains the learning rate:

        v ← momentum · v − lr · (gradient + weight_decay · w),    w ← w + v.

    PyTorch's SGD multiplies the momentum by the rate of the current step instead. Both are equal while the rate is
    constant. After a milestone, the momentum collected before it decays gradually here; in PyTorch its effect drops at
    once, with the rate.
    """

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.0, weight_decay: float = 0.0):
        if lr < 0 or weight_decay < 0 or not 0 <= momentum < 1:
            raise UserError(
                "'lr' and 'weight_decay' of the optimiser 'MXNetSGD' must be at least 0, and 'momentum' at least 0 and "
                f"below 1, found lr {lr}, weight_decay {weight_decay} and momentum {momentum}."
            )
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def update(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        (velocities,) = self.moments(parameters, "velocity")
        gradients = [parameter.grad for parameter in parameters]
        gradients = torch._foreach_add(gradients, parameters, alpha=group["weight_decay"])
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_sub_(velocities, gradients, alpha=group["lr"])
        torch._foreach_add_(parameters, velocities)
