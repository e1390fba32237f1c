"""The signal-to-noise-ratio loss as it was computed when the reality check was run."""

from pytorch_metric_learning.losses import SignalToNoiseRatioContrastiveLoss
from torch.nn.functional import normalize


class UnitSNRContrastiveLoss(SignalToNoiseRatioContrastiveLoss):
    """The embedding regulariser too sees embeddings of length 1; today's library gives it the raw ones."""

    def forward(self, embeddings, *args, **kwargs):
        return super().forward(normalize(embeddings), *args, **kwargs)
