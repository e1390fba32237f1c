"""Hyp-ViT's head, distance and loss, compared with slow float64 computations by their formulas; their properties."""

import math

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import TripletMarginLoss

from recheck.errors import UserError
from recheck.methods.forward import Recomputed, Single
from recheck.methods.losses import build_loss
from recheck.methods.losses.hypvit.poincare_distance import PoincareDistance
from recheck.models.embedding import EmbeddingModel
from recheck.models.heads import PoincareBall, build_head
from support.golden.fidelity import compares
from support.golden.poincare import distance, exponential, in_ball, mobius_add
from support.project.runs import CONFIGURATION

CURVATURE = 0.1
HYPERBOLIC = {"class": "PoincareDistance", "curvature": CURVATURE}


def points(count, dimensions=6, reach=0.6, seed=0):
    return torch.from_numpy(in_ball(count, dimensions, CURVATURE, reach, seed).astype(np.float64))


# The head


@compares("network", studies=["hyperbolic"], parts=["PoincareBall"], tolerance="head: 1e-12 to the formula")
def test_the_head_is_the_exponential_map_of_a_clipped_linear_layer():
    torch.manual_seed(0)
    spec = {"class": "PoincareBall", "dim": 5, "curvature": 0.1, "clip": 2.3, "init": "orthogonal 1"}
    head = build_head(spec, features=8).double()
    torch.testing.assert_close(head.weight @ head.weight.T, torch.eye(5, dtype=torch.float64), atol=1e-6, rtol=0)
    assert not head.bias.any()
    features = torch.randn(20, 8, dtype=torch.float64) * torch.logspace(-3, 2, 20, dtype=torch.float64)[:, None]
    flat = (features @ head.weight.T).detach().numpy()
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    assert (lengths > 2.3).any() and (lengths < 2.3).any()
    clipped = flat * np.minimum(1, 2.3 / lengths)
    expected = np.stack([exponential(row, 0.1) for row in clipped])
    np.testing.assert_allclose(head(features).detach().numpy(), expected, rtol=1e-12)
    assert np.linalg.norm(expected, axis=1).max() == pytest.approx(math.tanh(math.sqrt(0.1) * 2.3) / math.sqrt(0.1))


def test_the_head_stays_inside_the_ball_and_its_gradient_is_finite():
    head = PoincareBall(4, 4, curvature=1.0, bias=False)
    features = torch.stack([torch.zeros(4), torch.full((4,), 1e30), torch.full((4,), 1e-30)]).requires_grad_()
    embeddings = head(features)
    assert (embeddings.norm(dim=1) < 1).all() and not embeddings[0].any()
    embeddings.sum().backward()
    assert features.grad.isfinite().all() and head.weight.grad.isfinite().all()
    with torch.autocast("cpu", torch.bfloat16):
        assert head(features).dtype == torch.float32


@pytest.mark.parametrize("wrong", [{"curvature": 0}, {"curvature": 0.1, "clip": -1}])
def test_wrong_settings_of_the_head(wrong):
    with pytest.raises(UserError, match=r"'model\.head\.\w+' of 'PoincareBall' must be a number above 0, found"):
        build_head({"class": "PoincareBall", "dim": 4, **wrong}, features=4)


# The distance


def test_the_distance_equals_the_textbook_formula():
    x, y = points(7, reach=0.99), points(9, reach=0.99, seed=1)
    ours = PoincareDistance(CURVATURE)
    expected = [[distance(one, other, CURVATURE) for other in y.numpy()] for one in x.numpy()]
    np.testing.assert_allclose(ours(x, y).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(ours.pairwise_distance(x, y[:7]).numpy(), np.diag(expected), rtol=1e-10)
    np.testing.assert_allclose(ours(x.float(), y.float()).numpy(), expected, rtol=2e-5)


def test_the_distance_is_a_metric_that_isometries_keep():
    x = points(12, reach=0.9)
    ours = PoincareDistance(CURVATURE)
    between = ours(x)
    torch.testing.assert_close(between, between.T, rtol=1e-12, atol=0)
    assert not between.diagonal().any()
    assert (between[:, None] <= between[:, :, None] + between.T[None] + 1e-12).all()
    rotation = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    torch.testing.assert_close(ours(x @ rotation), between, rtol=1e-10, atol=1e-10)
    shift = points(1, reach=0.5, seed=4)[0].numpy()
    moved = torch.from_numpy(np.stack([mobius_add(shift, point, CURVATURE) for point in x.numpy()]))
    torch.testing.assert_close(ours(moved), between, rtol=1e-9, atol=1e-9)


def test_without_curvature_the_distance_is_twice_the_euclidean_one():
    x = points(8)
    torch.testing.assert_close(PoincareDistance(1e-14)(x), 2 * torch.cdist(x, x), rtol=1e-9, atol=1e-6)


def test_any_loss_takes_the_distance():
    spec = {"class": "TripletMarginLoss", "margin": 0.3, "distance": HYPERBOLIC}
    x, labels = points(8).requires_grad_(), torch.arange(8) // 2
    loss = build_loss(spec, num_classes=4, embedding_size=6)
    assert isinstance(loss, TripletMarginLoss)
    loss(x, labels).backward()
    assert x.grad.isfinite().all() and x.grad.any()
    with pytest.raises(UserError, match="'curvature' must be a number above 0"):
        build_loss({**spec, "distance": {**HYPERBOLIC, "curvature": 0}}, num_classes=4, embedding_size=6)


# The loss


def slow_loss(embeddings, per_class, temperature, similarity):
    """Pair after pair, class after class, by the definition."""
    classes = embeddings.reshape(-1, per_class, embeddings.shape[1])
    total = 0.0
    for i in range(per_class):
        for j in range(per_class):
            if i == j:
                continue
            losses = []
            for a, one in enumerate(classes):
                to_j = [similarity(one[i], other[j]) / temperature for other in classes]
                to_i = [similarity(one[i], other[i]) / temperature for b, other in enumerate(classes) if b != a]
                losses.append(math.log(sum(map(math.exp, to_j + to_i))) - to_j[a])
            total += sum(losses) / len(losses)
    return total


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


@compares("loss", studies=["hyperbolic"], tolerance="1e-10 to the formula")
@compares("gradient", studies=["hyperbolic"], tolerance="1e-5 to differences")
@pytest.mark.parametrize("per_class", [2, 3, 9])
@pytest.mark.parametrize("kind", ["hyperbolic", "sphere"])
def test_the_loss_equals_its_definition(kind, per_class):
    """Its gradient equals finite differences."""
    temperature = 0.2 if kind == "hyperbolic" else 0.1
    spec = {"class": "PairCrossEntropyLoss", "per_class": per_class, "temperature": temperature}
    spec |= {"distance": HYPERBOLIC} if kind == "hyperbolic" else {}
    loss = build_loss(spec, num_classes=9, embedding_size=6)
    x, labels = points(4 * per_class).requires_grad_(), torch.tensor([5, 0, 8, 3]).repeat_interleave(per_class)
    similarity = cosine if kind == "sphere" else lambda one, other: -distance(one, other, CURVATURE)
    expected = slow_loss(x.detach().numpy(), per_class, temperature, similarity)
    assert loss(x, labels).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda each: loss(each, labels), x, eps=1e-7, atol=1e-5)
    rough = loss(x.detach().float(), labels)
    assert rough.item() == pytest.approx(expected, rel=1e-4)


def test_equal_images_have_a_finite_gradient():
    x = points(2).repeat_interleave(2, dim=0).float().requires_grad_()
    loss = build_loss(
        {"class": "PairCrossEntropyLoss", "per_class": 2, "temperature": 0.2, "distance": HYPERBOLIC}, 2, 6
    )
    loss(x, torch.tensor([0, 0, 1, 1])).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
def test_other_batches_are_refused(labels):
    loss = build_loss({"class": "PairCrossEntropyLoss", "per_class": 2, "temperature": 0.2}, 2, 6)
    with pytest.raises(UserError, match=r"needs batches of two or more different classes with 2 consecutive images"):
        loss(points(len(labels)), torch.tensor(labels))


def test_a_cached_gradient_of_the_loss_equals_that_of_one_pass():
    spec = {
        **CONFIGURATION["model"],
        "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"},
        "head": {"class": "PoincareBall", "dim": 6, "curvature": 0.1, "clip": 2.3},
        "batch_norm": "frozen",
    }
    images = torch.randint(0, 256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    loss = build_loss(
        {"class": "PairCrossEntropyLoss", "per_class": 3, "temperature": 0.2, "distance": HYPERBOLIC}, 4, 6
    )
    gradients = []
    for forward in (Single(), Recomputed(4)):
        torch.manual_seed(0)
        model = EmbeddingModel(spec).double().train()
        loss(forward(model, images), torch.arange(12) // 3).backward()
        gradients.append([weight.grad for weight in model.parameters()])
    assert gradients[0][0].abs().max() > 1e-8
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-10)
