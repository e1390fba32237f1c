"""Losses of the calibration study against TensorFlow Similarity: the benchmark's release and the last one.

Arrays from the benchmark's release are called legacy, those from the last release fixed.

The originals were computed in float32. In float32 and from the stored distances, our losses are equal to 1e-6. From
embeddings, our losses are computed in float64. The names of the arrays contain the hyper-parameters.
"""

import re

import numpy as np
import pytest
import torch

from recheck.methods.losses import build_loss
from recheck.methods.losses.tfsim.per_anchor import Pairs
from support.golden.fidelity import compares

VALUE, GRADIENT = 1e-6, 2e-5  # relative; for gradients, to the largest entry
ROUNDING = 5e-7  # absolute: rounding of float32 distances, which dominates for an anchor close to its margin
# from embeddings: the rounding of a distance is multiplied by gamma, in exponents of several hundred
CIRCLE = {"value": 2e-5, "gradient": 1e-3}
LOSSES = ("TwoSidedCircleLoss", "MinedMultiSimilarityLoss", "MinedTripletLoss", "PositiveNegativeLoss")
MINING = {"semihard": "semi-hard", "hard": "hard", "easy": "easy"}


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "tfsim_losses.npz") as arrays:
        return dict(arrays)


def number(digits):
    """``025`` is 0.25, ``1`` is 1 and ``50`` is 50."""
    return float(f"0.{digits[1:]}" if len(digits) > 1 and digits[0] == "0" else digits)


def spec_of(name, maths):
    """The loss in YAML for a name such as ``pn_semihard_m01``."""
    if match := re.fullmatch(r"circle_g(\d+)_m(\d+)", name):
        return {"class": "TwoSidedCircleLoss", "gamma": number(match[1]), "margin": number(match[2]), "maths": maths}
    if match := re.fullmatch(r"ms_(?:[a-z]+_)?a(\d+)_b(\d+)_e(\d+)_l(\d+)(?:_c(\d+))?", name):
        keys = ("alpha", "beta", "epsilon", "lmda", "center")
        given = {key: number(value) for key, value in zip(keys, match.groups(), strict=True) if value}
        return {"class": "MinedMultiSimilarityLoss", "maths": maths, **given}
    match = re.fullmatch(r"(pn|triplet)_(?:(easy|hard)pos_)?(semihard|hard|easy)_(?:m(\d+)|(soft))", name)
    assert match, f"unknown loss {name}"
    loss, positive, negative, margin, soft = match.groups()
    return {
        "class": {"pn": "PositiveNegativeLoss", "triplet": "MinedTripletLoss"}[loss],
        "positive_mining": positive or "hard",
        "negative_mining": MINING[negative],
        **({"soft_margin": True} if soft else {"margin": number(margin)}),
        "incomplete_anchors": "count",
        "maths": maths,
    }


def cases(stored):
    """(case, maths, name) of all stored values."""
    matches = [re.fullmatch(r"([^_]+)_(legacy|fixed)_(.+)_per", key) for key in stored]
    return [match.groups() for match in matches if match]


def loss_and_inputs(stored, case, maths, name):
    loss = build_loss(spec_of(name, maths), num_classes=None, embedding_size=None)
    embeddings = torch.from_numpy(stored[f"{case}_e"]).double().requires_grad_()
    return loss, embeddings, torch.from_numpy(stored[f"{case}_y"])


def test_every_loss_is_among_the_arrays(stored):
    names = {(spec_of(name, maths)["class"], maths) for _, maths, name in cases(stored)}
    assert len(names) == 8
    compared = {f"{case}_{maths}_{name}" for case, maths, name in cases(stored)}
    assert compared == {key.removesuffix("_gradtan") for key in stored if key.endswith("_gradtan")}


@compares("loss", studies=["calibration"], parts=LOSSES, tolerance=VALUE)
def test_values_from_the_originals_distances(stored):
    for case, maths, name in cases(stored):
        key = f"{case}_{maths}_{name}"
        loss, _, labels = loss_and_inputs(stored, case, maths, name)
        same = labels[:, None] == labels
        itself = torch.eye(len(labels), dtype=torch.bool)
        ours = loss.of_pairs(Pairs(torch.from_numpy(stored[f"{case}_dist"]), same & ~itself, ~same))
        assert ours.dtype == torch.float32
        np.testing.assert_allclose(ours, stored[f"{key}_per"], rtol=VALUE, atol=ROUNDING, err_msg=key)
        assert ours.mean().item() == pytest.approx(float(stored[key]), rel=VALUE, abs=ROUNDING / 5), key


def test_values_from_embeddings(stored):
    for case, maths, name in cases(stored):
        key = f"{case}_{maths}_{name}"
        loss, embeddings, labels = loss_and_inputs(stored, case, maths, name)
        relative = CIRCLE["value"] if "circle" in name else VALUE
        ours = loss.per_anchor(embeddings, labels).detach().numpy()
        np.testing.assert_allclose(ours, stored[f"{key}_per"], rtol=relative, atol=ROUNDING, err_msg=key)
        value = loss(embeddings, labels).item()
        assert value == pytest.approx(float(stored[key]), rel=relative, abs=ROUNDING / 5), key


@compares("gradient", studies=["calibration"], parts={*LOSSES} - {"TwoSidedCircleLoss"}, tolerance=GRADIENT)
@compares("gradient", studies=["calibration"], parts=["TwoSidedCircleLoss"], tolerance=CIRCLE["gradient"])
def test_gradients_along_the_sphere(stored):
    for case, maths, name in cases(stored):
        key = f"{case}_{maths}_{name}"
        loss, embeddings, labels = loss_and_inputs(stored, case, maths, name)
        loss(embeddings, labels).backward()
        unit = embeddings.detach()
        ours = (embeddings.grad - (embeddings.grad * unit).sum(dim=1, keepdim=True) * unit).numpy()
        expected = stored[f"{key}_gradtan"]
        scale = max(np.abs(expected).max(), 1e-9)
        relative = CIRCLE["gradient"] if "circle" in name else GRADIENT
        assert np.abs(ours - expected).max() <= relative * scale, key


def test_flags_of_the_anchors(stored):
    """The arrays contain anchors without positives and anchors without semi-hard negatives."""
    for case in sorted({case for case, _, _ in cases(stored)}):
        distance, labels = stored[f"{case}_dist"], stored[f"{case}_y"]
        same = labels[:, None] == labels
        positive = same & ~np.eye(len(labels), dtype=bool)
        assert np.array_equal(positive.any(axis=1), stored[f"{case}_has_positive"])
        hardest = np.where(positive, distance, -1).max(axis=1, keepdims=True)
        without = ~(~same & (distance > hardest)).any(axis=1)
        assert np.array_equal(without, stored[f"{case}_no_semihard"])
