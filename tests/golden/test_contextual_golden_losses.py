"""The contextual loss, its ablations and the losses combined with it, against the authors' code.

Our values are computed in float64. Arrays in float32 are compared to float32's precision, float64 arrays to 1e-8.
"""

import re

import numpy as np
import pytest
import torch

from recheck.methods.losses import build_loss
from recheck.methods.losses.contextual.contextual import ContextualLoss
from recheck.methods.losses.contextual.contextual_similarity import VARIANTS, ContextualSimilarity
from recheck.methods.losses.contextual.cosine import cosine_similarities
from support.golden.contextual_losses import DOUBLE, GRADIENT, LOSS, SINGLE, case_names, close_gradient
from support.golden.fidelity import CONTEXTUAL, compares

EPS = re.compile(r"_eps(\d+)")
HYBRIDS = {
    "hybrid224_cub": {"w_context": 0.95, "w_contrastive": 0.05, "w_reg": 0.1, "target": 0.3, "eps": 0.04},
    "hybrid224_cars": {"w_context": 0.8, "w_contrastive": 0.2, "w_reg": 0.1, "target": 0.3, "eps": 0.05},
    "hybrid224_sop": {"w_context": 0.8, "w_contrastive": 0.2, "w_reg": 0.1, "target": 0.3, "eps": 0.05},
    "hybrid256": {"w_context": 0.4, "w_contrastive": 0.5, "w_reg": 0.1, "target": 0.25, "eps": 0.05},
}


@pytest.fixture(scope="module")
def stored(golden):
    with np.load(golden / "contextual_losses.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def cases(stored):
    return case_names(stored)


def close(ours, expected, what):
    """Tolerance: relative for values, relative to the largest entry for matrices."""
    ours = np.asarray(ours.detach() if isinstance(ours, torch.Tensor) else ours)
    tolerance = DOUBLE if expected.dtype == np.float64 else SINGLE
    assert np.abs(ours - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-12), what


def inputs(stored, case):
    x = torch.from_numpy(stored[f"{case}_x"]).double().requires_grad_()
    return x, torch.from_numpy(stored[f"{case}_y"]), int(stored[f"{case}_k"])


def compare(stored, case, name, spec):
    """Value and gradient of a loss built from the YAML of a study."""
    x, y, _ = inputs(stored, case)
    value = build_loss(spec, int(y.max()) + 1, x.shape[1]).double()(x, y)
    value.backward()
    close(value, stored[f"{case}_{name}"], (case, name))
    close_gradient(x.grad, stored[f"{case}_{name}_grad"], (case, name))


def eps_of(name):
    return int(EPS.search(name)[1]) / 1000


def test_steps_to_the_contextual_similarity(stored, cases):
    for case in cases:
        x, _, k = inputs(stored, case)
        scores = cosine_similarities(x)
        close(scores, stored[f"{case}_scores"], case)
        context = ContextualSimilarity(k, 0.05).context(scores)
        nearest = -stored[f"{case}_vk"]
        bound = 1e-8 if nearest.dtype == np.float64 else 1e-6
        assert np.abs(context.nearest.numpy() - nearest).max() <= bound
        for ours, name in ((context.neighbours, "Nk"), (context.close, "Nk2"), (context.reciprocal, "Rk2")):
            assert np.array_equal(ours.detach().numpy(), stored[f"{case}_{name}"]), (case, name)
        close(context.overlap, stored[f"{case}_W_tilde"], case)


def test_contextual_similarity(stored, cases):
    for case in cases:
        x, _, k = inputs(stored, case)
        names = [key for key in stored if key.startswith(f"{case}_sim_eps")]
        assert names
        for name in names:
            close(ContextualSimilarity(k, eps_of(name))(cosine_similarities(x)), stored[name], name)


def test_contextual_loss(stored, cases):
    for case in cases:
        names = [key for key in stored if re.fullmatch(rf"{case}_context_eps\d+", key)]
        assert names
        for name in names:
            spec = {"class": "ContextualLoss", "k": int(stored[f"{case}_k"]), "eps": eps_of(name)}
            compare(stored, case, name.removeprefix(f"{case}_"), spec)


def test_gradient_of_free_similarities(stored, cases):
    for case in cases:
        _, y, k = inputs(stored, case)
        for name in [key for key in stored if re.fullmatch(rf"{case}_context_eps\d+", key)]:
            scores = torch.from_numpy(stored[f"{case}_scores"]).double().requires_grad_()
            ContextualLoss(k, eps_of(name)).of_scores(scores, y).backward()
            close_gradient(scores.grad, stored[f"{name}_gradscores"], name)


def test_contrastive_term(stored, cases):
    for case in cases:
        for name in [key for key in stored if re.fullmatch(rf"{case}_contrast_p\d+", key)]:
            margins = {"pos_margin": int(name.rpartition("p")[2]) / 100, "neg_margin": 0.6}
            spec = {"class": "ContrastiveLoss", **margins, "distance": {"class": "CosineSimilarity"}}
            compare(stored, case, name.removeprefix(f"{case}_"), spec)


@compares("loss", studies=CONTEXTUAL, parts=["WithSimilarityRegulariser"], tolerance=LOSS)
@compares("gradient", studies=CONTEXTUAL, parts=["WithSimilarityRegulariser"], tolerance=GRADIENT)
def test_regulariser(stored, cases):
    for case in cases:
        for name in [key for key in stored if re.fullmatch(rf"{case}_reg_r\d+", key)]:
            spec = {"class": "SimilarityRegulariser", "target": int(name.rpartition("r")[2]) / 100}
            compare(stored, case, name.removeprefix(f"{case}_"), spec)


@compares("loss", studies=CONTEXTUAL, parts=["HybridLoss"], tolerance=LOSS)
@compares("gradient", studies=CONTEXTUAL, parts=["HybridLoss"], tolerance=GRADIENT)
@pytest.mark.parametrize("name", HYBRIDS)
def test_hybrid_loss(stored, cases, name):
    having = [case for case in cases if f"{case}_{name}" in stored]
    assert having
    for case in having:
        spec = {"class": "HybridLoss", "k": int(stored[f"{case}_k"]), **HYBRIDS[name]}
        compare(stored, case, name, spec)


@compares("loss", studies=["contextual_ablations"], tolerance=LOSS)
@compares("gradient", studies=["contextual_ablations"], tolerance=GRADIENT)
@pytest.mark.parametrize("variant", VARIANTS)
def test_ablations(stored, cases, variant):
    name = f"abl{variant:02}"
    having = [case for case in cases if f"{case}_{name}" in stored]
    assert having
    for case in having:
        x, _, k = inputs(stored, case)
        compare(stored, case, name, {"class": "ContextualLoss", "k": k, "variant": variant})
        if f"{case}_{name}_sim" in stored:
            similarity = ContextualLoss(k, variant=variant).similarity(cosine_similarities(x))
            close(similarity, stored[f"{case}_{name}_sim"], (case, name))


def test_every_array_is_compared(stored, cases):
    known = re.compile(
        r"x|y|k|scores|vk|Nk|Nk2|Rk2|W_tilde|sim_eps\d+|context_eps\d+(_grad|_gradscores)?|contrast_p\d+(_grad)?"
        r"|reg_r\d+(_grad)?|abl(0\d|10)(_grad|_sim)?|(" + "|".join(HYBRIDS) + r")(_grad)?"
    )
    assert {key for key in stored if not known.fullmatch(key.partition("_")[2])} == set()
