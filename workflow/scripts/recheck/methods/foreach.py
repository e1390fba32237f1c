"""The loop that optimisers share: one update per parameter group, of all its parameters together."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch


class Foreach(torch.optim.Optimizer):
    """An optimiser that updates all parameters of a group together.

    ``torch._foreach_*`` computes the same as one call per parameter, and on a GPU it needs a few launches per group
    instead of several per parameter.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if parameters := [parameter for parameter in group["params"] if parameter.grad is not None]:
                self.update(parameters, group)
        return loss

    def moments(self, parameters: list[torch.Tensor], *names: str) -> list[list[torch.Tensor]]:
        """One list of tensors per name, in the parameters' order. Tensors that do not exist yet start with zeros."""
        for parameter in parameters:
            state = self.state[parameter]
            for name in names:
                if name not in state:
                    state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return [[self.state[parameter][name] for parameter in parameters] for name in names]

    @abstractmethod
    def update(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Change the parameters in place; ``self.state`` has the state of each and ``group`` has the settings."""
