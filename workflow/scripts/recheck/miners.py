"""The miners of the papers: ``torch.nn.Module``s that choose the pairs or triplets that a loss sees.

    miner = recheck.miners.MultiSimilarityMiner(epsilon=0.1)
    loss = recheck.losses.MultiSimilarityLoss()
    value = loss(embeddings, labels, miner(embeddings, labels))

A miner returns a tuple of index tensors: three for triplets (anchor, positive, negative), four for pairs. Losses of
pytorch-metric-learning, and ``BoundaryMarginLoss``, take it as their third argument.

``MultiSimilarityMiner`` is pytorch-metric-learning's. ``DistanceWeightedMiner`` draws the same triplets as
pytorch-metric-learning's, but waits for a GPU only twice per batch. ``DistanceWeightedSampler`` is the miner of the
margin loss in *Unbiased Evaluation*: every positive pair of the batch gets one negative.
"""

from pytorch_metric_learning.miners import MultiSimilarityMiner

from recheck.methods.miners.distance_weighted import DistanceWeightedSampler
from recheck.methods.miners.distance_weighted_miner import DistanceWeightedMiner

__all__ = ["DistanceWeightedMiner", "DistanceWeightedSampler", "MultiSimilarityMiner"]
