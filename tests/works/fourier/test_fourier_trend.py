"""The test for trends of censored times: scores by hand, level under no trend, power against a trend."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.statistics import falling_trend


def test_statistic_by_hand():
    """Pairs of (9+, 4) with (5, 3): 9+ over 5 and 3, 4 under 5 and over 3; a wait of 2 tells nothing about 5 and 3."""
    rng = Key("trend").numpy()
    found = falling_trend([[(9.0, True), (4.0, False)], [(5.0, False), (3.0, False)]], rng, 10)
    assert found.statistic == pytest.approx((1 + 1 - 1 + 1) / 4)
    assert found.pairs == (4, 4)
    open_ = falling_trend([[(2.0, True), (4.0, False)], [(5.0, False), (3.0, False)]], rng, 10)
    assert open_.statistic == pytest.approx((-1 + 1) / 4)
    assert open_.pairs == (2, 4)


def test_a_wait_as_long_as_a_time_counts_as_longer():
    rng = Key("trend").numpy()
    assert falling_trend([[(5.0, True)], [(5.0, False)]], rng, 10).statistic == 1
    assert falling_trend([[(5.0, True)], [(5.0, True)]], rng, 10).statistic == 0


def test_perfect_order_has_the_exact_level():
    """Three groups of two in order: of the 6!/(2!)^3 = 90 assignments two are as extreme; 5 standard errors of 4000
    draws are 0.0117."""
    groups = [[(v, False) for v in (10.0 - 3 * g, 11.0 - 3 * g)] for g in range(3)]
    found = falling_trend(groups, Key("trend").numpy(), 4000)
    assert found.statistic == 1
    assert found.p == pytest.approx(2 / 90, abs=0.0117)
    up = falling_trend(groups[::-1], Key("trend").numpy(), 4000)
    assert up.statistic == -1
    assert up.p == pytest.approx(2 / 90, abs=0.0117)


def test_without_a_trend_levels_are_uniform():
    """200 data sets, censored at a common wait: Pr[p <= 0.2] is at most 0.2, so 40 + 5 standard deviations = 68."""
    rng = Key("null").numpy()
    hits = 0
    for _ in range(200):
        times = rng.exponential(size=(4, 3))
        groups = [[(float(min(t, 1.2)), bool(t > 1.2)) for t in group] for group in times]
        hits += falling_trend(groups, rng, 99).p <= 0.2
    assert 12 <= hits <= 68


@pytest.mark.parametrize(
    "groups, word", [([[(1.0, False)], []], "at least 2"), ([[(np.inf, True)], [(1.0, False)]], "finite")]
)
def test_refusals(groups, word):
    with pytest.raises(ValueError, match=word):
        falling_trend(groups, Key("trend").numpy())
