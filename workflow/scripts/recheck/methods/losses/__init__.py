"""Losses and miners by name: pytorch-metric-learning's, the ones of this folder, or a user's own ``module:Class``.

A loss is called as ``loss(embeddings, labels)``, and with ``miner(embeddings, labels)`` as third argument if there is a
miner. Embeddings are the model's raw float32 outputs, labels the ranks 0…T-1 of the fold's training classes. With the
forward pass ``MultiView`` there are several embeddings of each image: (views, batch, dimension).
"""

import sys
from typing import Any

from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from torch import nn

from recheck.methods import miners as own_miners
from recheck.methods.losses.angular_pair import AngularPairLoss
from recheck.methods.losses.boundary_margin import BoundaryMarginLoss
from recheck.methods.losses.contextual import ContextualLoss
from recheck.methods.losses.contrastive import WithContrastive
from recheck.methods.losses.discriminative import DiscriminativeLoss
from recheck.methods.losses.extra_proxies import ExtraProxyAnchorLoss, ExtraProxyNCALoss
from recheck.methods.losses.facility_location import FacilityLocationLoss
from recheck.methods.losses.hybrid import HybridLoss
from recheck.methods.losses.mined_multi_similarity import MinedMultiSimilarityLoss
from recheck.methods.losses.mined_triplet import MinedTripletLoss
from recheck.methods.losses.norm_proxy import NormProxyLoss
from recheck.methods.losses.npair import NPairLoss
from recheck.methods.losses.ntxent import FlooredNTXentLoss
from recheck.methods.losses.positive_negative import PositiveNegativeLoss
from recheck.methods.losses.prototypical import PrototypicalLoss
from recheck.methods.losses.proxy_nca import ExclusiveProxyNCALoss
from recheck.methods.losses.proxy_triplet import ProxyTripletLoss
from recheck.methods.losses.ranked_list import UnbiasedRankedListLoss
from recheck.methods.losses.scaled import ScaledLoss
from recheck.methods.losses.semihard_triplet import SemiHardTripletLoss
from recheck.methods.losses.shifted_distance import ShiftedLpDistance
from recheck.methods.losses.similarity_regulariser import SimilarityRegulariser, WithSimilarityRegulariser
from recheck.methods.losses.smooth_ap import ContextualSmoothAPLoss
from recheck.methods.losses.snr import UnitSNRContrastiveLoss
from recheck.methods.losses.soft_bin_ap import SoftBinAPLoss
from recheck.methods.losses.sup_ap import RoadmapLoss, SupAPLoss
from recheck.methods.losses.two_sided_circle import TwoSidedCircleLoss
from recheck.methods.losses.within_pair import WithinPairLoss
from recheck.registry import build

__all__ = [
    "AngularPairLoss",
    "BoundaryMarginLoss",
    "ContextualLoss",
    "ContextualSmoothAPLoss",
    "DiscriminativeLoss",
    "ExclusiveProxyNCALoss",
    "ExtraProxyAnchorLoss",
    "ExtraProxyNCALoss",
    "FacilityLocationLoss",
    "FlooredNTXentLoss",
    "HybridLoss",
    "MinedMultiSimilarityLoss",
    "MinedTripletLoss",
    "NPairLoss",
    "NormProxyLoss",
    "PositiveNegativeLoss",
    "PrototypicalLoss",
    "ProxyTripletLoss",
    "RoadmapLoss",
    "ScaledLoss",
    "SemiHardTripletLoss",
    "ShiftedLpDistance",
    "SimilarityRegulariser",
    "SoftBinAPLoss",
    "SupAPLoss",
    "TwoSidedCircleLoss",
    "UnbiasedRankedListLoss",
    "UnitSNRContrastiveLoss",
    "WithContrastive",
    "WithSimilarityRegulariser",
    "WithinPairLoss",
]
PARTS = [sys.modules[__name__], losses, distances, reducers, regularizers]


def build_loss(spec: dict[str, Any], num_classes: int, embedding_size: int) -> nn.Module:
    return build(spec, PARTS, "loss", num_classes=num_classes, embedding_size=embedding_size)


def build_miner(spec: dict[str, Any] | None) -> nn.Module | None:
    return build(spec, [own_miners, miners, distances], "miner") if spec else None
