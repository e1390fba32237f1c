"""Our DistanceWeightedMiner, which must draw exactly what pytorch-metric-learning's draws."""

import pytest
import pytorch_metric_learning.miners as library
import torch

from recheck.methods.losses import build_loss, build_miner

OPTIONS = {"cutoff": 0.5, "nonzero_loss_cutoff": 1.4}


def batch(seed, images, per_class, dimensions, spread, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.arange(images) // per_class)[torch.randperm(images, generator=generator)] * 3 + 1
    centres = torch.randn(3 * images + 1, dimensions, generator=generator)
    return (centres[labels] * spread + torch.randn(images, dimensions, generator=generator)).to(dtype), labels


def drawn(miner, *arguments):
    """Triplets, their number as the miner reports it, and the next number of the generator."""
    torch.manual_seed(7)
    triplets = miner(*arguments)
    return torch.stack(triplets), miner.num_triplets, torch.rand(1).item()


def same(*arguments):
    expected = drawn(library.DistanceWeightedMiner(**OPTIONS), *arguments)
    ours = drawn(build_miner({"class": "DistanceWeightedMiner", **OPTIONS}), *arguments)
    assert torch.equal(ours[0], expected[0])
    assert ours[0].dtype == torch.int64
    assert ours[1:] == expected[1:]
    return ours[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("images", "per_class", "dimensions", "spread"),
    [(128, 4, 512, 1.0), (128, 2, 64, 0.0), (41, 4, 3, 0.0), (40, 4, 512, 4.0), (6, 3, 2, 0.0)],
)
def test_the_draws_are_the_librarys(images, per_class, dimensions, spread, dtype):
    """Also in few dimensions, where some anchors have no candidate, and with single images of a class."""
    assert same(*batch(images, images, per_class, dimensions, spread, dtype)).shape[1]


def test_equal_and_opposite_points():
    embeddings, labels = batch(0, 24, 4, 8, 0.0)
    embeddings[3:7] = embeddings[0]
    embeddings[9] = -embeddings[0]
    assert same(embeddings, labels).shape[1]


@pytest.mark.parametrize("per_class", [1, 12])
def test_batches_without_triplets(per_class):
    assert same(*batch(1, 12, per_class, 8, 1.0)).shape == (3, 0)


def test_a_memory_is_left_to_the_library():
    memory = batch(3, 60, 4, 16, 1.0)
    assert same(*batch(2, 24, 4, 16, 1.0), *memory).shape[1]
    loss = build_loss(
        {
            "class": "CrossBatchMemory",
            "loss": {"class": "TripletMarginLoss"},
            "miner": {"class": "DistanceWeightedMiner"},
            "embedding_size": 16,
            "memory_size": 48,
        },
        30,
        16,
    )
    assert loss(*batch(2, 24, 4, 16, 1.0)).isfinite()


def test_weights_by_the_formula():
    embeddings, labels = batch(4, 20, 4, 6, 0.0, torch.float64)
    ours = build_miner({"class": "DistanceWeightedMiner", **OPTIONS}).probabilities(embeddings, labels)
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    for i, row in enumerate(ours):
        weights = []
        for j in range(20):
            distance = max(float((unit[i] - unit[j]).norm()), 0.5)
            density = distance ** (6 - 2) * (1 - distance**2 / 4) ** ((6 - 3) / 2)
            weights.append(1 / density if labels[i] != labels[j] and distance < 1.4 else 0.0)
        expected = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        torch.testing.assert_close(row, expected, rtol=1e-9, atol=1e-12)
