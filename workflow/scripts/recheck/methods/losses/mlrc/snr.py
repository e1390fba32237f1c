"""The signal-to-noise-ratio loss as computed when the reality check was run."""

from typing import Any

import torch
from pytorch_metric_learning.losses import SignalToNoiseRatioContrastiveLoss
from torch.nn.functional import normalize


class UnitSNRContrastiveLoss(SignalToNoiseRatioContrastiveLoss):
    """Normalises embeddings for the regulariser too; today's library regularises the raw embeddings."""

    def forward(self, embeddings: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super().forward(normalize(embeddings), *args, **kwargs)
