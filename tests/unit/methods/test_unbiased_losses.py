"""Losses of the unbiased evaluation, compared with slow computations and the library, and checked for invariants."""

import itertools
import math

import numpy as np
import pytest
import torch
from pytorch_metric_learning import distances as library_distances
from pytorch_metric_learning import losses as library
from pytorch_metric_learning.regularizers import LpRegularizer
from sklearn.metrics import normalized_mutual_info_score
from torch.nn.functional import cross_entropy, normalize
from torch.utils._python_dispatch import TorchDispatchMode

from recheck.errors import UserError
from recheck.methods.geometry import distances
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.losses.unbiased.facility_location import FacilityLocationLoss

LABELS = [4, 9, 4, 7, 7, 9, 4, 1, 9, 7, 1, 4]
PAIR_LABELS = [5, 2, 8, 3, 0, 7] * 2
EPISODE = {"classes": 3, "supports": 2, "queries": 2}
EPISODE_LABELS = [6, 6, 2, 2, 4, 4] * 2
CLASSES = 10
LIFTED = {
    "class": "LiftedStructureLoss",
    "neg_margin": 1,
    "pos_margin": 0,
    "distance": {"class": "ShiftedLpDistance", "shift": 0, "normalize_embeddings": False},
}
OF_ROWS = {
    "SemiHardTripletLoss": {"margin": 1.0},
    "LiftedStructureLoss": LIFTED,
    "FacilityLocationLoss": {"gamma": 1.0},
    "BoundaryMarginLoss": {"nu": 0.1},
    "UnbiasedRankedListLoss": {},
}
OF_PAIRS = {"NPairLoss": {}, "AngularPairLoss": {"alpha": 40}}
OF_PROXIES = {
    "ExclusiveProxyNCALoss": {"label_smoothing": 0.1},
    "ProxyTripletLoss": {},
    "NormProxyLoss": {},
    "DiscriminativeLoss": {},
}
OF_EPISODES = {"PrototypicalLoss": EPISODE}
ALL = {**OF_ROWS, **OF_PAIRS, **OF_PROXIES, **OF_EPISODES}


def made(name, **options):
    """A loss built as from YAML, in float64, with parameters moved away from their initial values."""
    torch.manual_seed(0)
    loss = build_loss({"class": name, **ALL[name], **options}, CLASSES, CLASSES).double()
    for parameter in loss.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return loss


def labels_for(name):
    given = PAIR_LABELS if name in OF_PAIRS else EPISODE_LABELS if name in OF_EPISODES else LABELS
    return torch.tensor(given)


def points(count=12, seed=0, unit=True):
    x = torch.randn(count, CLASSES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return normalize(x) if unit else x


def value_and_gradient(loss, x, labels):
    x = x.detach().clone().requires_grad_()
    value = loss(x, labels)
    value.backward()
    return value.item(), x.grad


def d(x, i, j):
    return math.sqrt(sum((x[i][k] - x[j][k]) ** 2 for k in range(len(x[i]))))


def slow_semihard(loss, x, y):
    terms = []
    for i, j in itertools.permutations(range(len(y)), 2):
        if y[i] == y[j]:
            negatives = [d(x, i, k) ** 2 for k in range(len(y)) if y[k] != y[i]]
            farther = [n for n in negatives if n > d(x, i, j) ** 2]
            terms.append(max(0, loss.margin + d(x, i, j) ** 2 - (min(farther) if farther else max(negatives))))
    return sum(terms) / len(terms)


def slow_lifted(loss, x, y):
    terms = []
    for i, j in itertools.combinations(range(len(y)), 2):
        if y[i] == y[j]:
            around = [math.exp(1 - d(x, row, k)) for row in (i, j) for k in range(len(y)) if y[k] != y[row]]
            terms.append(max(0, math.log(sum(around)) + d(x, i, j)) ** 2)
    return sum(terms) / (2 * len(terms))


def slow_facility(loss, x, y):
    rows, slots = range(len(y)), len(set(y))

    def assign(medoids):
        return [
            medoids.index(j) if j in medoids else min(range(len(medoids)), key=lambda s: d(x, medoids[s], j))
            for j in rows
        ]

    def augmented(medoids):
        result = assign(medoids)
        score = normalized_mutual_info_score(y, result, average_method="geometric") if len(set(result)) > 1 else 0
        return loss.gamma * (1 - score)

    def energy(medoids):
        return -sum(min(d(x, m, j) for m in medoids) for j in rows)

    medoids = []
    for _ in range(slots):
        free = [c for c in rows if c not in medoids]
        medoids.append(max(free, key=lambda c: energy([*medoids, c]) + augmented([*medoids, c])))
    for _ in range(loss.sweeps):
        result = assign(medoids)
        for slot in range(slots):
            members = [j for j in rows if result[j] == slot]

            def score(m, members=members, slot=slot):
                return -sum(d(x, m, j) for j in members) + augmented([*medoids[:slot], m, *medoids[slot + 1 :]])

            medoids[slot] = max(members, key=score)
    true = 0
    for label in set(y):
        members = [j for j in rows if y[j] == label]
        true -= min(sum(d(x, i, j) for j in members) for i in members)
    return max(0, energy(medoids) + augmented(medoids) - true)


def slow_margin(loss, x, y):
    beta, total, active = loss.beta.tolist(), 0, 0
    for a, p, n in itertools.permutations(range(len(y)), 3):
        if y[a] == y[p] and y[a] != y[n]:
            pulled = max(0, math.sqrt(d(x, a, p) ** 2 + 1e-8) - beta[y[a]] + loss.margin)
            pushed = max(0, beta[y[a]] - math.sqrt(d(x, a, n) ** 2 + 1e-8) + loss.margin)
            total += pulled + pushed + loss.nu * beta[y[a]]
            active += (pulled > 0) + (pushed > 0)
    return total / max(1, active)


def slow_ranked_list(loss, x, y):
    of_anchors = []
    for i in range(len(y)):
        far = [d(x, i, j) for j in range(len(y)) if y[j] == y[i] and d(x, i, j) > loss.alpha - loss.margin]
        near = [d(x, i, j) for j in range(len(y)) if y[j] != y[i] and d(x, i, j) < loss.alpha]
        weights = [math.exp(loss.temperature * (loss.alpha - value)) for value in near]
        pulled = sum(value - (loss.alpha - loss.margin) for value in far) / max(1, len(far))
        pushed = sum(w * (loss.alpha - value) for w, value in zip(weights, near, strict=True)) / max(1, sum(weights))
        of_anchors.append(pulled + pushed)
    return sum(of_anchors) / max(1, sum(value > 0 for value in of_anchors))


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def slow_pairs(score):
    def slow(loss, x, y):
        half, total = len(y) // 2, 0
        anchors, positives = x[:half], x[half:]
        for i in range(half):
            row = [score(loss, anchors, positives, i, j) for j in range(half)]
            total += math.log(sum(map(math.exp, row))) - row[i]
            total += 0.0005 * (dot(anchors[i], anchors[i]) + dot(positives[i], positives[i]))
        return total / half

    return slow


def angular_score(loss, a, p, i, j):
    t = math.tan(math.radians(40)) ** 2
    if i == j:
        return 2 * (1 + t) * dot(a[i], p[i])
    return 4 * t * (dot(a[i], p[j]) + dot(p[i], p[j]))


def units(loss):
    return [[v / math.sqrt(dot(row, row) + 1e-10) for v in row] for row in loss.proxies.tolist()]


def between(a, b, by=1):
    return sum((by * p - by * q) ** 2 for p, q in zip(a, b, strict=True))


def slow_proxy_nca(loss, x, y):
    total = 0
    for row, label in zip(x, y, strict=True):
        q = [between(row, proxy, 3) for proxy in units(loss)]
        away = math.log(sum(math.exp(-value) for c, value in enumerate(q) if c != label))
        for c, value in enumerate(q):
            total += (0.9 if c == label else 0.1 / (CLASSES - 1)) * (value + away)
    return total / len(y)


def slow_proxy_triplet(loss, x, y):
    total = 0
    for row, label in zip(x, y, strict=True):
        to = [between(row, proxy) for proxy in units(loss)]
        total += sum(max(0, to[label] - to[c] + 1) for c in range(CLASSES) if c != label)
    return total / len(y)


def slow_norm_proxy(loss, x, y):
    total = 0
    for row, label in zip(x, y, strict=True):
        z = [dot(row, proxy) / 0.05 for proxy in units(loss)]
        whole = math.log(sum(map(math.exp, z)))
        total += sum((0.9 if c == label else 0.1 / (CLASSES - 1)) * (whole - z[c]) for c in range(CLASSES))
    return total / len(y)


def slow_discriminative(loss, x, y):
    n, total = len(y), 0
    scale = 3 * (CLASSES - 1) * (n / CLASSES - 1) * (n / CLASSES)
    for row, label in zip(x, y, strict=True):
        to = [between(row, [float(k == c) for k in range(CLASSES)]) for c in range(CLASSES)]
        total += to[label] - sum(to[c] for c in range(CLASSES) if c != label) / (3 * (CLASSES - 1))
    return scale * total


def slow_prototypical(loss, x, y):
    supports, queries, total = x[:6], x[6:], 0
    means = [[sum(column) / 2 for column in zip(*supports[2 * c : 2 * c + 2], strict=True)] for c in range(3)]
    for number, query in enumerate(queries):
        z = [-between(query, mean) for mean in means]
        total += math.log(sum(map(math.exp, z))) - z[number // 2]
    return total / len(queries)


SLOW = {
    "SemiHardTripletLoss": slow_semihard,
    "LiftedStructureLoss": slow_lifted,
    "FacilityLocationLoss": slow_facility,
    "BoundaryMarginLoss": slow_margin,
    "UnbiasedRankedListLoss": slow_ranked_list,
    "NPairLoss": slow_pairs(lambda loss, a, p, i, j: dot(a[i], p[j])),
    "AngularPairLoss": slow_pairs(angular_score),
    "ExclusiveProxyNCALoss": slow_proxy_nca,
    "ProxyTripletLoss": slow_proxy_triplet,
    "NormProxyLoss": slow_norm_proxy,
    "DiscriminativeLoss": slow_discriminative,
    "PrototypicalLoss": slow_prototypical,
}


@pytest.mark.parametrize("name", ALL)
def test_values_agree_with_the_slow_formula(name):
    loss, labels = made(name), labels_for(name)
    for seed in range(3):
        x = points(seed=seed)
        assert loss(x, labels).item() == pytest.approx(SLOW[name](loss, x.tolist(), labels.tolist()), rel=1e-9), seed


@pytest.mark.parametrize("name", ALL)
def test_gradients_agree_with_finite_differences(name):
    loss, labels = made(name), labels_for(name)
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), points(seed=3).requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_the_batch_does_not_matter(name):
    loss, labels, x = made(name), labels_for(name), points(seed=1)
    rng = np.random.RandomState(0)
    order = rng.permutation(len(labels))
    if name in OF_PAIRS:
        half = rng.permutation(6)
        order = np.concatenate((half, 6 + half))
    elif name in OF_EPISODES:
        classes = np.concatenate([[2 * c, 2 * c + 1] for c in rng.permutation(3)])
        order = np.concatenate((classes, 6 + classes))
    value, gradient = value_and_gradient(loss, x, labels)
    shuffled, shuffled_gradient = value_and_gradient(loss, x[order], labels[order])
    assert shuffled == pytest.approx(value, rel=1e-10)
    torch.testing.assert_close(shuffled_gradient, gradient[order])


@pytest.mark.parametrize("name", [name for name in ALL if name not in OF_PROXIES and name != "BoundaryMarginLoss"])
def test_class_names_do_not_matter(name):
    loss, labels, x = made(name), labels_for(name), points(seed=2)
    value, gradient = value_and_gradient(loss, x, labels)
    renamed, renamed_gradient = value_and_gradient(loss, x, 1000 - 37 * labels)
    assert renamed == pytest.approx(value, rel=1e-12)
    torch.testing.assert_close(renamed_gradient, gradient)


@pytest.mark.parametrize("name", [name for name in OF_PROXIES if name != "DiscriminativeLoss"])
def test_proxies_belong_to_their_classes(name):
    loss, labels, x = made(name), labels_for(name), points(seed=2)
    value, _ = value_and_gradient(loss, x, labels)
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(0))
    loss.proxies.data = loss.proxies.data[order]
    assert loss(x, order.argsort()[labels]).item() == pytest.approx(value, rel=1e-12)


def assert_finite(loss, x, labels):
    value, gradient = value_and_gradient(loss, x, labels)
    assert math.isfinite(value)
    assert gradient.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in loss.parameters())
    return value, gradient


def flawed():
    equal = points()[:1].repeat(12, 1)
    doubled = points(6).repeat(2, 1)
    yield from (equal, doubled, torch.zeros_like(equal), -doubled.abs() * torch.tensor([1.0, -1.0]).repeat(6)[:, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ALL)
def test_equal_points_zeros_and_duplicates_are_finite(name, dtype):
    for x in flawed():
        loss = made(name).to(dtype)
        assert_finite(loss, x.to(dtype), labels_for(name))


@pytest.mark.parametrize("name", [*OF_ROWS, *OF_PROXIES])
def test_batches_of_one_class_without_positives_or_of_one_image_are_finite(name):
    for x in (points(unit=False), torch.zeros(12, CLASSES, dtype=torch.float64)):
        assert_finite(made(name), x[:8], torch.full((8,), 3))
        assert_finite(made(name), x[:8], torch.arange(8))
        assert_finite(made(name), x[:1], torch.tensor([3]))


@pytest.mark.parametrize("name", ["SemiHardTripletLoss", "LiftedStructureLoss", "BoundaryMarginLoss"])
def test_without_triplets_the_loss_is_zero(name):
    for labels in (torch.full((8,), 3), torch.arange(8)):
        value, gradient = assert_finite(made(name), points(8), labels)
        assert value == 0
        assert (gradient == 0).all()


def test_facility_location_of_many_rounds():
    """Classes of several sizes, equal points, and a sweep that changes several medoids."""
    loss = made("FacilityLocationLoss", gamma=5.0)
    labels = torch.tensor([8, 3, 3, 5, 8, 1, 1, 5, 3, 8, 8, 6, 1, 3, 5, 8, 3, 6, 0, 8, 5, 1, 3, 8])
    x = points(24, seed=12)
    x[7] = x[2]
    facilities = loss.search(distances(x, x), labels)
    assert (facilities.greedy != facilities.medoids).sum() > 1
    assert loss(x, labels).item() == pytest.approx(slow_facility(loss, x.tolist(), labels.tolist()), rel=1e-9)


def test_facility_location_without_a_choice():
    loss = made("FacilityLocationLoss")
    value, gradient = value_and_gradient(loss, points(8), torch.arange(8))
    assert value == pytest.approx(0, abs=1e-12), "every row is a cluster"
    assert gradient.abs().max() == 0
    value, gradient = value_and_gradient(loss, points(8), torch.full((8,), 3))
    assert value == loss.gamma, "a single cluster has no information and equals the true clustering"
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("name", OF_PAIRS)
def test_one_pair_has_no_negatives(name):
    x = points(2)
    value, gradient = value_and_gradient(made(name), x, torch.tensor([3, 3]))
    assert value == pytest.approx(0.0005 * 2)
    torch.testing.assert_close(gradient, 0.001 * x)


def test_semihard_uses_the_nearest_farther_negative_or_else_the_farthest():
    x = torch.tensor([[0.0], [2.0], [3.0], [5.0], [-1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 2, 3])
    value, gradient = value_and_gradient(made("SemiHardTripletLoss", margin=10.0), x, labels)
    # from 0: the positive is 4 away, then 9 comes first; from 2: 4 away, and only 9 (twice, 5 before -1) is farther
    assert value == pytest.approx(((10 + 4 - 9) + (10 + 4 - 9)) / 2)
    assert gradient[2] != 0 and gradient[3] != 0 and gradient[4] == 0
    no_farther = torch.tensor([[0.0], [9.0], [3.0], [1.0]], dtype=torch.float64)
    value, _ = value_and_gradient(made("SemiHardTripletLoss"), no_farther, torch.tensor([0, 0, 1, 1]))
    # 0 to 9 is 81, its farthest negative 9; 9 to 0 is 81, its farthest 64; between 3 and 1 nothing is violated
    assert value == pytest.approx(((1 + 81 - 9) + (1 + 81 - 64)) / 4)


def test_a_negative_at_the_distance_of_the_positive_is_not_semihard():
    """It is still used if it is the farthest negative and no semi-hard one exists."""
    x = torch.tensor([[0.0], [1.0], [-1.0], [3.0]], dtype=torch.float64)
    loss = made("SemiHardTripletLoss", margin=10.0)
    assert loss(x, torch.tensor([0, 0, 1, 2])).item() == pytest.approx(((10 + 1 - 9) + (10 + 1 - 4)) / 2)
    assert loss(x[:3], torch.tensor([0, 0, 1])).item() == pytest.approx(((10 + 1 - 1) + (10 + 1 - 4)) / 2)


def test_npair_equals_the_librarys():
    x, labels = points(unit=False), torch.tensor(PAIR_LABELS)
    peer = library.NPairsLoss(
        distance=library_distances.DotProductSimilarity(normalize_embeddings=False),
        embedding_regularizer=LpRegularizer(p=2, power=2),
        embedding_reg_weight=2 * 0.0005,
    )
    ours, theirs = (value_and_gradient(loss, x, labels) for loss in (made("NPairLoss"), peer))
    assert ours[0] == pytest.approx(theirs[0], rel=1e-12)
    torch.testing.assert_close(ours[1], theirs[1])


def test_margin_nearly_equals_the_librarys():
    x, labels = points(), torch.tensor(LABELS)
    loss = made("BoundaryMarginLoss", nu=0.1)
    peer = library.MarginLoss(
        margin=0.2,
        nu=0.1,
        learn_beta=True,
        num_classes=CLASSES,
        distance=library_distances.LpDistance(normalize_embeddings=False),
    ).double()
    peer.beta.data = loss.beta.data.clone()
    ours, theirs = (value_and_gradient(each, x, labels) for each in (loss, peer))
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-6, atol=1e-7)


def test_boundaries_by_position():
    x, labels = points(), torch.tensor(LABELS)
    by_class, by_position = (made("BoundaryMarginLoss", beta_index=index, nu=0.0) for index in ("class", "position"))
    by_position.beta.data = by_class.beta.data[labels.clamp_max(CLASSES - 1)][:CLASSES]
    # rows 10 and 11 are beyond the table: they have the boundary of row 9
    labels_10_11 = labels.clone()
    labels_10_11[10:] = labels[9]
    inside = torch.tensor([[0, 2, 1], [3, 4, 0], [9, 3, 11]])
    assert by_position(x, labels, tuple(inside.T)).item() == pytest.approx(by_class(x, labels, tuple(inside.T)).item())
    beyond = torch.tensor([[11, 0, 1], [10, 7, 2]])
    expected = by_class(x, labels_10_11, tuple(beyond.T)).item()
    assert by_position(x, labels, tuple(beyond.T)).item() == pytest.approx(expected)


def test_norm_proxy_equals_an_equivalent_formula():
    x, labels = points(), torch.tensor(LABELS)
    loss = made("NormProxyLoss")
    scores = x @ loss.units.T / 0.05
    smoothed = cross_entropy(scores, labels, label_smoothing=0.1 * CLASSES / (CLASSES - 1))
    assert loss(x, labels).item() == pytest.approx(smoothed.item(), rel=1e-12)
    turned = made("NormProxyLoss", sign="original")
    turned.proxies.data = -loss.proxies.data
    assert turned(x, labels).item() == pytest.approx(loss(x, labels).item(), rel=1e-12)
    plain = made("NormProxyLoss", label_smoothing=0.0)
    peer = library.NormalizedSoftmaxLoss(CLASSES, CLASSES, temperature=0.05).double()
    peer.W.data = plain.proxies.data.T.clone()
    assert plain(x, labels).item() == pytest.approx(peer(x, labels).item(), rel=1e-8)


def test_proxy_nca_can_keep_the_positive():
    x, labels = points(), torch.tensor(LABELS)
    loss = made("ExclusiveProxyNCALoss", label_smoothing=0.0, exclude_positive=False)
    expected = cross_entropy(-(torch.cdist(3 * x, 3 * loss.units) ** 2), labels)
    assert loss(x, labels).item() == pytest.approx(expected.item(), rel=1e-10)
    exclusive = made("ExclusiveProxyNCALoss", label_smoothing=0.0)
    true_proxies = exclusive.units[labels].detach()
    assert exclusive(true_proxies, labels).item() < 0 < loss(true_proxies, labels).item()


def test_scales_of_the_discriminative_loss():
    x, few = points(), torch.tensor(LABELS)[:6]
    signed, absolute, one = (made("DiscriminativeLoss", scale=scale) for scale in ("signed", "absolute", "one"))
    assert signed(x[:6], few).item() == -absolute(x[:6], few).item() < 0
    assert signed(x[:6], few).item() == pytest.approx(signed.factor(6) * one(x[:6], few).item())


def test_a_scaled_loss():
    x, labels = points(), torch.tensor(LABELS)
    spec = {"class": "BoundaryMarginLoss"}
    plain = build_loss(spec, CLASSES, 4).double()
    halved = build_loss({"class": "ScaledLoss", "loss": spec, "factor": 0.5}, CLASSES, 4).double()
    shared = build_loss({"class": "ScaledLoss", "loss": spec, "per_image": True}, CLASSES, 4).double()
    triplets = tuple(torch.tensor([[0, 2, 1], [3, 4, 0]]).T)
    for mined in ((), (triplets,)):
        value = plain(x, labels, *mined).item()
        assert halved(x, labels, *mined).item() == pytest.approx(value / 2)
        assert shared(x, labels, *mined).item() == pytest.approx(value / 12)


class Operations(TorchDispatchMode):
    """Counts the operations on tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += 1
        return function(*arguments, **(options or {}))


def test_facility_location_is_cheap_enough_to_train_with():
    """A batch as in training; one operation per pair of images would be 14,400 in each of 24 rounds."""
    x = normalize(torch.randn(120, 64, generator=torch.Generator().manual_seed(0)))
    with Operations() as operations:
        FacilityLocationLoss()(x, torch.arange(24).repeat_interleave(5))
    assert 0 < operations.count < 2000


@pytest.mark.parametrize(
    ("name", "options", "labels", "sentence"),
    [
        ("NPairLoss", {}, [1, 2, 1, 3], "use the sampler 'Pairs'"),
        ("AngularPairLoss", {}, [1, 2, 1], "'AngularPairLoss' needs batches of pairs"),
        ("AngularPairLoss", {"alpha": 90}, None, "between 0 and 90 degrees, found 90"),
        ("PrototypicalLoss", {}, [1] * 11, "3 classes x"),
        ("PrototypicalLoss", {}, [6, 6, 2, 2, 4, 4, 6, 6, 4, 4, 2, 2], "use the sampler 'Episodes'"),
        ("BoundaryMarginLoss", {"beta_index": "row"}, None, "'class' or 'position'"),
        ("NormProxyLoss", {"sign": "minus"}, None, "'standard' or 'original'"),
        ("NormProxyLoss", {"init": "unifrm 2"}, None, "did you mean 'uniform'"),
        ("NormProxyLoss", {"init": "uniform a"}, None, "needs a number above 0, found 'a'"),
        ("ProxyTripletLoss", {"init": 2}, None, "must be a rule and a number"),
        ("ProxyTripletLoss", {"num_classes": 1}, None, "at least two training classes"),
        ("UnbiasedRankedListLoss", {"margin": 2}, None, r"'margin' of .* must be from 0 to 'alpha' \(1.2\), found 2"),
        ("DiscriminativeLoss", {"scale": "two"}, None, "one of signed, absolute, one"),
        ("DiscriminativeLoss", {"num_classes": 9}, LABELS, "use the head 'DiscriminativeHead'"),
    ],
)
def test_mistakes_are_named(name, options, labels, sentence):
    with pytest.raises(UserError, match=sentence):
        made(name, **options)(points(len(labels or [])), torch.tensor(labels or []))


@pytest.fixture
def sampler():
    return build_miner({"class": "DistanceWeightedSampler"})


def test_every_positive_gets_a_negative(sampler):
    labels = torch.tensor(LABELS)
    anchors, positives, negatives = sampler(points(), labels)
    pairs = [(i, j) for i, j in itertools.permutations(range(12), 2) if LABELS[i] == LABELS[j]]
    assert list(zip(anchors.tolist(), positives.tolist(), strict=True)) == pairs
    assert (labels[anchors] != labels[negatives]).all()


def test_negatives_are_drawn_with_the_right_frequency(sampler):
    torch.manual_seed(0)
    x, labels = points(), torch.tensor(LABELS)
    expected = sampler.probabilities(x, labels)
    torch.testing.assert_close(expected.sum(dim=1), torch.ones(12, dtype=torch.float64))
    drawn = torch.zeros(12, 12, dtype=torch.float64)
    for _ in range(1000):
        anchors, _, negatives = sampler(x, labels)
        drawn.index_put_((anchors, negatives), torch.ones(len(anchors), dtype=torch.float64), accumulate=True)
    assert (drawn / drawn.sum(dim=1, keepdim=True) - expected).abs().max() < 0.04


def test_draws_use_the_global_generator(sampler):
    x, labels = points(), torch.tensor(LABELS)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(sampler(x, labels)[2])
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_weights_of_many_dimensions_in_single_precision(sampler):
    """Weights exceed the range of float32, but the largest ones must still be right."""
    size = 200
    x = torch.eye(6, size)
    x[:, 6] = torch.linspace(0.2, 0.5, 6)
    x = normalize(x)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    apart = torch.cdist(x.double(), x.double()).clamp_min(0.5).numpy()
    assert apart[~np.eye(6, dtype=bool)].min() > 1.2 and apart.max() < 1.4
    logs = (2 - size) * np.log(apart) - (size - 3) / 2 * np.log(1 - apart**2 / 4)
    logs[labels[:, None] == labels] = -np.inf
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert expected.max() > 0.3, "far from uniform"
    np.testing.assert_allclose(sampler.probabilities(x, labels).numpy(), expected, rtol=1e-3)


def test_without_a_candidate_all_other_classes_are_equally_likely(sampler):
    x = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 1, 2]]  # all sqrt(2) > 1.4 apart
    x[4] = -x[0]  # and one pair opposite
    labels = torch.tensor([0, 0, 1, 1, 2])
    for dtype in (torch.float32, torch.float64):
        result = sampler.probabilities(x.to(dtype), labels)
        other = (labels[:, None] != labels).to(dtype)
        torch.testing.assert_close(result, other / other.sum(dim=1, keepdim=True))
    assert len(sampler(x, labels)[0]) == 4, "the only image of a class has no positive, so it is not an anchor"


def test_no_triplets_from_one_class_or_without_positives(sampler):
    for labels in (torch.zeros(6, dtype=torch.int64), torch.arange(6)):
        x = points(6).requires_grad_()
        triplets = sampler(x, labels)
        assert [len(rows) for rows in triplets] == [0, 0, 0]
        value = build_loss({"class": "BoundaryMarginLoss"}, CLASSES, 4)(x, labels, triplets)
        value.backward()
        assert value.item() == 0
        assert (x.grad == 0).all()
