"""The losses of the papers, as ``torch.nn.Module``s for any training loop.

    loss = recheck.losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    value = loss(embeddings, labels)  # one number; value.backward() differentiates it

``embeddings`` are the raw outputs of a network, (batch, dimensions) in float32 or float64; a loss normalises them
itself where its paper does. ``labels`` are whole numbers, (batch,). For losses with one proxy per class, labels start
at 0. Pair and triplet losses of pytorch-metric-learning take the result of a miner as their third argument.

Some losses need a special kind of batch, and raise an error that describes it if they get any other:

- ``NPairLoss`` and ``AngularPairLoss``: the batches of ``recheck.samplers.Pairs``;
- ``PrototypicalLoss``: the batches of ``recheck.samplers.Episodes``;
- ``PairCrossEntropyLoss``: ``per_class`` images of each class, one after another;
- ``DiscriminativeLoss``: embeddings with one dimension per class;
- ``WithinPairLoss``: several views of each image, as embeddings of shape (views, batch, dimensions).

**A Metric Learning Reality Check** and within-pair mining: ``ArcFaceLoss``, ``ContrastiveLoss``, ``CosFaceLoss``,
``FastAPLoss``, ``FlooredNTXentLoss``, ``MarginLoss``, ``MultiSimilarityLoss``, ``NormalizedSoftmaxLoss``,
``NTXentLoss``, ``ProxyNCALoss``, ``SoftTripleLoss``, ``TripletMarginLoss``, ``UnitSNRContrastiveLoss``,
``WithinPairLoss``.

**Unbiased Evaluation of Deep Metric Learning Algorithms**: ``AngularPairLoss``, ``BoundaryMarginLoss``,
``DiscriminativeLoss``, ``ExclusiveProxyNCALoss``, ``FacilityLocationLoss``, ``LiftedStructureLoss``, ``NormProxyLoss``,
``NPairLoss``, ``PrototypicalLoss``, ``ProxyTripletLoss``, ``ScaledLoss``, ``SemiHardTripletLoss``,
``UnbiasedRankedListLoss``.

**Contextual Similarity Optimization**: ``ContextualLoss``, ``ContextualSmoothAPLoss``, ``ExtraProxyAnchorLoss``,
``ExtraProxyNCALoss``, ``HybridLoss``, ``ProxyAnchorLoss``, ``RoadmapLoss``, ``SimilarityRegulariser``,
``SoftBinAPLoss``, ``SupAPLoss``, ``WithContrastive``, ``WithSimilarityRegulariser``.

**Hyperbolic Vision Transformers**: ``PairCrossEntropyLoss``.

**Others that method files use**: ``SupConLoss``, ``ThresholdConsistentMarginLoss``.

**pytorch-metric-learning, corrected where the library's version fails**: ``DynamicSoftMarginLoss``, ``HistogramLoss``,
``P2SGradLoss``.

**TensorFlow Similarity**: ``MinedMultiSimilarityLoss``, ``MinedTripletLoss``, ``PositiveNegativeLoss``,
``TwoSidedCircleLoss``.

docs/fidelity.md lists which of these losses were tested against the outputs of the original program, and how closely
they agree. Losses that Recheck does not implement itself come unchanged from pytorch-metric-learning.
"""

from pytorch_metric_learning.losses import (
    ArcFaceLoss,
    ContrastiveLoss,
    CosFaceLoss,
    FastAPLoss,
    LiftedStructureLoss,
    MarginLoss,
    MultiSimilarityLoss,
    NormalizedSoftmaxLoss,
    NTXentLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    SoftTripleLoss,
    SupConLoss,
    ThresholdConsistentMarginLoss,
    TripletMarginLoss,
)

from recheck.methods.losses.contextual.contextual import ContextualLoss
from recheck.methods.losses.contextual.contrastive import WithContrastive
from recheck.methods.losses.contextual.extra_proxies import ExtraProxyAnchorLoss, ExtraProxyNCALoss
from recheck.methods.losses.contextual.hybrid import HybridLoss
from recheck.methods.losses.contextual.similarity_regulariser import SimilarityRegulariser, WithSimilarityRegulariser
from recheck.methods.losses.contextual.smooth_ap import ContextualSmoothAPLoss
from recheck.methods.losses.contextual.soft_bin_ap import SoftBinAPLoss
from recheck.methods.losses.contextual.sup_ap import RoadmapLoss, SupAPLoss
from recheck.methods.losses.hypvit.pair_cross_entropy import PairCrossEntropyLoss
from recheck.methods.losses.library.dynamic_soft_margin import DynamicSoftMarginLoss
from recheck.methods.losses.library.histogram import HistogramLoss
from recheck.methods.losses.library.p2s_grad import P2SGradLoss
from recheck.methods.losses.mlrc.ntxent import FlooredNTXentLoss
from recheck.methods.losses.mlrc.snr import UnitSNRContrastiveLoss
from recheck.methods.losses.mlrc.within_pair import WithinPairLoss
from recheck.methods.losses.tfsim.mined_multi_similarity import MinedMultiSimilarityLoss
from recheck.methods.losses.tfsim.mined_triplet import MinedTripletLoss
from recheck.methods.losses.tfsim.positive_negative import PositiveNegativeLoss
from recheck.methods.losses.tfsim.two_sided_circle import TwoSidedCircleLoss
from recheck.methods.losses.unbiased.angular_pair import AngularPairLoss
from recheck.methods.losses.unbiased.boundary_margin import BoundaryMarginLoss
from recheck.methods.losses.unbiased.discriminative import DiscriminativeLoss
from recheck.methods.losses.unbiased.facility_location import FacilityLocationLoss
from recheck.methods.losses.unbiased.norm_proxy import NormProxyLoss
from recheck.methods.losses.unbiased.npair import NPairLoss
from recheck.methods.losses.unbiased.prototypical import PrototypicalLoss
from recheck.methods.losses.unbiased.proxy_nca import ExclusiveProxyNCALoss
from recheck.methods.losses.unbiased.proxy_triplet import ProxyTripletLoss
from recheck.methods.losses.unbiased.ranked_list import UnbiasedRankedListLoss
from recheck.methods.losses.unbiased.scaled import ScaledLoss
from recheck.methods.losses.unbiased.semihard_triplet import SemiHardTripletLoss

__all__ = [
    "AngularPairLoss",
    "ArcFaceLoss",
    "BoundaryMarginLoss",
    "ContextualLoss",
    "ContextualSmoothAPLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "DiscriminativeLoss",
    "DynamicSoftMarginLoss",
    "ExclusiveProxyNCALoss",
    "ExtraProxyAnchorLoss",
    "ExtraProxyNCALoss",
    "FacilityLocationLoss",
    "FastAPLoss",
    "FlooredNTXentLoss",
    "HistogramLoss",
    "HybridLoss",
    "LiftedStructureLoss",
    "MarginLoss",
    "MinedMultiSimilarityLoss",
    "MinedTripletLoss",
    "MultiSimilarityLoss",
    "NPairLoss",
    "NTXentLoss",
    "NormProxyLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
    "PairCrossEntropyLoss",
    "PositiveNegativeLoss",
    "PrototypicalLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "ProxyTripletLoss",
    "RoadmapLoss",
    "ScaledLoss",
    "SemiHardTripletLoss",
    "SimilarityRegulariser",
    "SoftBinAPLoss",
    "SoftTripleLoss",
    "SupAPLoss",
    "SupConLoss",
    "ThresholdConsistentMarginLoss",
    "TripletMarginLoss",
    "TwoSidedCircleLoss",
    "UnbiasedRankedListLoss",
    "UnitSNRContrastiveLoss",
    "WithContrastive",
    "WithSimilarityRegulariser",
    "WithinPairLoss",
]
