"""Miners beside pytorch-metric-learning's: which pairs or triplets of a batch a loss sees."""
