"""Build losses, samplers, heads and other *parts* of a run from ``{class: TripletMarginLoss, margin: 0.1}``.

``class`` is a name listed here or a user's ``module:Class``. Snakemake imports this module while it parses the
workflow, so the module of a part is imported only when the part is built.
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

from recheck.blame import check_class, explain, place_of, user_code
from recheck.errors import UserError, nearest
from recheck.names import MODULE_ATTRIBUTE, WEIGHTS_SUFFIXES
from recheck.user_code import module_files


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# kind → module → its classes, or for transforms, name in YAML → class
KINDS: dict[str, dict[str, tuple[str, ...] | dict[str, str]]] = {
    "loss": {
        "recheck.methods.losses.contextual.contextual": ("ContextualLoss",),
        "recheck.methods.losses.contextual.contrastive": ("WithContrastive",),
        "recheck.methods.losses.contextual.extra_proxies": ("ExtraProxyAnchorLoss", "ExtraProxyNCALoss"),
        "recheck.methods.losses.contextual.hybrid": ("HybridLoss",),
        "recheck.methods.losses.contextual.similarity_regulariser": (
            "SimilarityRegulariser",
            "WithSimilarityRegulariser",
        ),
        "recheck.methods.losses.contextual.smooth_ap": ("ContextualSmoothAPLoss",),
        "recheck.methods.losses.contextual.soft_bin_ap": ("SoftBinAPLoss",),
        "recheck.methods.losses.contextual.sup_ap": ("RoadmapLoss", "SupAPLoss"),
        "recheck.methods.losses.hypvit.pair_cross_entropy": ("PairCrossEntropyLoss",),
        "recheck.methods.losses.library.dynamic_soft_margin": ("DynamicSoftMarginLoss",),
        "recheck.methods.losses.library.histogram": ("HistogramLoss",),
        "recheck.methods.losses.library.p2s_grad": ("P2SGradLoss",),
        "recheck.methods.losses.mlrc.ntxent": ("FlooredNTXentLoss",),
        "recheck.methods.losses.mlrc.snr": ("UnitSNRContrastiveLoss",),
        "recheck.methods.losses.mlrc.within_pair": ("WithinPairLoss",),
        "recheck.methods.losses.tfsim.mined_multi_similarity": ("MinedMultiSimilarityLoss",),
        "recheck.methods.losses.tfsim.mined_triplet": ("MinedTripletLoss",),
        "recheck.methods.losses.tfsim.positive_negative": ("PositiveNegativeLoss",),
        "recheck.methods.losses.tfsim.two_sided_circle": ("TwoSidedCircleLoss",),
        "recheck.methods.losses.unbiased.angular_pair": ("AngularPairLoss",),
        "recheck.methods.losses.unbiased.boundary_margin": ("BoundaryMarginLoss",),
        "recheck.methods.losses.unbiased.discriminative": ("DiscriminativeLoss",),
        "recheck.methods.losses.unbiased.facility_location": ("FacilityLocationLoss",),
        "recheck.methods.losses.unbiased.norm_proxy": ("NormProxyLoss",),
        "recheck.methods.losses.unbiased.npair": ("NPairLoss",),
        "recheck.methods.losses.unbiased.prototypical": ("PrototypicalLoss",),
        "recheck.methods.losses.unbiased.proxy_nca": ("ExclusiveProxyNCALoss",),
        "recheck.methods.losses.unbiased.proxy_triplet": ("ProxyTripletLoss",),
        "recheck.methods.losses.unbiased.ranked_list": ("UnbiasedRankedListLoss",),
        "recheck.methods.losses.unbiased.scaled": ("ScaledLoss",),
        "recheck.methods.losses.unbiased.semihard_triplet": ("SemiHardTripletLoss",),
        "pytorch_metric_learning.losses": _words(
            "AngularLoss ArcFaceLoss CircleLoss ContrastiveLoss CosFaceLoss CrossBatchMemory "
            "FastAPLoss GeneralizedLiftedStructureLoss InstanceLoss "
            "IntraPairVarianceLoss LargeMarginSoftmaxLoss LiftedStructureLoss ManifoldLoss MarginLoss "
            "MultiSimilarityLoss MultipleLosses NCALoss NPairsLoss NTXentLoss NormalizedSoftmaxLoss "
            "PNPLoss ProxyAnchorLoss ProxyNCALoss RankedListLoss SelfSupervisedLoss "
            "SignalToNoiseRatioContrastiveLoss SmoothAPLoss SoftTripleLoss SphereFaceLoss "
            "SubCenterArcFaceLoss SupConLoss ThresholdConsistentMarginLoss TripletMarginLoss TupletMarginLoss "
            "VICRegLoss"
        ),
    },
    "miner": {
        "recheck.methods.miners.distance_weighted": ("DistanceWeightedSampler",),
        "recheck.methods.miners.distance_weighted_miner": ("DistanceWeightedMiner",),
        "pytorch_metric_learning.miners": _words(
            "AngularMiner BatchEasyHardMiner BatchHardMiner EmbeddingsAlreadyPackagedAsTriplets HDCMiner "
            "MultiSimilarityMiner PairMarginMiner TripletMarginMiner UniformHistogramMiner"
        ),
    },
    "distance": {
        "recheck.methods.losses.hypvit.poincare_distance": ("PoincareDistance",),
        "recheck.methods.losses.mlrc.shifted_distance": ("ShiftedLpDistance",),
        "pytorch_metric_learning.distances": _words("CosineSimilarity DotProductSimilarity LpDistance SNRDistance"),
    },
    "reducer": {
        "pytorch_metric_learning.reducers": _words(
            "AvgNonZeroReducer ClassWeightedReducer DivisorReducer DoNothingReducer MeanReducer "
            "MultipleReducers PerAnchorReducer SumReducer ThresholdReducer"
        ),
    },
    "regulariser": {
        "pytorch_metric_learning.regularizers": _words(
            "CenterInvariantRegularizer LpRegularizer RegularFaceRegularizer SparseCentersRegularizer "
            "ZeroMeanRegularizer"
        ),
    },
    "sampler": {
        "recheck.methods.samplers.balanced_classes": ("BalancedClasses",),
        "recheck.methods.samplers.balanced_rounds": ("BalancedRounds",),
        "recheck.methods.samplers.episodes": ("Episodes",),
        "recheck.methods.samplers.hierarchical": ("Hierarchical",),
        "recheck.methods.samplers.m_per_class": ("MPerClass",),
        "recheck.methods.samplers.pairs": ("Pairs",),
        "recheck.methods.samplers.random_class_groups": ("RandomClassGroups",),
        "recheck.methods.samplers.shuffled": ("Shuffled",),
    },
    "forward": {"recheck.methods.forward": ("InTurns", "MultiView", "Recomputed", "Single")},
    "relabel": {"recheck.methods.relabelling": ("MetaClasses",)},
    "pooling": {
        "recheck.models.pooling": ("Average", "AveragePlusMax", "GeM", "Max"),
        "recheck.models.shifted_gem": ("ShiftedGeM",),
    },
    "head": {
        "recheck.models.heads": (
            "DiscriminativeHead",
            "Identity",
            "LayerNormLinear",
            "Linear",
            "NormProxyHead",
            "PoincareBall",
        ),
    },
    "projector": {"recheck.models.projector": ("LinearProjector",)},
    "optimiser": {
        "recheck.methods.mxnet_adam": ("MXNetAdam",),
        "recheck.methods.mxnet_sgd": ("MXNetSGD",),
        "torch.optim": _words(
            "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam RAdam RMSprop Rprop SGD SparseAdam"
        ),
    },
    "lr_schedule": {
        "torch.optim.lr_scheduler": _words(
            "ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR "
            "LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau "
            "SequentialLR StepLR"
        ),
    },
    "transform": {
        "recheck.data.transforms": {
            "center_crop": "CenterCrop",
            "horizontal_flip": "HorizontalFlip",
            "rand_augment": "RandAugment",
            "random_crop": "RandomCrop",
            "random_resized_crop": "RandomResizedCrop",
            "resize": "Resize",
        },
    },
}
# Arguments whose value is a part, with the argument's name as its kind.
NESTED = ("distance", "loss", "lr_schedule", "miner", "reducer")


def names(kind: str | None) -> list[str]:
    """Names of all listed classes of a kind, or of every kind if it is None."""
    return [name for modules in _modules(kind) for classes in modules.values() for name in classes]


def check(spec: Any, kind: str | None, source: str, key: str | None = None) -> None:
    """Refuse a part if its class, or that of a part nested in it, is unknown; nothing is imported.

    A user's file is read for its names, not run.

    ``key`` is the part's key in the study, for the error message.
    """
    key = key or kind
    if not isinstance(spec, dict) or not isinstance(spec.get("class"), str):
        raise UserError(f"{source}: '{key}' must have the form {{class: …}}, found {spec!r:.80}.")
    name, is_own = spec["class"], MODULE_ATTRIBUTE.fullmatch(spec["class"])
    if not is_own and name not in names(kind):
        raise UserError(
            f"{source}: unknown class '{name}' in '{key}'; {nearest(name, names(kind))}, or 'module:Class'."
        )
    if is_own:
        check_class(name, source, key)
    for argument, value in spec.items():
        # Arguments of a user's class may have any value.
        expected = _kind_of(argument) is not None and value is not None and not is_own
        if expected or _is_part(value):
            check(value, _kind_of(argument), source, f"{key}.{argument}")


def build(spec: dict[str, Any], kind: str | None, what: str | None = None, **context: Any) -> Any:
    """Object that a part describes; nested parts (a distance, a reducer, a regulariser) are built first.

    ``context`` holds values of the run (``num_classes``, ``embedding_size``, …). They are passed to classes that have
    such an argument, unless the part sets it.
    """
    what = what or kind
    cls = find(spec["class"], kind, what)
    arguments = {
        key: build(value, _kind_of(key), key, **context) if _is_part(value) else value
        for key, value in spec.items()
        if key != "class"
    }
    accepted = _accepted(cls)
    for key in arguments:
        if key not in accepted:
            raise UserError(f"Unknown argument '{key}' of {what} '{spec['class']}'; {nearest(key, accepted)}.")
    filled = {key: value for key, value in context.items() if key in accepted and key not in arguments}
    if missing := [key for key in _required(cls) if key not in arguments and key not in filled]:
        raise UserError(_incomplete(what, spec["class"], cls, missing))
    with user_code(what, cls, **filled):
        try:
            return cls(**arguments, **filled)
        except (TypeError, ValueError, AssertionError) as error:
            raised = explain(error) or f"{error}."
            raise UserError(f"Cannot build {what} '{spec['class']}' with arguments {arguments}: {raised}") from error


def module_of(part: Any, spec: dict[str, Any], what: str) -> Any:
    """``part``, which must be a torch.nn.Module."""
    if not all(hasattr(part, name) for name in ("parameters", "state_dict", "to")):
        raise UserError(
            f"The {what} '{spec['class']}' must be a class derived from torch.nn.Module, found "
            f"{type(part).__name__}: derive it, and call `super().__init__()` in its `__init__`."
        )
    return part


def takes(spec: dict[str, Any], kind: str, argument: str) -> bool:
    """Whether the class of a part has an argument of that name."""
    return argument in _accepted(find(spec["class"], kind))


def find(name: str, kind: str | None, what: str | None = None) -> Any:
    """The class with this listed name, or of this ``module:Class``."""
    if ":" in name:
        return load(name, what or kind)
    for modules in _modules(kind):
        for module, classes in modules.items():
            if name in classes:
                return getattr(importlib.import_module(module), classes[name] if isinstance(classes, dict) else name)
    raise UserError(f"Unknown {what or kind} '{name}'; {nearest(name, names(kind))}, or 'module:Class'.")


def load(name: str, what: str) -> Any:
    """Object that ``module:attribute`` names; the module is a file beside the Snakefile, or installed."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and (missing == module_name or module_name.startswith(f"{missing}.")):
            file = f"{module_name.replace('.', '/')}.py"
            raise UserError(
                f"Cannot import module '{missing}' of {what} '{name}': put {file} beside the Snakefile."
            ) from None
        if message := explain(error):
            raise UserError(f"Cannot import {what} '{name}': {message}") from error
        raise
    if not hasattr(module, attribute):
        raise UserError(
            f"Module '{module_name}' has no '{attribute}': check the {what} '{name}'; "
            f"{nearest(attribute, [known for known in vars(module) if not known.startswith('_')])}."
        )
    return getattr(module, attribute)


def own_files(configuration: Any) -> list[str]:
    """The user's files that run settings use: modules of ``module:Class`` with everything they import, and weights.

    They are part of a run's fingerprint, so editing one of them starts a new run.
    """
    if isinstance(configuration, (dict, list)):
        values = configuration.values() if isinstance(configuration, dict) else configuration
        return sorted({file for value in values for file in own_files(value)})
    if not isinstance(configuration, str):
        return []
    if MODULE_ATTRIBUTE.fullmatch(configuration):
        return module_files(configuration.partition(":")[0])
    path = Path(configuration)
    return [str(path)] if path.suffix in (".py", *WEIGHTS_SUFFIXES) and path.is_file() else []


def _modules(kind: str | None) -> list[dict[str, tuple[str, ...] | dict[str, str]]]:
    return list(KINDS.values()) if kind is None else [KINDS[kind]]


def _kind_of(argument: str) -> str | None:
    """Kind of part that an argument takes, or None if the name of the argument implies none."""
    if str(argument).endswith("regularizer"):
        return "regulariser"
    return argument if argument in NESTED else None


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and "class" in value


def _required(cls: Any) -> list[str]:
    """Names of the arguments without a default value."""
    parameters = inspect.signature(cls).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty]


def _incomplete(what: str, name: str, cls: Any, missing: list[str]) -> str:
    """The error message for arguments that neither the study nor Recheck provides."""
    if inspect.isfunction(cls):
        return f"{place_of(cls)}: the {what} '{name}' is a function. It must be a class (docs/extending.md)."
    listed = ", ".join(f"'{key}'" for key in missing)
    them = "them" if len(missing) > 1 else "it"
    return (
        f"The {what} '{name}' needs the argument{'s' if len(missing) > 1 else ''} {listed}: add {them} to the settings "
        f"of the {what} in the study{f', or give {them} a default value' if MODULE_ATTRIBUTE.fullmatch(name) else ''}."
    )


def _accepted(cls: Any) -> set[str]:
    """Names of a class's arguments, including those that it passes to its parents (``**kwargs``)."""
    names: set[str] = set()
    for parent in inspect.getmro(cls) if inspect.isclass(cls) else (cls,):
        parameters = inspect.signature(parent).parameters.values()
        names.update(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return names
