"""Adam as MXNet computes it; the difference matters if ``eps`` is large."""

from collections.abc import Iterable
from typing import Any

import torch

from recheck.errors import UserError
from recheck.methods.each_parameter import EachParameter


class MXNetAdam(EachParameter):
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
                f"'betas' of the optimiser 'MXNetAdam' must be two numbers from 0 and below 1, found {betas}."
            )
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "clip": clip}
        super().__init__(params, defaults)

    def update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["mean"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["square"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        state["step"] += 1
        first, second = group["betas"]
        gradient = parameter.grad.add(parameter, alpha=group["weight_decay"])
        if group["clip"] is not None:
            gradient.clamp_(-group["clip"], group["clip"])
        state["mean"].mul_(first).add_(gradient, alpha=1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        rate = group["lr"] * (1 - second ** state["step"]) ** 0.5 / (1 - first ** state["step"])
        parameter.addcdiv_(state["mean"], state["square"].sqrt().add_(group["eps"]), value=-rate)
