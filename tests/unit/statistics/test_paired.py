"""Paired comparisons agree with scipy, statsmodels and brute force, keep their error rates, and JavaScript agrees."""

import json
import shutil
import subprocess
from itertools import product
from math import isnan

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from recheck.statistics import paired
from support.golden import paired_vectors
from support.project import SCRIPTS
from support.suite.unavailable import unavailable

JAVASCRIPT = """
const paired = require(process.argv[1]);
const { random, tails, cases } = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
const values = (rows) => new Map(rows.map(([seed, folds]) => [seed, folds.map((value) => value ?? NaN)]));
const next = paired.mulberry32(random.seed);
console.log(JSON.stringify({
  random: random.numbers.map(next),
  cases: cases.map(({ first, second }) => paired.compare(values(first), values(second), tails)),
}));
"""


def column(*differences):
    return np.array(differences, float)[:, None]


def methods(differences):
    """Two methods with these differences per seed."""
    return {seed: [0.5 + value] for seed, value in enumerate(differences)}, {seed: [0.5] for seed in range(99)}


@pytest.mark.parametrize("seeds", [3, 6, 8, 12])
def test_the_sign_flip_test_is_that_of_scipy(seeds):
    first, second = np.random.default_rng(seeds).random((2, seeds))
    first += 0.2
    peer = stats.permutation_test(
        (first, second),
        lambda one, two, axis: (one - two).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert paired.p_values((first - second)[:, None])[0] == pytest.approx(peer.pvalue, rel=1e-12)


def test_random_flips_are_close_to_all_flips(monkeypatch):
    differences = np.random.default_rng(0).normal(0.4, 1, (13, 5))
    exact = paired.p_values(differences)
    paired.flips.cache_clear()
    monkeypatch.setattr(paired, "CASES", 8000)
    assert len(paired.flips(13)) == 8000
    assert paired.p_values(differences) == pytest.approx(exact, abs=0.02)
    paired.flips.cache_clear()


def test_the_interval_of_few_seeds_is_that_of_all_resamples():
    differences = np.random.default_rng(1).normal(size=6)
    means = np.array([np.mean(case) for case in product(differences, repeat=6)])
    low, high = paired.interval(differences[:, None])
    share = paired.tail(6)
    assert low[0] == pytest.approx(np.quantile(means, share, method="inverted_cdf"), abs=1e-12)
    assert -high[0] == pytest.approx(np.quantile(-means, share, method="inverted_cdf"), abs=1e-12)


@pytest.mark.parametrize("seeds", [8, 12, 30])
def test_the_interval_is_that_of_scipy_at_the_same_share(seeds):
    differences = np.random.default_rng(seeds).normal(size=seeds)
    level = 1 - 2 * paired.tail(seeds)
    settings = {"confidence_level": level, "n_resamples": 20_000, "method": "percentile", "rng": 0}
    peer = stats.bootstrap((differences,), np.mean, **settings).confidence_interval
    low, high = paired.interval(differences[:, None])
    assert [low[0], high[0]] == pytest.approx([peer.low, peer.high], abs=0.08 * (peer.high - peer.low))


def test_the_share_cut_off_gives_the_width_of_a_t_interval():
    for seeds in (6, 10, 50):
        width = -stats.norm.ppf(paired.tail(seeds)) * np.sqrt((seeds - 1) / seeds)
        assert width == pytest.approx(stats.t.ppf(0.975, seeds - 1))
    assert paired.tail(100_000) == pytest.approx(0.025, abs=1e-5)
    assert paired.tails(6) == [0, 0, 0, 0, 0, 0, paired.tail(6)]


@pytest.mark.parametrize(("seeds", "studies"), [(3, 4000), (5, 4000), (6, 2000), (8, 400), (12, 400)])
def test_intervals_cover_and_tests_alarm_as_promised(seeds, studies):
    """Simulated differences around 0: three standard errors of the simulation, and 3 points for the bootstrap."""
    differences = np.random.default_rng(seeds).normal(size=(seeds, studies))
    low, high = paired.interval(differences)
    promised = paired.confidence(seeds)
    error = 3 * np.sqrt(promised * (1 - promised) / studies)
    assert promised - error - (0.03 if seeds > 5 else 0) < np.mean((low <= 0) & (high >= 0)) < promised + error
    alarms = np.mean(paired.p_values(differences) <= 0.05)
    assert alarms <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert (alarms == 0) == (seeds < 6), "five seeds have no p-value below 0.0625"


def test_the_adjustment_is_that_of_statsmodels_and_ignores_missing_tests():
    p = np.random.default_rng(0).random(50) ** 3
    assert paired.adjusted(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])
    some = paired.adjusted([0.01, np.nan, 0.04])
    assert some[[0, 2]] == pytest.approx([0.02, 0.04]) and isnan(some[1])
    assert paired.adjusted([]).size == 0 and isnan(paired.adjusted([np.nan])[0])


def test_both_orders_of_a_pair_mirror_each_other():
    random = np.random.default_rng(3)
    for seeds in (4, 7, 10, 15):
        one, two = ({seed: random.random(3).tolist() for seed in range(seeds)} for _ in range(2))
        forth, back = paired.compare(one, two), paired.compare(two, one)
        assert (forth.difference, forth.low, forth.high) == (-back.difference, -back.high, -back.low)
        assert (forth.p, forth.probability) == (back.p, pytest.approx(1 - back.probability))


def test_folds_of_one_seed_are_not_taken_for_repetitions():
    random = np.random.default_rng(4)
    one, two = ({seed: [value] for seed, value in enumerate(random.random(6))} for _ in range(2))
    single = paired.compare(one, two)
    copied = paired.compare(*({seed: folds * 4 for seed, folds in each.items()} for each in (one, two)))
    assert (copied.p, copied.seeds, copied.pairs) == (single.p, 6, 24)
    assert (copied.low, copied.high) == pytest.approx((single.low, single.high))


def test_ties_count_half_and_pairs_are_those_of_folds():
    comparison = paired.compare({0: [0.2, 0.4], 1: [0.5, 0.5]}, {0: [0.1, 0.4], 1: [0.5, 0.6]})
    assert comparison.probability == (1 + 0.5 + 0.5 + 0) / 4 and comparison.pairs == 4
    # a model that is the same in all folds is compared with their mean, like in the table
    comparison = paired.compare({0: [0.3], 1: [0.5]}, {0: [0.1, 0.3], 1: [0.4, 0.8]})
    assert comparison.difference == pytest.approx((0.1 - 0.1) / 2) and comparison.pairs == 2


def test_only_seeds_of_both_are_compared():
    one = {seed: [0.1 * seed] for seed in (0, 1, 2, 5)}
    two = {seed: [0.1 * seed - 0.01] for seed in (5, 2, 1, 9)} | {0: [np.nan]}
    comparison = paired.compare(one, two)
    assert (
        comparison.seeds == comparison.pairs == 3
        and comparison.difference == pytest.approx(0.01)
        and comparison.p == 0.25
    )


def test_one_seed_gives_a_difference_and_nothing_else():
    comparison = paired.compare({0: [0.5]}, {0: [0.25], 1: [0.9]})
    assert (comparison.difference, comparison.probability, comparison.seeds) == (0.25, 1, 1)
    assert all(map(isnan, (comparison.low, comparison.high, comparison.confidence, comparison.p)))
    none = paired.compare({0: [0.5]}, {1: [0.5]})
    assert (none.seeds, none.pairs) == (0, 0) and isnan(none.difference) and isnan(none.probability)


@pytest.mark.parametrize("seeds", [2, 8, 20])
def test_identical_methods_do_not_differ(seeds):
    same = {seed: [0.1 * seed, 0.7] for seed in range(seeds)}
    comparison = paired.compare(same, same)
    assert (comparison.difference, comparison.low, comparison.high, comparison.probability, comparison.p) == (
        0,
        0,
        0,
        0.5,
        1,
    )


def test_rounding_does_not_break_ties_of_the_test():
    """0.1 + 0.2 − 0.3 is not 0 in floating point, but all eight flips of 0.1, 0.2 and 0.3 are ranked as if it were."""
    assert paired.p_values(column(0.1, 0.2, -0.3))[0] == 1
    assert paired.p_values(column(0.1, 0.1, 0.1))[0] == 0.25


def test_all_pairs_are_those_compared_one_by_one(monkeypatch):
    monkeypatch.setattr(paired, "TOGETHER", 4)
    random = np.random.default_rng(5)
    rows = {f"m{row}": {seed: random.random(2).tolist() for seed in range(3 + row % 3)} for row in range(6)}
    comparisons = paired.compare_all(rows)
    assert list(comparisons)[:6] == [*(("m0", f"m{row}") for row in range(1, 6)), ("m1", "m2")]
    assert len(comparisons) == 15 and all(
        each == paired.compare(rows[a], rows[b]) for (a, b), each in comparisons.items()
    )


def test_the_stored_comparisons_are_up_to_date():
    """The browser must compute the same numbers."""
    command = paired_vectors.__doc__.splitlines()[-2]
    assert json.loads(paired_vectors.FILE.read_text(encoding="utf-8")) == paired_vectors.document(), f"run {command}"


def test_javascript_computes_the_same_digits():
    if not shutil.which("node"):
        unavailable("no node: install Node.js")
    files = [str(SCRIPTS / "recheck/statistics/paired.js"), str(paired_vectors.FILE)]
    done = subprocess.run(["node", "-e", JAVASCRIPT, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    computed, stored = json.loads(done.stdout), json.loads(paired_vectors.FILE.read_text(encoding="utf-8"))
    assert computed["random"] == stored["random"]["numbers"]
    for ours, case in zip(computed["cases"], stored["cases"], strict=True):
        assert ours == case["comparison"], case["name"]
