"""Running statistics of batch norm."""

import torch
from torch import nn


def track_biased_variance(module: nn.modules.batchnorm._BatchNorm) -> None:
    """Make a batch norm average the biased variance of its batches, as MXNet does.

    A batch norm of PyTorch normalises with the variance Σ (x − mean)² / n, but averages Σ (x − mean)² / (n − 1) for use
    in evaluation. Hooks correct the average after each step, so that the weights keep their names.
    """
    if not module.track_running_stats or module.momentum is None:
        return
    correction = _Correction()
    module.register_forward_pre_hook(correction.before)
    module.register_forward_hook(correction.after)


class _Correction:
    def before(self, module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        self.kept = (1 - module.momentum) * module.running_var if module.training else None

    def after(self, module: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        if self.kept is None:
            return
        count = inputs[0].numel() // inputs[0].shape[1]
        added = module.running_var - self.kept
        # via `data`: autograd refuses a buffer that changed since the forward pass, though it does not read this one
        module.running_var.data.copy_(self.kept + added * ((count - 1) / count))
