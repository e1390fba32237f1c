"""Losses of pytorch-metric-learning that fail in some training steps, corrected; their values are the same."""
