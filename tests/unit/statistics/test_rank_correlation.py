"""Rank correlations and their intervals, compared with scipy's."""

import numpy as np
import pytest
from scipy import stats

from recheck.statistics.rank_correlation import kendall, spearman

GENERATOR = np.random.default_rng(0)
VALUES = GENERATOR.normal(size=(2, 11)) + np.linspace(0, 3, 11)
TIED = GENERATOR.integers(0, 5, (2, 11)).astype(float)
PEERS = [(spearman, stats.spearmanr), (kendall, stats.kendalltau)]


@pytest.mark.parametrize("values", [VALUES, TIED], ids=["all different", "tied"])
@pytest.mark.parametrize(("ours", "peer"), PEERS, ids=["spearman", "kendall"])
def test_values_and_intervals_equal_those_of_scipy(ours, peer, values):
    correlation = ours(*values, draws=200, seed=3)
    expected = stats.bootstrap(
        tuple(values),
        lambda x, y: peer(x, y).statistic,
        paired=True,
        vectorized=False,
        n_resamples=200,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert correlation.value == pytest.approx(peer(*values).statistic, abs=1e-12)
    assert (correlation.low, correlation.high) == pytest.approx(tuple(expected), abs=1e-12)
    assert correlation == ours(*values, draws=200, seed=3)


@pytest.mark.parametrize("ours", [spearman, kendall])
def test_the_same_order_and_the_reverse(ours):
    same, reverse = ours([1, 2, 3], [10, 20, 30], draws=200), ours([1, 2, 3], [3, 2, 1], draws=200)
    assert (same.value, same.low, same.high) == pytest.approx((1, 1, 1))
    assert (reverse.value, reverse.low, reverse.high) == pytest.approx((-1, -1, -1))
