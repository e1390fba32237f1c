"""The baselines of the contextual study against the authors' code, built from the parts of its YAML.

Our values are computed in float64. Arrays in float32 are compared to float32's precision, float64 arrays to 1e-8.
"""

import numpy as np
import pytest
import torch

from recheck.methods.losses import build_loss, build_miner
from support.golden.contextual_losses import DOUBLE, GRADIENT, LOSS, SINGLE, case_names, close_gradient
from support.golden.fidelity import CONTEXTUAL, compares

CONTRASTIVE = {
    "class": "ContrastiveLoss",
    "pos_margin": 0.9,
    "neg_margin": 0.6,
    "distance": {"class": "CosineSimilarity"},
}
MULTI_SIMILARITY = {"class": "MultiSimilarityLoss", "alpha": 2, "beta": 50, "base": 0.5}
TRIPLET = {"class": "TripletMarginLoss", "margin": 0.05}
PLAIN = {
    "supap": {"class": "SupAPLoss"},
    "smoothap": {"class": "ContextualSmoothAPLoss", "temperature": 0.01},
    "roadmap": {"class": "RoadmapLoss"},
    "smoothap_mix": {"class": "WithContrastive", "loss": {"class": "ContextualSmoothAPLoss"}},
    "softbin": {"class": "SoftBinAPLoss"},
    "softbin_mix": {"class": "WithContrastive", "loss": {"class": "SoftBinAPLoss"}},
    "contrastive": CONTRASTIVE,
    "ms": MULTI_SIMILARITY,
    "fastap": {"class": "FastAPLoss", "num_bins": 10},
    "ntxent": {"class": "NTXentLoss", "temperature": 0.07},
    "triplet_all": TRIPLET,
}
MS_MINER = {"class": "MultiSimilarityMiner", "epsilon": 0.1}
TRIPLET_MINER = {"class": "DistanceWeightedMiner", "cutoff": 0.5, "nonzero_loss_cutoff": 1.4}
WITH_PROXIES = {
    "pa_true": ({"class": "ProxyAnchorLoss", "margin": 0.1, "alpha": 32}, "proxies", "pa_true_proxies"),
    "pa_inflated": (
        {"class": "ExtraProxyAnchorLoss", "margin": 0.1, "alpha": 32, "extra_proxies": None},
        "proxies",
        "pa_inflated_proxies",
    ),
    "proxynca_s9": ({"class": "ProxyNCALoss", "softmax_scale": 9}, "proxies", "cls_proxies"),
    "proxynca_s10": ({"class": "ProxyNCALoss", "softmax_scale": 10}, "proxies", "cls_proxies"),
    "normsoftmax_t005": ({"class": "NormalizedSoftmaxLoss", "temperature": 0.05}, "W", "cls_proxies"),
    "cosface_default": ({"class": "CosFaceLoss", "margin": 0.35, "scale": 64}, "W", "cls_proxies"),
}
"""Name -> the part, its parameter, and the array with the parameter's value (as rows)."""


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "contextual_baselines.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def cases(stored):
    return case_names(stored)


def close(ours, expected, what):
    ours = np.asarray(ours.detach())
    tolerance = DOUBLE if expected.dtype == np.float64 else SINGLE
    assert np.abs(ours - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-12), what


def inputs(stored, case):
    x = torch.from_numpy(stored[f"{case}_x"]).double().requires_grad_()
    return x, torch.from_numpy(stored[f"{case}_y"])


def compare(stored, case, name, loss, mined=()):
    x, y = inputs(stored, case)
    value = loss.double()(x, y, *mined)
    value.backward()
    close(value, stored[f"{case}_{name}"], (case, name))
    close_gradient(x.grad, stored[f"{case}_{name}_grad"], (case, name))


def built(stored, case, spec):
    x, y = inputs(stored, case)
    return build_loss(spec, len(y.unique()), x.shape[1])


@compares("loss", studies=CONTEXTUAL, parts=[spec["class"] for spec in PLAIN.values()], tolerance=LOSS)
@compares("gradient", studies=CONTEXTUAL, parts=[spec["class"] for spec in PLAIN.values()], tolerance=GRADIENT)
@pytest.mark.parametrize("name", PLAIN)
def test_losses_without_parameters(stored, cases, name):
    for case in cases:
        compare(stored, case, name, built(stored, case, PLAIN[name]))


@pytest.mark.parametrize("name", ["supap", "smoothap"])
def test_average_precision_of_each_query(stored, cases, name):
    for case in cases:
        ours = built(stored, case, PLAIN[name]).average_precision(*inputs(stored, case))
        close(ours, stored[f"{case}_{name}_per_query_AP"], (case, name))


def test_smooth_average_precision_becomes_exact_at_temperature_0(stored, cases):
    for case in cases:
        sharp = built(stored, case, {"class": "ContextualSmoothAPLoss", "temperature": 1e-9})
        close(sharp.average_precision(*inputs(stored, case)), stored[f"{case}_exact_AP_with_self"], case)


@compares("loss", studies=CONTEXTUAL, parts=[MS_MINER["class"]], tolerance=LOSS)
@compares("gradient", studies=CONTEXTUAL, parts=[MS_MINER["class"]], tolerance=GRADIENT)
def test_multi_similarity_with_its_miner(stored, cases):
    for case in cases:
        mined = build_miner(MS_MINER)(*inputs(stored, case))
        for pair, name in ((mined[:2], "pos"), (mined[2:], "neg")):
            ours, expected = torch.stack(pair, dim=1).tolist(), stored[f"{case}_ms_miner_{name}"].tolist()
            assert sorted(ours) == sorted(expected), (case, name)
        compare(stored, case, "ms_miner", built(stored, case, MULTI_SIMILARITY), (mined,))


@compares("loss", studies=CONTEXTUAL, parts=[TRIPLET_MINER["class"]], tolerance=LOSS)
@compares("gradient", studies=CONTEXTUAL, parts=[TRIPLET_MINER["class"]], tolerance=GRADIENT)
def test_triplets_of_the_distance_weighted_miner(stored, cases):
    for case in cases:
        x, y = inputs(stored, case)
        unit = torch.nn.functional.normalize(x.detach())
        given = torch.from_numpy(stored[f"{case}_triplets"])
        torch.manual_seed(0)
        for triplets in (given, torch.stack(build_miner(TRIPLET_MINER)(x, y), dim=1)):
            anchor, positive, negative = triplets.T
            assert len(triplets)
            assert (y[anchor] == y[positive]).all()
            assert (anchor != positive).all()
            assert (y[anchor] != y[negative]).all()
            assert ((unit[anchor] - unit[negative]).norm(dim=1) < TRIPLET_MINER["nonzero_loss_cutoff"]).all()
        compare(stored, case, "triplet_given", built(stored, case, TRIPLET), (tuple(given.T),))


@compares("loss", studies=CONTEXTUAL, parts=[spec["class"] for spec, *_ in WITH_PROXIES.values()], tolerance=LOSS)
@compares(
    "gradient", studies=CONTEXTUAL, parts=[spec["class"] for spec, *_ in WITH_PROXIES.values()], tolerance=GRADIENT
)
@pytest.mark.parametrize("name", WITH_PROXIES)
def test_losses_with_proxies(stored, cases, name):
    spec, attribute, array = WITH_PROXIES[name]
    for case in cases:
        values = torch.from_numpy(stored[f"{case}_{array}"]).double()
        if "extra_proxies" in spec:
            spec = spec | {"extra_proxies": len(values) - len(np.unique(stored[f"{case}_y"]))}
        loss = built(stored, case, spec)
        parameter = getattr(loss, attribute)
        values = values.T if attribute == "W" else values
        assert parameter.shape == values.shape
        parameter.data = values.clone()
        compare(stored, case, name, loss)
        suffix = "W" if attribute == "W" else "proxies"
        close_gradient(getattr(loss, attribute).grad, stored[f"{case}_{name}_grad{suffix}"], (case, name))


def test_every_array_is_compared(stored):
    names = [*PLAIN, "ms_miner", "triplet_given"]
    known = {"x", "y", "triplets", "ms_miner_pos", "ms_miner_neg", "exact_AP_with_self", "cls_proxies"}
    known |= {"supap_per_query_AP", "smoothap_per_query_AP", "pa_true_proxies", "pa_inflated_proxies"}
    known |= {f"{name}{suffix}" for name in [*names, *WITH_PROXIES] for suffix in ("", "_grad")}
    known |= {f"{name}_grad{suffix}" for name in WITH_PROXIES for suffix in ("W", "proxies")}
    assert {key for key in stored if key.partition("_")[2] not in known} == set()
