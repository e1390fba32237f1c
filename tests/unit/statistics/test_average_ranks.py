"""Average ranks, Friedman's test and Nemenyi's groups agree with scikit-posthocs and published tables."""

from itertools import combinations

import numpy as np
import pytest
import scikit_posthocs
from scipy import stats

from recheck.statistics import ranks


def values(blocks, methods, spread=2.0):
    random = np.random.default_rng(blocks * methods)
    return random.normal(size=(blocks, methods)) - spread * np.arange(methods) / methods


@pytest.mark.parametrize(("blocks", "methods"), [(3, 4), (5, 8), (14, 5), (30, 12)])
def test_methods_of_a_group_are_those_that_posthocs_does_not_separate(blocks, methods):
    measured = values(blocks, methods)
    ranking = ranks.ranking(measured)
    p = scikit_posthocs.posthoc_nemenyi_friedman(measured).to_numpy()
    together = {frozenset(pair) for group in ranking.groups for pair in combinations(group, 2)}
    for pair in combinations(range(methods), 2):
        assert (frozenset(pair) in together) == (p[pair] >= ranks.ERROR), pair
    for one, two in combinations(map(set, ranking.groups), 2):
        assert not one <= two and not two <= one
    assert ranking.average == pytest.approx(stats.rankdata(-measured, axis=1).mean(axis=0))
    assert ranking.p == pytest.approx(stats.friedmanchisquare(*measured.T).pvalue) and ranking.blocks == blocks


def test_critical_values_are_the_published_ones():
    """Table 5 of Demšar (2006) for an error of 0.05 and 0.10."""
    for methods, five, ten in ((2, 1.960, 1.645), (3, 2.343, 2.052), (5, 2.728, 2.459), (10, 3.164, 2.920)):
        unit = np.sqrt(methods * (methods + 1) / (6 * 7))
        assert ranks.critical_difference(methods, 7) / unit == pytest.approx(five, abs=1e-3)
        assert ranks.critical_difference(methods, 7, 0.1) / unit == pytest.approx(ten, abs=1e-3)


def test_groups_overlap_and_single_methods_have_none():
    assert ranks.groups([1, 2, 3, 6], 1) == [[0, 1], [1, 2]]
    assert ranks.groups([6, 3, 2, 1], 2) == [[3, 2, 1]]
    assert ranks.groups([1, 3, 5], 1) == []
    assert ranks.groups([2, 2, 2], 0) == [[0, 1, 2]]


def test_the_highest_value_is_first_and_equal_values_share_ranks():
    ranking = ranks.ranking([[0.9, 0.5, 0.5, 0.1], [0.8, 0.7, 0.6, 0.6]])
    assert ranking.average.tolist() == [1, 2.25, 3, 3.75]


def test_methods_that_are_always_equal_do_not_differ():
    ranking = ranks.ranking(np.ones((4, 3)))
    assert ranking.p == 1 and ranking.average.tolist() == [2, 2, 2] and ranking.groups == [[0, 1, 2]]
