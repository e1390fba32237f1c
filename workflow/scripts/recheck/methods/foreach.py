"""The loop that optimisers share: on a GPU, one update of all parameters of a group together."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch


class Foreach(torch.optim.Optimizer):
    """An optimiser that updates all parameters of a group together on a GPU, and one by one on a CPU.

    ``torch._foreach_*`` gives the same result either way. On a GPU it needs a few kernel launches per group, not
    several per parameter. On a CPU one parameter at a time is faster, because it stays in the cache.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            on_cpu = all(parameter.is_cpu for parameter in parameters)
            for members in [[parameter] for parameter in parameters] if on_cpu else [parameters]:
                self.update(members, group)
        return loss

    def moments(self, parameters: list[torch.Tensor], *names: str) -> list[list[torch.Tensor]]:
        """One list of tensors per name, in the parameters' order. Tensors that do not exist yet start as zeros."""
        for parameter in parameters:
            state = self.state[parameter]
            for name in names:
                if name not in state:
                    state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return [[self.state[parameter][name] for parameter in parameters] for name in names]

    @abstractmethod
    def update(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Change the parameters in place; ``self.state`` has the state of each parameter, ``group`` the settings."""
