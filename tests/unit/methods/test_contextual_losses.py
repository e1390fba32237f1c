"""Losses of the contextual study, compared with slow computations and checked for invariants."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from recheck.errors import UserError
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.losses.contextual.contextual import ContextualLoss
from recheck.methods.losses.contextual.contextual_similarity import VARIANTS, ContextualSimilarity
from recheck.methods.losses.contextual.cosine import cosine_similarities, same_class
from recheck.methods.losses.contextual.min_product import min_product

HYBRID = {"class": "HybridLoss", "k": 3, "w_context": 0.4, "w_contrastive": 0.5, "w_reg": 0.1, "target": 0.25}
CONTRASTIVE = {
    "class": "ContrastiveLoss",
    "pos_margin": 0.75,
    "neg_margin": 0.6,
    "distance": {"class": "CosineSimilarity"},
}
RANKING = [{"class": "ContextualSmoothAPLoss"}, {"class": "SupAPLoss"}, {"class": "SoftBinAPLoss"}]
ALL = [
    *({"class": "ContextualLoss", "k": 3, "variant": variant} for variant in VARIANTS),
    HYBRID,
    *RANKING,
    {"class": "RoadmapLoss"},
    {"class": "WithContrastive", "loss": {"class": "SoftBinAPLoss"}},
    {"class": "SimilarityRegulariser", "target": 0.3},
    {"class": "WithSimilarityRegulariser", "loss": CONTRASTIVE, "weight": 0.1, "target": 0.3},
]


def name_of(spec):
    return spec["class"] + str(spec.get("variant", ""))


every_loss = pytest.mark.parametrize("spec", ALL, ids=name_of)


def batch(seed=0, classes=4, per_class=3, dim=5, spread=0.7):
    """A batch of overlapping classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(classes, per_class, dim, generator=generator, dtype=torch.float64)
    labels = torch.arange(classes).repeat_interleave(per_class)
    return (centres[:, None] + spread * noise).flatten(0, 1), labels


def value_and_gradient(loss, embeddings, labels):
    embeddings = embeddings.clone().requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    return value.detach(), embeddings.grad


def built(spec, embeddings, labels):
    return build_loss(spec, int(labels.max()) + 1, embeddings.shape[1]).double()


def slow_contextual_loss(x, y, k, settings):
    """The definition, number by number; torch computes all derivatives.

    A step with slope 10 is a line that is moved to the step's value by a constant.
    """
    eps = settings.get("eps", 0.05)
    n = len(x)
    unit = [row / (row**2).sum().sqrt() for row in x]
    d = [[torch.clamp(2 - 2 * (unit[i] * unit[j]).sum(), min=0) for j in range(n)] for i in range(n)]

    def step(a):
        if settings.get("step") == "sigmoid":
            return 1 / (1 + torch.exp(-a / 0.01))
        return 10 * a + ((a >= 0).double() - 10 * a).detach()

    def both(a, b):
        return torch.minimum(a, b) if settings.get("conjunction") == "min" else a * b

    def within(m):
        t = [sorted(value.item() for value in row)[m - 1] for row in d]
        return [[step(t[i] + eps - d[i][j]) for j in range(n)] for i in range(n)]

    def common(m, i, j):
        size = sum(m[i])
        size = size.detach() if settings.get("detach_counts", True) else size
        return sum(both(m[i][p], m[j][p]) for p in range(n)) / size

    near = within(k)
    far = [[1 - value for value in row] for row in near]
    overlap = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            kind = settings.get("intersection", "both")
            if kind == "none":
                overlap[i][j] = near[i][j]
                continue
            share = common(near, i, j)
            if kind == "both":
                share = 0.5 * (share + common(far, i, j))
            overlap[i][j] = both(share, near[i][j])
    similar = overlap
    if settings.get("expansion", True):
        close = within(k // 2)
        mutual = [[both(close[i][j], close[j][i]) for j in range(n)] for i in range(n)]
        expanded = [[None] * n for _ in range(n)]
        for i in range(n):
            size = sum(mutual[i])
            size = size.detach() if settings.get("detach_expansion", False) else size
            for j in range(n):
                expanded[i][j] = sum(both(mutual[i][p], overlap[p][j]) for p in range(n)) / size
        similar = [[0.5 * (expanded[i][j] + expanded[j][i]) for j in range(n)] for i in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return sum((float(y[i] == y[j]) - similar[i][j]) ** 2 for i, j in pairs) / n**2


@pytest.mark.parametrize("variant", VARIANTS)
def test_contextual_loss_number_by_number(variant):
    k = 4  # so that half of k is more than the point itself
    x, y = batch(seed=variant, classes=3, per_class=3, dim=4)
    expected = value_and_gradient(lambda x, y: slow_contextual_loss(x, y, k, VARIANTS[variant]), x, y)
    ours = value_and_gradient(ContextualLoss(k, variant=variant), x, y)
    assert expected[0] > 0.01
    assert torch.allclose(ours[0], expected[0], rtol=1e-10, atol=0)
    assert (ours[1] - expected[1]).abs().max() <= 1e-10 * expected[1].abs().max()


def test_variants_that_differ_in_their_gradient_only():
    x, y = batch()
    values, gradients = zip(
        *(value_and_gradient(ContextualLoss(4, variant=v), x, y) for v in (0, 5, 9, 10)), strict=True
    )
    assert all(torch.allclose(value, values[0], rtol=1e-12) for value in values)
    for gradient in gradients[1:]:
        assert (gradient - gradients[0]).abs().max() > 1e-3 * gradients[0].abs().max()


def test_switches_combine_and_override_the_variant():
    x, y = batch()
    written = {"k": 3, "eps": 1e-5, "intersection": "none", "expansion": False, "step": "sigmoid"}
    assert ContextualLoss(**written)(x, y) == ContextualLoss(3, variant=2)(x, y)
    assert ContextualLoss(3, variant=1, eps=0.05).similarity.eps == 0.05
    assert ContextualLoss(3, variant=2, step="heuristic")(x, y) == ContextualLoss(3, variant=1)(x, y)


def test_min_product_is_a_sum_of_minima_with_shared_ties():
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(0, 2, (6, 7), generator=generator).double().requires_grad_()
    right = torch.randint(0, 4, (7, 5), generator=generator).double().div(3).requires_grad_()
    weight = torch.randn(6, 5, dtype=torch.float64, generator=generator)
    ours, expected = min_product(left, right), torch.minimum(left[:, :, None], right[None]).sum(dim=1)
    assert torch.allclose(ours, expected)
    gradients = torch.autograd.grad((ours * weight).sum(), (left, right))
    for mine, wanted in zip(gradients, torch.autograd.grad((expected * weight).sum(), (left, right)), strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-12, atol=1e-14)


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that is created."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = [piece for piece in (made if isinstance(made, tuple | list) else [made]) if torch.is_tensor(piece)]
        self.numbers = max([self.numbers, *(tensor.numel() for tensor in tensors)])
        return made


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_tensor_is_larger_than_the_number_of_pairs(variant):
    x, y = batch(classes=8, per_class=4)
    with Largest() as largest:
        value_and_gradient(ContextualLoss(4, variant=variant), x, y)
    assert largest.numbers == 32**2


def test_perfect_clusters_have_no_loss():
    x = torch.eye(5, dtype=torch.float64).repeat_interleave(4, dim=0)
    y = torch.arange(5).repeat_interleave(4)
    x = x + 1e-3 * torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    similarity = ContextualSimilarity(4, 0.05)(cosine_similarities(x))
    assert torch.equal(similarity, same_class(y).double())
    assert ContextualLoss(4)(x, y) == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from(sorted(VARIANTS)))
def test_contextual_similarity_lies_between_0_and_1(seed, k, variant):
    x, _ = batch(seed, spread=1.0)
    context = ContextualLoss(k, variant=variant).similarity.context(cosine_similarities(x))
    assert (context.similarity >= 0).all()
    assert (context.similarity <= 1 + 1e-12).all()
    if VARIANTS[variant].get("step") is None:
        assert (context.neighbours.sum(dim=1) >= k).all()
        assert (context.neighbours.diagonal() == 1).all()
    if context.reciprocal is not None:
        assert torch.allclose(context.similarity, context.similarity.T)


@every_loss
def test_order_class_names_and_lengths_do_not_matter(spec):
    x, y = batch(3)
    loss = built(spec, x, y)
    value, gradient = value_and_gradient(loss, x, y)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    moved, moved_gradient = value_and_gradient(loss, x[order], y[order])
    assert torch.allclose(moved, value, rtol=1e-9, atol=1e-12)
    assert torch.allclose(moved_gradient, gradient[order], rtol=1e-7, atol=1e-10)
    renamed = torch.tensor([70, -3, 5, 1000])[y]
    assert torch.allclose(loss(x, renamed), value, rtol=1e-9, atol=1e-12)
    lengths = torch.rand(len(x), 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 0.5
    assert torch.allclose(loss(x * lengths, y), value, rtol=1e-9, atol=1e-12)


AWKWARD = {
    "one class": (torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(6, dtype=torch.long)),
    "no positives": (torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6)),
    "all the same": (torch.ones(6, 4), torch.arange(6) // 3),
    "one class, all the same": (torch.ones(6, 4), torch.zeros(6, dtype=torch.long)),
    "duplicates": (torch.eye(4)[[0, 0, 1, 1, 2, 2]], torch.tensor([0, 1, 1, 0, 2, 2])),
    "opposites": (torch.eye(4)[[0, 0, 0, 0]] * torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]), torch.arange(4) // 2),
    "two images": (torch.randn(2, 4, generator=torch.Generator().manual_seed(2)), torch.tensor([1, 1])),
    "one image": (torch.ones(1, 4), torch.tensor([0])),
    "a zero": (torch.eye(4) * torch.tensor([[1.0], [1.0], [1.0], [0.0]]), torch.tensor([0, 0, 1, 1])),
    "perfect": (torch.eye(4).repeat_interleave(3, dim=0), torch.arange(4).repeat_interleave(3)),
}


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_awkward_batches_have_finite_values_and_gradients(spec, dtype):
    for name, (x, y) in AWKWARD.items():
        value, gradient = value_and_gradient(build_loss(spec, 6, 4).to(dtype), x.to(dtype), y)
        assert value.dtype == gradient.dtype == dtype
        assert torch.isfinite(value), name
        assert torch.isfinite(gradient).all(), name


@pytest.mark.parametrize("spec", [CONTRASTIVE, *RANKING, {"class": "ContextualLoss", "k": 3}], ids=name_of)
def test_one_class_of_equal_images_has_no_loss(spec):
    x, y = AWKWARD["one class, all the same"]
    value, gradient = value_and_gradient(built(spec, x, y), x.double(), y)
    assert abs(value) < 1e-12
    assert torch.allclose(gradient, torch.zeros_like(gradient), atol=1e-9)


@pytest.mark.parametrize("spec", [CONTRASTIVE, *RANKING[:2]], ids=name_of)
def test_separated_classes_have_no_gradient(spec):
    """Different classes at right angles: no term is active."""
    x, y = torch.eye(4, dtype=torch.float64), torch.arange(4)
    value, gradient = value_and_gradient(built(spec, x, y), x, y)
    assert abs(value) < 1e-12
    assert torch.allclose(gradient, torch.zeros_like(gradient), atol=1e-12)


def test_k_may_be_larger_than_the_batch():
    """Then every image is a neighbour of every other, and all neighbours are shared."""
    x, y = batch(classes=2, per_class=2)
    context = ContextualSimilarity(100).context(cosine_similarities(x))
    assert (context.neighbours == 1).all()
    assert (context.overlap == 1).all()
    assert torch.allclose(ContextualLoss(100)(x, y), torch.tensor(8 / 16, dtype=torch.float64))


def slow_contrastive(scores, y, pos_margin, neg_margin):
    positive, negative = [], []
    for i in range(len(y)):
        for j in range(len(y)):
            (positive if y[i] == y[j] else negative).append(
                max(0.0, float(pos_margin - scores[i, j] if y[i] == y[j] else scores[i, j] - neg_margin))
            )
    total = 0.0
    for values in (positive, negative):
        counted = [value for value in values if value > 0]
        total += sum(counted) / len(counted) if counted else 0.0
    return total


def test_hybrid_is_the_weighted_sum_of_its_three_parts():
    x, y = batch(2)
    scores = cosine_similarities(x)
    contextual = float(ContextualLoss(3, eps=0.04)(x, y))
    contrastive = slow_contrastive(scores, y, 0.75, 0.6)
    regulariser = (float(scores.mean()) - 0.25) ** 2
    ours = built(HYBRID | {"eps": 0.04}, x, y)(x, y)
    assert float(ours) == pytest.approx(0.4 * contextual + 0.5 * contrastive + 0.1 * regulariser, rel=1e-10)
    third = built(HYBRID | {"variant": 3, "w_contrastive": 0, "w_reg": 0}, x, y)(x, y)
    assert float(third) == pytest.approx(0.4 * float(ContextualLoss(3, variant=3)(x, y)), rel=1e-12)


def test_the_regulariser_works_with_any_loss():
    x, y = batch(4)
    triplet, miner = {"class": "TripletMarginLoss"}, build_miner({"class": "MultiSimilarityMiner", "epsilon": 0.1})
    mined = miner(x, y)
    spec = {"class": "WithSimilarityRegulariser", "loss": triplet, "weight": 0.1, "base_weight": 0.9, "target": 0.25}
    regulariser = (cosine_similarities(x).mean() - 0.25) ** 2
    expected = 0.9 * built(triplet, x, y)(x, y, mined) + 0.1 * regulariser
    assert torch.allclose(built(spec, x, y)(x, y, mined), expected)
    proxies = built(spec | {"loss": {"class": "ProxyAnchorLoss"}}, x, y)
    assert [tuple(parameter.shape) for parameter in proxies.parameters()] == [(4, 5)]


def slow_average_precision(scores, y, of_positives, of_negatives):
    n, values = len(y), []
    for i in range(n):
        positives = [j for j in range(n) if y[j] == y[i]]
        shares = []
        for j in positives:
            above = sum(of_positives(scores[i][p] - scores[i][j]) for p in positives if p != j)
            wrong = sum(of_negatives(scores[i][p] - scores[i][j]) for p in range(n) if y[p] != y[i])
            shares.append((1 + above) / (1 + above + wrong))
        values.append(sum(shares) / len(shares))
    return values


def soft(difference):
    return 1 / (1 + torch.exp(torch.clamp(-difference / 0.01, -50, 50)))


def hard(difference):
    return (difference >= 0).double()


def upper(difference):
    if difference <= 0:
        return soft(difference)
    return 0.5 + soft(difference) if difference <= 0.05 else 100 * difference + 1.44


@pytest.mark.parametrize(("name", "parts"), [("ContextualSmoothAPLoss", (soft, soft)), ("SupAPLoss", (hard, upper))])
def test_ranking_losses_number_by_number(name, parts):
    x, y = batch(6, classes=3)

    def slow(x, y):
        return 1 - sum(slow_average_precision(cosine_similarities(x), y, *parts)) / len(y)

    ours, expected = value_and_gradient(built({"class": name}, x, y), x, y), value_and_gradient(slow, x, y)
    assert expected[0] > 0.05
    assert torch.allclose(ours[0], expected[0], rtol=1e-10, atol=0)
    assert (ours[1] - expected[1]).abs().max() <= 1e-10 * expected[1].abs().max()


def test_soft_bins_number_by_number():
    x, y = batch(7, classes=3)
    scores = cosine_similarities(x)
    total = 0.0
    for i in range(len(y)):
        counts, right = [], []
        for m in range(20):
            shares = [max(0.0, 1 - 9.5 * abs(float(scores[i, j]) - (1 - 2 * m / 19))) for j in range(len(y))]
            counts.append(sum(shares))
            right.append(sum(share for j, share in enumerate(shares) if y[j] == y[i]))
        precisions = [sum(right[: m + 1]) / (1e-16 + sum(counts[: m + 1])) for m in range(20)]
        total += sum(p * w for p, w in zip(precisions, right, strict=True)) / sum(right)
    assert float(built({"class": "SoftBinAPLoss"}, x, y)(x, y)) == pytest.approx(1 - total / len(y), rel=1e-10)


@pytest.mark.parametrize("kind", ["ProxyAnchorLoss", "ProxyNCALoss"])
def test_extra_proxies_are_negatives_of_every_image(kind):
    x, y = batch(8)
    name = "Extra" + kind
    loss = built({"class": name, "extra_proxies": 3}, x, y)
    assert loss.proxies.shape == (7, 5)
    value_and_gradient(loss, x, y)
    assert (loss.proxies.grad.abs().sum(dim=1) > 0).all()
    plain, none_extra = built({"class": kind}, x, y), built({"class": name, "extra_proxies": 0}, x, y)
    none_extra.proxies.data = plain.proxies.data.clone()
    assert torch.equal(none_extra(x, y), plain(x, y))


def test_the_miner_of_the_triplet_row_handles_a_single_class():
    x, y = AWKWARD["one class"]
    miner = build_miner({"class": "DistanceWeightedMiner", "cutoff": 0.5, "nonzero_loss_cutoff": 1.4})
    loss = built({"class": "TripletMarginLoss", "margin": 0.05}, x, y)
    value, gradient = value_and_gradient(lambda x, y: loss(x, y, miner(x, y)), x, y)
    assert value == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"class": "ContextualLoss", "k": 1},
            "'k' of the contextual similarity must be a whole number of at least 2, found 1",
        ),
        ({"class": "ContextualLoss", "k": 4, "variant": 11}, "must be a whole number from 0 to 10, found 11"),
        ({"class": "ContextualLoss", "k": 4, "step": "sigmoidal"}, "did you mean 'sigmoid'"),
        (
            {"class": "ContextualLoss", "k": 4, "step": "sigmoid", "conjunction": "min"},
            "needs 'step: heuristic', found 'sigmoid'",
        ),
        ({"class": "ContextualLoss"}, "k"),
        (HYBRID | {"lam": 0.4}, "Unknown argument 'lam'"),
        (HYBRID | {"w_contxt": 0.4}, "did you mean 'w_context'"),
        (HYBRID | {"k": 4.0}, "must be a whole number of at least 2, found 4.0"),
        (HYBRID | {"eps": -0.1}, "'eps' of the contextual similarity must be a number of at least 0, found -0.1"),
        (HYBRID | {"variant": True}, "must be a whole number from 0 to 10, found True"),
        (HYBRID | {"expansion": "no"}, "Unknown value 'no' for 'expansion' of the contextual similarity"),
        (
            HYBRID | {"step": "sigmoid", "temperature": 0},
            "'temperature' of the contextual similarity must be a number above 0",
        ),
        (HYBRID | {"w_reg": "0,1"}, "'w_reg' of the loss 'HybridLoss' must be a number"),
        (HYBRID | {"target": None}, "'target' of the loss 'SimilarityRegulariser' must be a number"),
        (HYBRID | {"pos_margin": "x"}, "'pos_margin' of the loss 'HybridLoss' must be a number"),
        (
            {"class": "SoftBinAPLoss", "bins": 1},
            "'bins' of the loss 'SoftBinAPLoss' must be a whole number of at least 2",
        ),
        ({"class": "ContextualSmoothAPLoss", "temperature": 0}, "must be a number above 0, found 0"),
        ({"class": "ExtraProxyNCALoss", "extra_proxies": -1}, "must be a whole number of at least 0, found -1"),
    ],
)
def test_mistakes_are_named(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        build_loss(spec, 3, 4)
