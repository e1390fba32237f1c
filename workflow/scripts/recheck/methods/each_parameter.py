"""The loop that optimisers share: one update per parameter with a gradient."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch


class EachParameter(torch.optim.Optimizer):
    """An optimiser that updates each parameter by itself."""

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, group)
        return loss

    @abstractmethod
    def update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        """Change the parameter in place; ``self.state[parameter]`` is its state and ``group`` has the settings."""
