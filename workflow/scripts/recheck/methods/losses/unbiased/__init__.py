"""Losses of *Unbiased Evaluation of Deep Metric Learning Algorithms*."""
