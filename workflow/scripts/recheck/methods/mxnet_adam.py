"""Adam as MXNet computes it; the difference matters if ``eps`` is large."""

from collections.abc import Iterable
from typing import Any

import torch

from recheck.errors import UserError
from recheck.methods.foreach import Foreach


class MXNetAdam(Foreach):
    """Adam with weight decay and clipping applied to the gradient, and eps added to the uncorrected root:

        g = clip(gradient + weight_decay · w, ±clip)         elementwise; ``clip: null`` does not clip
        m ← β₁ m + (1 − β₁) g,    v ← β₂ v + (1 − β₂) g²
        w ← w − lr · sqrt(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (sqrt(v) + eps).

    PyTorch's Adam adds eps to the corrected root instead. In the first step, with β₂ = 0.999, eps therefore counts
    about 30 times as much here, which matters for values as large as 0.01.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        clip: float | None = None,
    ):
        if lr < 0 or eps < 0 or weight_decay < 0 or (clip is not None and clip <= 0):
            raise UserError(
                "'lr', 'eps' and 'weight_decay' of the optimiser 'MXNetAdam' must be at least 0, and 'clip' above 0 or "
                f"null, found lr {lr}, eps {eps}, weight_decay {weight_decay} and clip {clip}."
            )
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise UserError(
                f"'betas' of the optimiser 'MXNetAdam' must be two numbers of at least 0 and below 1, found {betas}."
            )
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "clip": clip}
        super().__init__(params, defaults)

    def update(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Update parameters with the same number of steps together, because they share a rate."""
        by_step: dict[int, list[torch.Tensor]] = {}
        for parameter in parameters:
            state = self.state[parameter]
            state["step"] = state.get("step", 0) + 1
            by_step.setdefault(state["step"], []).append(parameter)
        for step, members in by_step.items():
            self._update(members, step, group)

    def _update(self, parameters: list[torch.Tensor], step: int, group: dict[str, Any]) -> None:
        first, second = group["betas"]
        means, squares = self.moments(parameters, "mean", "square")
        gradients = [parameter.grad for parameter in parameters]
        gradients = torch._foreach_add(gradients, parameters, alpha=group["weight_decay"])
        if group["clip"] is not None:
            torch._foreach_clamp_min_(gradients, -group["clip"])
            torch._foreach_clamp_max_(gradients, group["clip"])
        torch._foreach_mul_(means, first)
        torch._foreach_add_(means, gradients, alpha=1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - second)
        del gradients  # the roots reuse this memory
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        rate = group["lr"] * (1 - second**step) ** 0.5 / (1 - first**step)
        torch._foreach_addcdiv_(parameters, means, roots, value=-rate)
