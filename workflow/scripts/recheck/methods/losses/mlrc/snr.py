"""The signal-to-noise-ratio loss as computed when the reality check was run."""

from typing import Any

import torch
from pytorch_metric_learning.losses import SignalToNoiseRatioContrastiveLoss
from torch.nn.functional import normalize


class UnitSNRContrastiveLoss(SignalToNoiseRatioContrastiveLoss):
    """pytorch-metric-learning's ``SignalToNoiseRatioContrastiveLoss``, with its regulariser on normalised embeddings.

    Today's library regularises the raw embeddings.
    """

    def forward(self, embeddings: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super().forward(normalize(embeddings), *args, **kwargs)
