"""Losses and miners by name: pytorch-metric-learning's, the ones of this folder, or a user's own ``module:Class``.

A loss is called as ``loss(embeddings, labels)``, and with ``miner(embeddings, labels)`` as third argument if there is a
miner. Embeddings are the model's raw float32 outputs, labels the ranks 0…T-1 of the fold's training classes. With the
forward pass ``MultiView`` there are several embeddings of each image: (views, batch, dimension).
"""

import sys
from typing import Any

from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from torch import nn

from recheck.methods.losses.mined_multi_similarity import MinedMultiSimilarityLoss
from recheck.methods.losses.mined_triplet import MinedTripletLoss
from recheck.methods.losses.ntxent import FlooredNTXentLoss
from recheck.methods.losses.positive_negative import PositiveNegativeLoss
from recheck.methods.losses.shifted_distance import ShiftedLpDistance
from recheck.methods.losses.snr import UnitSNRContrastiveLoss
from recheck.methods.losses.two_sided_circle import TwoSidedCircleLoss
from recheck.methods.losses.within_pair import WithinPairLoss
from recheck.registry import build

__all__ = [
    "FlooredNTXentLoss",
    "MinedMultiSimilarityLoss",
    "MinedTripletLoss",
    "PositiveNegativeLoss",
    "ShiftedLpDistance",
    "TwoSidedCircleLoss",
    "UnitSNRContrastiveLoss",
    "WithinPairLoss",
]
PARTS = [sys.modules[__name__], losses, distances, reducers, regularizers]


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return build(spec, PARTS, "loss", num_classes=num_classes, embedding_size=embedding_size)


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return build(spec, [miners, distances], "miner") if spec else None
