"""Miners, which choose the pairs or triplets of a batch that a loss sees, in addition to pytorch-metric-learning's."""
