"""Losses of pytorch-metric-learning that fail in some training steps, with the same values and without the failure."""
