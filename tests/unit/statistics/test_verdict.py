"""The rule of verdicts against statsmodels, against its formulae, and on thousands of simulated cells."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats import weightstats
from statsmodels.stats.multitest import multipletests

from recheck.statistics.verdict import (
    HIGHER,
    LOWER,
    MOST_SEEDS,
    REPRODUCED,
    UNDECIDED,
    Quote,
    adjusted,
    compare,
    seeds_needed,
)
from support.project import ROOT

ALPHA = 0.05
DRAWS = 20_000


def within_binomial_bounds(hits, probability):
    """Whether the share of hits is within four standard errors of the probability."""
    return abs(np.mean(hits) - probability) < 4 * np.sqrt(probability * (1 - probability) / len(hits))


def simulated(seeds, runs, *, shift=0.0, sd=0.5, their_sd=None, error=0.0, delta=1.0, draws=DRAWS):
    """The verdicts on ``draws`` published means whose expectation differs from ours by ``shift``."""
    random = np.random.default_rng([seeds, runs, draws])
    ours = random.normal(60 + shift, sd, (draws, seeds))
    theirs = random.normal(60, their_sd or sd, (draws, runs))
    value = theirs.mean(1) + random.uniform(-error, error, draws)
    spread = theirs.std(1, ddof=1) if their_sd else np.nan
    return compare(ours.mean(1), ours.std(1, ddof=1), seeds, Quote(value, runs, spread, error), delta, ALPHA).verdict


def refuted(verdicts):
    return np.isin(verdicts, [LOWER, HIGHER])


# --- oracles --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    random = np.random.default_rng(0)
    return [
        (random.normal(60 + random.normal(), 0.6, seeds), random.normal(60, 0.4, runs))
        for seeds, runs in ((2, 2), (3, 10), (5, 5), (10, 3), (10, 10))
        for _ in range(4)
    ]


def test_runs_with_a_spread_are_tested_as_statsmodels_tests_two_samples(pairs):
    for ours, theirs in pairs:
        quote = Quote(theirs.mean(), len(theirs), theirs.std(ddof=1))
        outcome = compare(ours.mean(), ours.std(ddof=1), len(ours), quote, 1.0, ALPHA)
        _, p, _ = weightstats.ttest_ind(ours, theirs, usevar="unequal")
        p_equivalence, _, _ = weightstats.ttost_ind(ours, theirs, -1.0, 1.0, usevar="unequal")
        np.testing.assert_allclose([outcome.p, outcome.p_equivalence], [p, p_equivalence], rtol=1e-6)
        means = weightstats.CompareMeans(weightstats.DescrStatsW(ours), weightstats.DescrStatsW(theirs))
        low, high = means.tconfint_diff(ALPHA, usevar="unequal")
        np.testing.assert_allclose([outcome.low, outcome.high], np.array([low, high]) + theirs.mean(), rtol=1e-9)


def test_the_interval_for_one_run_is_the_prediction_interval_of_statsmodels(pairs):
    for ours, _ in pairs:
        fitted = OLS(ours, np.ones((len(ours), 1))).fit()
        expected = fitted.get_prediction(np.ones((1, 1))).summary_frame(alpha=ALPHA)
        outcome = compare(ours.mean(), ours.std(ddof=1), len(ours), Quote(60.0), 1.0, ALPHA)
        np.testing.assert_allclose(
            [outcome.low, outcome.high], expected[["obs_ci_lower", "obs_ci_upper"]].iloc[0], rtol=1e-9
        )


def test_p_values_are_adjusted_as_statsmodels_does():
    random = np.random.default_rng(1)
    for size in (1, 2, 40):
        p = np.round(random.uniform(0, 1, size) ** 3, 2)  # with ties
        np.testing.assert_allclose(adjusted(p), multipletests(p, method="fdr_bh")[1], atol=1e-12)
        np.testing.assert_allclose(adjusted(p), stats.false_discovery_control(p), atol=1e-12)
    assert len(adjusted([])) == 0


# --- the rule -------------------------------------------------------------------------------------------------------


def test_a_verdict_follows_from_the_formulae():
    """With m = 60, s = 0.3, n = 5 and k = 1: refuted beyond ± 0.91, equivalent within ± 0.30."""
    scale = 0.3 * np.sqrt(1 / 5 + 1)
    half, equivalent = stats.t(4).ppf(0.975) * scale, 1 - stats.t(4).ppf(0.95) * scale
    assert (round(half, 2), round(equivalent, 2)) == (0.91, 0.30)
    expected = {
        60 + half + 0.01: LOWER,
        60 + half - 0.01: UNDECIDED,
        60 + equivalent + 0.01: UNDECIDED,
        60 + equivalent - 0.01: REPRODUCED,
        60 - equivalent + 0.01: REPRODUCED,
        60 - half + 0.01: UNDECIDED,
        60 - half - 0.01: HIGHER,
    }
    outcome = compare(60.0, 0.3, 5, Quote(np.array(list(expected))), 1.0, ALPHA)
    assert outcome.verdict.tolist() == list(expected.values())
    np.testing.assert_allclose(outcome.high - 60, half)
    np.testing.assert_allclose(60 - outcome.low, half)


def test_a_reading_error_widens_the_interval_and_narrows_equivalence():
    exact, read = (compare(60.0, 0.3, 5, Quote(60.25, error=error), 1.0, ALPHA) for error in (0.0, 0.15))
    assert read.high - exact.high == pytest.approx(0.15) and exact.low - read.low == pytest.approx(0.15)
    assert (exact.verdict, read.verdict) == (REPRODUCED, UNDECIDED)
    assert read.p > exact.p and read.p_equivalence > exact.p_equivalence
    assert compare(60.0, 0.0, 5, Quote(60.0, error=1.2), 1.0, ALPHA).verdict == UNDECIDED


def test_seeds_that_all_agree_leave_only_rounding():
    """A row that is not trained has the same value with every seed."""
    published = np.array([60.004, 60.005, 60.3, 62.0])
    outcome = compare(60.0, 0.0, 3, Quote(published, error=0.005), 1.0, ALPHA)
    assert outcome.verdict.tolist() == [REPRODUCED, REPRODUCED, LOWER, LOWER]
    assert (outcome.p_equivalence < ALPHA).tolist() == [True, True, True, False]
    assert compare(60.0, 0.0, 3, Quote(60.0, 10, 0.0), 1.0, ALPHA).verdict == REPRODUCED


def test_a_large_number_of_seeds_may_refute_a_difference_smaller_than_delta():
    outcome = compare(60.0, 0.3, 50, Quote(60.4, 50), 1.0, ALPHA)
    assert outcome.verdict == LOWER and outcome.p_equivalence < ALPHA


@pytest.mark.parametrize("spread", [np.nan, 0.5])
@pytest.mark.parametrize(("value", "runs"), [(60.6, 10), (60.9, 10), (60.2, 3)])
def test_the_seeds_needed_are_the_first_that_decide(value, runs, spread):
    quote = Quote(value, runs, spread, 0.005)
    known = (60.0, 0.6, 3, quote, 1.0, ALPHA)
    assert compare(*known).verdict == UNDECIDED
    needed = seeds_needed(*known)
    one_by_one = [compare(60.0, 0.6, n, quote, 1.0, ALPHA).verdict != UNDECIDED for n in range(4, needed + 1)]
    assert one_by_one == [False] * (needed - 4) + [True]


def test_no_number_of_seeds_decides_if_the_published_value_is_too_uncertain():
    """One published run with s = 1: beyond ± 1.96 it is refuted, and never equivalent within ± 1."""
    assert seeds_needed(60.0, 1.0, 5, Quote(60.5), 1.0, ALPHA) is None
    assert compare(60.0, 1.0, MOST_SEEDS, Quote(60.5), 1.0, ALPHA).verdict == UNDECIDED


def test_the_seeds_of_the_manual():
    text = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
    for sd in (0.3, 0.5, 0.7):
        needed = [seeds_needed(60.0, sd, 2, Quote(60.0, runs, error=0.005), 1.0, ALPHA) for runs in (10, 1)]
        assert f"| {sd} | {needed[0]} | {needed[1] or 'never'} |" in text


# --- simulated studies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seeds", "runs"), [(2, 1), (3, 1), (5, 1), (5, 10), (10, 10)])
def test_equal_means_are_refuted_as_often_as_alpha_says(seeds, runs):
    verdicts = simulated(seeds, runs)
    assert within_binomial_bounds(refuted(verdicts), ALPHA)
    assert within_binomial_bounds(verdicts == LOWER, ALPHA / 2)


def test_equal_means_are_refuted_as_often_as_alpha_says_if_the_spreads_differ():
    """Welch's test is approximate. With our spread alone, the error rate would be 2 to 5 times too high."""
    assert np.mean(refuted(simulated(5, 10, sd=0.3, their_sd=0.6))) == pytest.approx(ALPHA, abs=0.01)
    assert np.mean(refuted(simulated(10, 5, sd=0.3, their_sd=0.6))) == pytest.approx(ALPHA, abs=0.01)


def test_values_off_a_plot_are_refuted_no_more_often_than_alpha_says():
    assert np.mean(refuted(simulated(5, 1, error=0.3))) < ALPHA


@pytest.mark.parametrize(("seeds", "runs", "shift"), [(5, 1, 1.5), (5, 10, -1.0), (10, 10, 0.7)])
def test_other_means_are_refuted_as_often_as_the_noncentral_t_says(seeds, runs, shift):
    verdicts = simulated(seeds, runs, shift=shift)
    limit = stats.t(seeds - 1).ppf(1 - ALPHA / 2)
    distribution = stats.nct(seeds - 1, shift / (0.5 * np.sqrt(1 / seeds + 1 / runs)))
    assert within_binomial_bounds(refuted(verdicts), distribution.sf(limit) + distribution.cdf(-limit))
    assert np.mean(verdicts == (HIGHER if shift > 0 else LOWER)) > 0.99 * np.mean(refuted(verdicts))


def test_means_that_differ_by_delta_are_called_reproduced_at_most_as_often_as_alpha_says():
    for seeds, runs in ((3, 10), (5, 1), (10, 10)):
        assert np.mean(simulated(seeds, runs, shift=1.0, sd=0.2) == REPRODUCED) < ALPHA
    assert np.mean(simulated(10, 10, sd=0.2) == REPRODUCED) > 0.94  # and equal means in nearly all other cases


def test_the_false_discovery_rate_of_a_study_is_controlled():
    """1,000 studies with 40 cells each, of which ten differ."""
    random = np.random.default_rng(2)
    shift = np.where(np.arange(40) < 10, 1.5, 0.0)
    ours, theirs = (random.normal(60, 0.5, (1000, 40, n)) for n in (5, 10))
    mean, sd = ours.mean(2) + shift, ours.std(2, ddof=1)
    p = compare(mean, sd, 5, Quote(theirs.mean(2), 10), 1.0, ALPHA).p
    kept = np.array([adjusted(study) for study in p]) < ALPHA
    false, all_kept = kept[:, 10:].sum(1), kept.sum(1)
    rate = np.mean(false / np.maximum(all_kept, 1))
    assert 0.02 < rate < ALPHA and kept[:, :10].mean() > 0.5
    assert (p[:, 10:] < ALPHA).sum(1).mean() == pytest.approx(ALPHA * 30, rel=0.1)  # without adjustment
