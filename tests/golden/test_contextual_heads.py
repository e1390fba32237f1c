"""Pooling, heads and the projector of the contextual study against the authors' code, in float64."""

import numpy as np
import pytest
import torch

from recheck.models.heads import LayerNormLinear
from recheck.models.norm import unit
from recheck.models.pooling import build_pooling
from recheck.models.projector import LinearProjector
from support.golden.fidelity import CONTEXTUAL, both, compares

DOUBLE, SINGLE = 1e-8, 1e-5
TOLERANCE = both(DOUBLE, SINGLE)
POOLING = {
    "gem_p3": {"class": "GeM", "p": 3},
    "avg": {"class": "Average"},
    "max": {"class": "Max"},
    "avg_plus_max": {"class": "AveragePlusMax"},
}
SPHERES = {"emb224": "gem_p3", "emb256_sop_inat_inshop": "avg"}


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "contextual_heads.npz") as arrays:
        return dict(arrays)


def tensor(stored, name):
    return torch.from_numpy(stored[name]).double()


def close(ours, expected):
    tolerance = DOUBLE if expected.dtype == np.float64 else SINGLE
    assert np.abs(ours.detach().numpy() - expected).max() <= tolerance * np.abs(expected).max()


def pooled(stored, name):
    return build_pooling(POOLING[name])(tensor(stored, "fmap"))


def with_weights(layer, weight, bias=None):
    layer.double().weight.data = weight
    if bias is not None:
        layer.bias.data = bias
    return layer


@compares("network", studies=CONTEXTUAL, tolerance=TOLERANCE)
@pytest.mark.parametrize("name", POOLING)
def test_pooling(stored, name):
    close(pooled(stored, name), stored[name])


@compares("network", studies=CONTEXTUAL, parts=["Linear"], tolerance=TOLERANCE)
@pytest.mark.parametrize("name", SPHERES)
def test_linear_heads(stored, name):
    linear = torch.nn.functional.linear(pooled(stored, SPHERES[name]), tensor(stored, "W"), tensor(stored, "b"))
    close(unit(linear, 1e-12), stored[name])


@compares("network", studies=CONTEXTUAL, parts=["LayerNormLinear"], tolerance=TOLERANCE)
def test_layer_norm_head(stored):
    dim, features = stored["W"].shape
    head = with_weights(LayerNormLinear(features, dim), tensor(stored, "W"), tensor(stored, "b"))
    close(head(pooled(stored, "max")), stored["emb256_cubcars"])


@compares("network", studies=CONTEXTUAL, parts=["LinearProjector"], tolerance=TOLERANCE)
def test_projector(stored):
    dim, features = stored["W_bottleneck"].shape
    projector = with_weights(LinearProjector(features, dim), tensor(stored, "W_bottleneck"))
    assert projector.bias is None
    close(projector(tensor(stored, "emb224")), stored["train_space224"])


def test_every_array_is_compared(stored):
    known = {*POOLING, *SPHERES, "fmap", "W", "b", "W_bottleneck", "train_space224", "emb256_cubcars"}
    assert set(stored) == known
