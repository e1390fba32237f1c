"""Miners beside pytorch-metric-learning's: which pairs or triplets of a batch a loss sees."""

from recheck.methods.miners.distance_weighted import DistanceWeightedSampler

__all__ = ["DistanceWeightedSampler"]
