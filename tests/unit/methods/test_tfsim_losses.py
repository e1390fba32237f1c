"""Losses of the calibration study, compared with slow sums and the library, and checked for invariants."""

import math
from itertools import product

import pytest
import torch
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner

from recheck.errors import UserError
from recheck.methods.losses import build_loss
from recheck.methods.losses.tfsim.log_sum_exp import log_sum_exp
from recheck.methods.losses.tfsim.masked import masked_max, masked_min

MATHS = ("fixed", "legacy")
CIRCLE = {"class": "TwoSidedCircleLoss", "gamma": 20.0, "margin": 0.25}
MS = {"class": "MinedMultiSimilarityLoss", "alpha": 2.0, "beta": 15.0, "epsilon": 0.1, "lmda": 0.7}
TRIPLETS = [
    {"class": name, "positive_mining": positive, "negative_mining": negative, **margin}
    for name in ("MinedTripletLoss", "PositiveNegativeLoss")
    for positive in ("hard", "easy")
    for negative in ("hard", "semi-hard", "easy")
    for margin in ({"margin": 0.3}, {"soft_margin": True})
]
SPECS = [{**spec, "maths": maths} for maths in MATHS for spec in (CIRCLE, MS, *TRIPLETS)]


def named(spec):
    return "-".join(str(value) for value in spec.values())


def make(spec):
    return build_loss(spec, num_classes=5, embedding_size=6)


def batch(seed=0, labels=(0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4)):
    """Every fourth image is opposite to its class, so some anchors have no semi-hard negative. Class 3 is one image."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(labels)
    centres = torch.randn(int(labels.max()) + 1, 6, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), 6, generator=generator, dtype=torch.float64)
    side = torch.where(torch.arange(len(labels)) % 4 == 0, -1, 1)[:, None]
    return (side * centres[labels] + 0.9 * noise).requires_grad_(), labels


# One pair at a time


def slow_distances(embeddings):
    rows = embeddings.detach().tolist()
    lengths = [math.sqrt(sum(value * value for value in row)) for row in rows]
    return [
        [
            max(0.0, 1 - sum(a * b for a, b in zip(one, other, strict=True)) / (lengths[i] * lengths[j]))
            for j, other in enumerate(rows)
        ]
        for i, one in enumerate(rows)
    ]


def slow_sum(exponents, row, maths):
    first = math.exp(max(row)) if maths == "legacy" else 1.0
    return math.log(first + sum(math.exp(value) for value in exponents))


def slow_circle(i, d, positives, negatives, spec):
    gamma, m, maths = spec["gamma"], spec["margin"], spec["maths"]
    if not positives or not negatives:
        return 0.0
    attract = {j: -gamma * max(0, m + d[i][j]) * (m - d[i][j]) for j in positives}
    repel = {j: gamma * max(0, 1 + m - d[i][j]) * (1 - m - d[i][j]) for j in negatives}
    # all other entries of the original's matrices are 0
    return sum(slow_sum(piece.values(), [0.0, *piece.values()], maths) for piece in (attract, repel))


def slow_ms(i, d, positives, negatives, spec):
    alpha, beta, epsilon, maths = spec["alpha"], spec["beta"], spec["epsilon"], spec["maths"]
    if not positives or not negatives:
        return 0.0
    shift = -spec["lmda"] if maths == "legacy" else spec["lmda"] - 1
    nearest, farthest = min(d[i][j] for j in negatives), max(d[i][j] for j in positives)
    kept = [j for j in positives if d[i][j] > nearest - epsilon], [j for j in negatives if d[i][j] < farthest + epsilon]
    if not all(kept):
        return 0.0
    return sum(
        slow_sum([k * (d[i][j] + shift) for j in piece], [k * (value + shift) for value in d[i]], maths) / abs(k)
        for k, piece in zip((alpha, -beta), kept, strict=True)
    )


def slow_gap(i, d, positives, negatives, spec):
    """d_p − d_n of an anchor with positives and negatives."""
    p = (max if spec["positive_mining"] == "hard" else min)(positives, key=lambda j: d[i][j])
    hardest = max(d[i][j] for j in positives)
    farther = [j for j in negatives if d[i][j] > hardest]
    n = {
        "hard": min(negatives, key=lambda j: d[i][j]),
        "easy": max(negatives, key=lambda j: d[i][j]),
        "semi-hard": min(farther or [max(negatives, key=lambda j: d[i][j])], key=lambda j: d[i][j]),
    }[spec["negative_mining"]]
    d_n = d[i][n]
    if spec["negative_mining"] == "semi-hard" and not farther and spec["maths"] == "legacy":
        n, d_n = 0, max(d[i]) + 1e-6
    if spec["class"] == "PositiveNegativeLoss":
        d_n = min(d_n, d[p][n])
    return d[i][p] - d_n


def slow(spec, embeddings, labels):
    d, labels = slow_distances(embeddings), labels.tolist()
    result = []
    for i, label in enumerate(labels):
        positives = [j for j, other in enumerate(labels) if other == label and j != i]
        negatives = [j for j, other in enumerate(labels) if other != label]
        if "gamma" in spec:
            result.append(slow_circle(i, d, positives, negatives, spec))
        elif "alpha" in spec:
            result.append(slow_ms(i, d, positives, negatives, spec))
        else:
            result.append(slow_gap(i, d, positives, negatives, spec) if positives and negatives else None)
    if "positive_mining" not in spec:
        return sum(result) / len(labels)
    complete = [gap for gap in result if gap is not None]
    if "margin" in spec:
        return sum(max(0, gap + spec["margin"]) for gap in complete) / len(labels)
    if spec["maths"] == "legacy":
        return math.log(sum(math.exp(gap) for gap in complete))
    return sum(math.log(1 + math.exp(gap)) for gap in complete) / len(labels)


@pytest.mark.parametrize("spec", SPECS, ids=named)
def test_pair_by_pair(spec):
    for seed in range(5):
        embeddings, labels = batch(seed)
        assert make(spec)(embeddings, labels).item() == pytest.approx(slow(spec, embeddings, labels), rel=1e-9)


def test_the_batch_has_anchors_of_every_kind():
    """The comparison above relies on this."""
    with_semi_hard = without = 0
    for seed in range(5):
        embeddings, labels = batch(seed)
        d, labels = slow_distances(embeddings), labels.tolist()
        for i, label in enumerate(labels):
            positives = [d[i][j] for j in range(len(d)) if labels[j] == label and j != i]
            if positives:
                has_semihard = any(labels[j] != label and d[i][j] > max(positives) for j in range(len(d)))
                with_semi_hard, without = with_semi_hard + has_semihard, without + (not has_semihard)
    assert with_semi_hard > 5
    assert without > 5


# Invariants


@pytest.mark.parametrize("spec", SPECS, ids=named)
def test_order_class_names_and_lengths_do_not_matter(spec):
    embeddings, labels = batch()
    value = make(spec)(embeddings, labels).item()
    renamed = torch.tensor([70, -3, 12, 5, 0])[labels]
    lengths = torch.linspace(0.1, 9, len(labels), dtype=torch.float64)[:, None]
    assert make(spec)(embeddings * lengths, renamed).item() == pytest.approx(value, rel=1e-9)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))
    if spec["maths"] == "legacy" and spec["class"] == "PositiveNegativeLoss" and spec["negative_mining"] == "semi-hard":
        order = torch.cat(
            [torch.tensor([0]), order[order != 0]]
        )  # using image 0 is a mistake of the original, kept on purpose
    assert make(spec)(embeddings[order], labels[order]).item() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=named)
@pytest.mark.parametrize("labels", [[4] * 6, list(range(6)), [2]], ids=["one class", "no positives", "one image"])
def test_nothing_to_learn(spec, labels):
    embeddings = torch.randn(len(labels), 6, dtype=torch.float64, requires_grad=True)
    value = make(spec)(embeddings, torch.tensor(labels))
    value.backward()
    assert value.item() == 0
    assert torch.equal(embeddings.grad, torch.zeros_like(embeddings))


@pytest.mark.parametrize("spec", [*SPECS, *({**spec, "incomplete_anchors": "count"} for spec in TRIPLETS)], ids=named)
def test_gradients_are_finite(spec):
    same = torch.ones(8, 6)
    ties = torch.eye(6).repeat(2, 1)[:8]
    zeros = torch.cat([torch.zeros(3, 6), same[:5]])
    opposite = torch.cat([same[:4], -same[:4]])
    three = [0, 0, 1, 1, 2, 2, 3, 4], [0] * 8, list(range(8))
    for rows, labels, dtype in product((same, ties, zeros, opposite), three, (torch.float32, torch.float64)):
        embeddings = rows.to(dtype, copy=True).requires_grad_()
        value = make(spec)(embeddings, torch.tensor(labels))
        value.backward()
        assert value.isfinite()
        assert value.dtype == dtype
        assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec["maths"] == "fixed"], ids=named)
def test_gradients_by_differences(spec):
    embeddings, labels = batch(1, labels=(0, 0, 0, 1, 1, 2, 3))
    assert torch.autograd.gradcheck(make(spec), (embeddings, labels), eps=1e-7, atol=1e-5)


def test_anchors_without_positives_can_count():
    """As in the library, such an anchor then counts as if it had a positive at (nearly) distance 0."""
    embeddings, labels = batch(labels=(0, 0, 1, 2))
    spec = {"class": "MinedTripletLoss", "negative_mining": "hard", "margin": 0.9}
    zero = make(spec).per_anchor(embeddings, labels)
    count = make({**spec, "incomplete_anchors": "count"}).per_anchor(embeddings, labels)
    d = slow_distances(embeddings)
    expected = [max(0, 0.9 - 1e-6 - min(d[i][j] for j in range(4) if j != i)) for i in (2, 3)]
    assert zero[2:].tolist() == [0, 0]
    assert count[2:].tolist() == pytest.approx(expected, abs=1e-12)
    assert max(expected) > 0
    assert torch.equal(zero[:2], count[:2])


def test_multi_similarity_equals_the_librarys_if_all_anchors_are_complete():
    embeddings, labels = batch(labels=(0, 0, 0, 1, 1, 1, 2, 2, 2))
    ours = make({**MS, "maths": "fixed"})
    assert (ours.per_anchor(embeddings, labels) > 0).all()
    mined = MultiSimilarityMiner(epsilon=MS["epsilon"])(embeddings, labels)
    theirs = MultiSimilarityLoss(alpha=MS["alpha"], beta=MS["beta"], base=MS["lmda"])
    assert ours(embeddings, labels).item() == pytest.approx(theirs(embeddings, labels, mined).item(), rel=1e-9)


def test_lambda_of_both_versions():
    """The published λ = 1 is today's λ = 0."""
    old = make({"class": "MinedMultiSimilarityLoss", "lmda": 1.0, "maths": "legacy"})
    new = make({"class": "MinedMultiSimilarityLoss", "lmda": 0.0})
    assert old.shift == new.shift == -1
    assert make({"class": "MinedMultiSimilarityLoss", "lmda": 1.0, "center": 0.25}).shift == 0.75


def test_legacy_multi_similarity_hardly_sees_negatives():
    """Compares the share of the gradient that falls on the negatives, with the benchmark's settings."""
    embeddings, labels = batch(labels=(0, 0, 0, 1, 1, 1, 2, 2, 2))
    exponents = -50 * (torch.tensor(slow_distances(embeddings), dtype=torch.float64) - 1)
    negative = labels[:, None] != labels
    shares = {}
    for maths in MATHS:
        x = exponents.clone().requires_grad_()
        log_sum_exp(x, negative, maths).sum().backward()
        shares[maths] = x.grad[negative].sum().item() / len(labels)
    assert shares["fixed"] > 0.9
    assert shares["legacy"] < 1e-2


def test_large_exponents_stay_finite():
    x = torch.tensor([[900.0, -900.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    for maths, expected in (("fixed", 900.0), ("legacy", 900 + math.log(2))):
        assert log_sum_exp(x, mask, maths).item() == pytest.approx(expected, rel=1e-12)
    assert log_sum_exp(x, ~mask, "fixed").item() == pytest.approx(math.log(2))
    assert log_sum_exp(x, ~mask, "legacy").item() == pytest.approx(900.0), "an entry outside the mask"


# Masked extremes


def test_extremes_of_masked_rows():
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-4, 5, (60, 7), generator=generator).double()
    mask = torch.rand(60, 7, generator=generator) < 0.3
    largest, smallest = masked_max(values, mask), masked_min(values, mask)
    for row in range(len(values)):
        entries = values[row].tolist()
        among = [place for place in range(7) if mask[row, place]]
        high = max((entries[place] for place in among), default=min(entries) - 1e-6)
        low = min((entries[place] for place in among), default=max(entries) + 1e-6)
        assert (largest.value[row], smallest.value[row]) == (high, low)
        assert largest.place[row] == (entries_index(entries, among, high) if among else 0)
        assert smallest.place[row] == (entries_index(entries, among, low) if among else 0)
    assert not mask.any(dim=1).all()


def entries_index(entries, among, value):
    return next(place for place in among if entries[place] == value)


def test_gradients_of_equal_extremes_are_shared():
    values = torch.tensor([[1.0, 3.0, 3.0, 9.0]], requires_grad=True)
    masked_max(values, torch.tensor([[True, True, True, False]])).value.sum().backward()
    assert values.grad.tolist() == [[0, 0.5, 0.5, 0]]


# Errors


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {**CIRCLE, "maths": "fix"},
            "Unknown value 'fix' for 'maths' of the loss 'TwoSidedCircleLoss'; did you mean 'fixed'",
        ),
        ({**CIRCLE, "gamma": "1e2"}, "'gamma' of the loss 'TwoSidedCircleLoss' must be a number above 0, found '1e2'"),
        ({**CIRCLE, "gama": 2}, "Unknown argument 'gama' of loss 'TwoSidedCircleLoss'; did you mean 'gamma'"),
        ({**MS, "alpha": 0}, "'alpha' of the loss 'MinedMultiSimilarityLoss' must be a number above 0, found 0"),
        (
            {**MS, "center": 1.0, "maths": "legacy"},
            "'center' of the loss .* needs 'maths: fixed', found 'maths: legacy'",
        ),
        ({"class": "MinedTripletLoss", "negative_mining": "semihard"}, "did you mean 'semi-hard'"),
        (
            {"class": "MinedTripletLoss", "positive_mining": "semi-hard"},
            "Unknown value 'semi-hard' for 'positive_mining' of ",
        ),
        ({"class": "PositiveNegativeLoss", "incomplete_anchors": "skip"}, "known: count, zero"),
        (
            {"class": "PositiveNegativeLoss", "margin": 0.1, "soft_margin": True},
            "'PositiveNegativeLoss' takes 'margin' or 'soft_margin', found both",
        ),
        (
            {"class": "PositiveNegativeLoss", "soft_margin": "no"},
            "'soft_margin' of .* must be true or false, found 'no'",
        ),
        ({"class": "MinedTripletLoss", "margin": True}, "'margin' of .* must be a number, found True"),
    ],
)
def test_invalid_arguments_are_named(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        make(spec)


def test_invalid_inputs_are_named():
    embeddings, labels = batch()
    loss = make(CIRCLE)
    with pytest.raises(UserError, match="mines its pairs itself: remove 'miner'"):
        loss(embeddings, labels, MultiSimilarityMiner()(embeddings, labels))
    with pytest.raises(UserError, match="one embedding per image: remove 'forward'"):
        loss(embeddings[None], labels)


def test_defaults():
    loss = make({"class": "PositiveNegativeLoss"})
    given = (loss.positive_mining, loss.negative_mining, loss.margin, loss.soft_margin, loss.maths)
    assert given == ("hard", "semi-hard", 1.0, False, "fixed")
