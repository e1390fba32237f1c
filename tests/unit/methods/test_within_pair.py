"""Within-pair mining, compared with a slow computation pair by pair and checked for invariants."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from recheck.errors import UserError
from recheck.methods.forward import MultiView, Single, build_forward
from recheck.methods.losses import build_loss

pytestmark = pytest.mark.slow

SHIFT = {"class": "ShiftedLpDistance", "shift": 1e-6}
STOCK = {
    "contrastive": {"class": "ContrastiveLoss", "pos_margin": 0.2, "neg_margin": 0.9},
    "triplet": {"class": "TripletMarginLoss", "margin": 0.1, "distance": SHIFT},
    "margin": {"class": "MarginLoss", "margin": 0.1, "beta": 0.8, "learn_beta": True, "num_classes": None},
    "ms": {"class": "MultiSimilarityLoss", "alpha": 2.0, "beta": 20.0, "base": 0.4},
    "nt_xent": {"class": "NTXentLoss", "temperature": 0.1},
}


def make(name, sharpness=32.0):
    spec = {"class": "WithinPairLoss", "sharpness": sharpness, "loss": dict(STOCK[name])}
    return build_loss(spec, num_classes=4, embedding_size=6).double()


def views_and_labels(views=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    noise = torch.randn(views, 12, 6, generator=generator, dtype=torch.float64)
    return base + 0.4 * noise, torch.arange(12) % 4


def slow_soft(values, sharpness, largest):
    sign = 1 if largest else -1
    weights = [math.exp(sign * sharpness * value) for value in values]
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def slow_pairs(views, labels, sharpness, similarity):
    """The hardest value of every pair, one at a time."""
    unit = normalize(views, dim=-1)
    size = len(labels)
    result = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        for j in range(size):
            if similarity:
                values = [float(view[i] @ view[j]) for view in unit]
            else:
                values = [float((view[i] - view[j] + 1e-6).norm()) for view in unit]
            positive = bool(labels[i] == labels[j])
            result[i, j] = slow_soft(values, sharpness, largest=positive != similarity)
    return result


def test_triplet_by_hand():
    views, labels = views_and_labels()
    distance = slow_pairs(views, labels, 32.0, similarity=False)
    terms = [
        float(distance[a, p] - distance[a, n] + 0.1)
        for a in range(12)
        for p in range(12)
        for n in range(12)
        if a != p and labels[a] == labels[p] and labels[a] != labels[n]
    ]
    active = [term for term in terms if term > 0]
    assert make("triplet")(views, labels).item() == pytest.approx(sum(active) / len(active), rel=1e-12)


def test_multi_similarity_by_hand():
    views, labels = views_and_labels()
    similar = slow_pairs(views, labels, 32.0, similarity=True)
    total = 0.0
    for i in range(12):
        positives = [j for j in range(12) if j != i and labels[j] == labels[i]]
        negatives = [j for j in range(12) if labels[j] != labels[i]]
        total += math.log(1 + sum(math.exp(-2.0 * (similar[i, j] - 0.4)) for j in positives)) / 2.0
        total += math.log(1 + sum(math.exp(20.0 * (similar[i, j] - 0.4)) for j in negatives)) / 20.0
    assert make("ms")(views, labels).item() == pytest.approx(total / 12, rel=1e-12)


@pytest.mark.parametrize("name", STOCK)
def test_one_view_is_the_stock_loss(name):
    views, labels = views_and_labels(views=1)
    stock = build_loss(STOCK[name], 4, 6).double()
    assert make(name)(views, labels).item() == pytest.approx(stock(views[0], labels).item(), rel=1e-12)


@pytest.mark.parametrize("name", STOCK)
def test_equal_views_are_one_view(name):
    views, labels = views_and_labels(views=1)
    repeated = make(name)(views.repeat(7, 1, 1), labels).item()
    assert repeated == pytest.approx(make(name)(views, labels).item(), rel=1e-12)


@pytest.mark.parametrize("name", STOCK)
def test_neither_the_order_of_views_nor_of_images_nor_their_length_matters(name):
    views, labels = views_and_labels()
    value = make(name)(views, labels).item()
    images = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    assert make(name)(views.flip(0), labels).item() == pytest.approx(value, rel=1e-9)
    assert make(name)(3.7 * views, labels).item() == pytest.approx(value, rel=1e-9)
    tolerance = 1e-5 if name == "triplet" else 1e-9  # its shift makes distances a little asymmetric
    assert make(name)(views[:, images], labels[images]).item() == pytest.approx(value, rel=tolerance)


@pytest.mark.parametrize("name", STOCK)
def test_more_views_are_harder(name):
    """With a sharp maximum, another view can only make a pair harder, so every hinge grows. Pairs are compared, because
    means over active terms may fall."""
    views, labels = views_and_labels()
    loss = make(name, sharpness=1e4)
    few, many = (loss._hardest(torch.vmap(loss.distance)(piece), labels) for piece in (views[:3], views))
    positive = labels[:, None] == labels[None]
    harder = positive != loss.distance.is_inverted
    assert (torch.where(harder, many - few, few - many) >= -1e-12).all()


@pytest.mark.parametrize("name", STOCK)
def test_gradients_reach_every_view_through_the_weights(name):
    views, labels = views_and_labels()
    loss = make(name)
    assert torch.autograd.gradcheck(lambda given: loss(given, labels), views.requires_grad_())
    loss(views, labels).backward()
    assert (views.grad.abs().sum(dim=(1, 2)) > 0).all()
    assert all(parameter.grad is not None for parameter in loss.parameters())


def test_the_gradient_of_the_soft_maximum():
    """d smax / d z_v = w_v (1 + a (z_v − smax))."""
    values = torch.tensor([0.1, 0.5, 0.45], dtype=torch.float64).reshape(3, 1, 1).requires_grad_()
    loss = make("contrastive", sharpness=8.0)
    hardest = loss._hardest(values, torch.tensor([0]))
    hardest.sum().backward()
    weights = torch.softmax(8.0 * values.detach(), 0)
    expected = weights * (1 + 8.0 * (values.detach() - hardest.detach()))
    torch.testing.assert_close(values.grad, expected, rtol=1e-12, atol=0)


def test_repeated_images_give_finite_gradients():
    """The sampler may give an image twice: distance zero in every view without dropout.

    In float32 and with as many images as in training, where torch computes distances through products.
    """
    views = torch.randn(8, 32, 16, generator=torch.Generator().manual_seed(0))
    views[:, 4] = views[:, 0]
    views.requires_grad_()
    for name in STOCK:
        make(name).float()(views, torch.arange(32) % 4).backward()
        assert views.grad.isfinite().all()


@pytest.mark.parametrize(
    "name",
    ["ProxyNCALoss", "SoftTripleLoss", "FastAPLoss", "AngularLoss", "UnitSNRContrastiveLoss", "ContextualSmoothAPLoss"],
)
def test_losses_that_use_more_than_distances_are_refused(name):
    with pytest.raises(UserError, match=f"'loss' of 'WithinPairLoss' must be one of ContrastiveLoss, .* found {name}"):
        build_loss({"class": "WithinPairLoss", "sharpness": 32, "loss": {"class": name}}, 4, 6)


def test_a_single_embedding_per_image_is_refused():
    views, labels = views_and_labels()
    with pytest.raises(UserError, match=r"needs several views per image: .*, found \(\d+, \d+\)"):
        make("triplet")(views[0], labels)


def test_regularisers_of_embeddings_are_refused():
    spec = {**STOCK["contrastive"], "embedding_regularizer": {"class": "LpRegularizer"}}
    with pytest.raises(UserError, match="cannot regularise embeddings"):
        build_loss({"class": "WithinPairLoss", "sharpness": 32, "loss": spec}, 4, 6)


class Pixels(torch.nn.Module):
    """A model whose embedding is the image."""

    def forward(self, images):
        self.seen = images.shape
        return images.flatten(1)


def test_a_single_pass_is_the_model():
    images = torch.rand(3, 2, 2, 2)
    assert torch.equal(build_forward(None)(Pixels(), images), images.flatten(1))
    assert isinstance(build_forward({"class": "Single"}), Single)


def test_views_are_one_large_pass_with_several_dropout_masks():
    images = torch.arange(1.0, 4.0).reshape(3, 1, 1, 1).expand(3, 2, 5, 5)
    torch.manual_seed(0)
    model = Pixels().train()
    views = MultiView(passes=4, masks=3, dropout=0.25)(model, images)
    assert model.seen == (12, 2, 5, 5)
    assert views.shape == (12, 3, 50)
    for image in range(3):
        kept = views[:, image] != 0
        assert torch.allclose(views[:, image][kept], torch.tensor((image + 1) / 0.75))
    assert (views == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    masks = (views != 0).flatten(1)
    assert len({tuple(mask.tolist()) for mask in masks}) == 12


def test_views_are_ordered_by_pass():
    """Views of one pass are adjacent; passes differ by the model's dropout."""

    class Noisy(torch.nn.Module):
        def forward(self, images):
            return torch.arange(len(images), dtype=torch.float32)[:, None].expand(-1, 4)

    views = MultiView(passes=2, masks=3, dropout=0.0)(Noisy().train(), torch.zeros(5, 3, 1, 1))
    assert views[:3, :, 0].tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 3
    assert views[3:, :, 0].tolist() == [[5.0, 6.0, 7.0, 8.0, 9.0]] * 3


def test_nothing_is_dropped_in_evaluation():
    images = torch.rand(3, 2, 5, 5)
    views = MultiView(passes=2, masks=2, dropout=0.5)(Pixels().eval(), images)
    assert torch.equal(views, images.flatten(1).expand(4, 3, 50))
