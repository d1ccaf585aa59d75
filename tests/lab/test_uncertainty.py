"""Intervals: coverage by simulation, and what an estimate may not claim.

Every simulation states its seed, its sample sizes and the error it allows: N draws estimate a coverage with a standard
error of at most sqrt(0.05 * 0.95 / N), and a test allows four of them.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from featlearn.errors import BadStatement, EmptyArm, NotFinite
from featlearn.lab.quantity import COSINE, COUNT, EXPONENT, PERCENT, POSITIVE, REAL, SHARE
from featlearn.lab.uncertainty import Derived, Estimate, Law, Waits, deviation_of, elements, mean_of, slope

N = 400
SLACK = 4 * math.sqrt(0.05 * 0.95 / N)  # 0.044
SIZES = (3, 5, 11, 20)


def covered(draws, truth, quantity, level=0.95):
    hits = 0
    for x in draws:
        low, high = mean_of(x, quantity, "seed").at(level)
        hits += low <= truth <= high
    return hits / len(draws)


def test_a_mean_has_its_textbook_interval():
    """1, 2, 3: t of two degrees at 95 % is 4.303, the standard error 1 / sqrt 3."""
    found = mean_of([1.0, 2.0, 3.0], REAL, "seed")
    assert (found.error, found.degrees, found.n) == (pytest.approx(1 / math.sqrt(3)), 2, 3)
    assert found.at(0.95) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


@pytest.mark.parametrize("n", SIZES)
def test_students_interval_covers_the_mean_of_units(n):
    draws = np.random.default_rng(n).normal(3.0, 2.0, (N, n))
    for level in (0.90, 0.95, 0.99):
        assert abs(covered(draws, 3.0, REAL, level) - level) <= 4 * math.sqrt(level * (1 - level) / N) + 1e-9


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("a, b", [(50, 50), (18, 2), (95, 5), (2, 0.1), (0.5, 0.01)])
def test_shares_of_units_near_an_end_are_covered(n, a, b):
    draws = np.random.default_rng(100 + n).beta(a, b, (N, n))
    assert covered(draws, a / (a + b), SHARE) >= 0.95 - SLACK
    assert covered(100 * (1 - draws), 100 * b / (a + b), PERCENT) >= 0.95 - SLACK


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.97, 0.99])
def test_shares_of_units_that_are_right_or_wrong_are_covered(n, p):
    rng = np.random.default_rng(200 + n)
    assert covered((rng.random((N, n)) < p).astype(float), p, SHARE) >= 0.95 - SLACK
    assert covered(rng.binomial(50, p, (N, n)) / 50, p, SHARE) >= 0.95 - SLACK


SIGNED = replace(PERCENT, low=-100.0)


@pytest.mark.parametrize("n", [*SIZES, 40])
@pytest.mark.parametrize("up, down", [(0.2, 0.2), (0.35, 0.2), (0.3, 0.02), (0.05, 0.05), (0.0, 0.05), (0.01, 0.0)])
def test_differences_of_units_that_gain_or_lose_are_covered(n, up, down):
    rng = np.random.default_rng(300 + n)
    u = rng.random((N, n))
    whole = 100.0 * ((u < up).astype(float) - (u > 1 - down))
    assert covered(whole, 100 * (up - down), SIGNED) >= 0.95 - SLACK
    depths = rng.choice([0.2, 0.4, 0.6, 1.0], (N, n))  # some of five needles of a kind
    assert covered(whole * depths, 55 * (up - down), SIGNED) >= 0.95 - SLACK


def test_a_difference_that_few_units_make_has_no_interval_of_their_spread():
    """Two of 40 units lost against twelve; and two of five seeds that move against three."""
    for lost, n, student in ((2, 40, False), (12, 40, True), (2, 5, False), (3, 5, True)):
        x = np.array([-10.0 - i for i in range(lost)] + [0.0] * (n - lost))
        t = stats.t.interval(0.95, n - 1, x.mean(), stats.sem(x))
        low, high = mean_of(x, SIGNED, "kind").at(0.95)
        assert ((low, high) == pytest.approx(t)) == student
        assert low <= t[0] + 1e-9
        assert high >= t[1] - 1e-9


def test_skewed_times_are_covered_less_than_their_level_says():
    """A known limit: Student on exponential units covers about 0.88 at n = 3 and 5. Give logarithms."""
    rng = np.random.default_rng(5)
    for n in (3, 5):
        assert 0.80 < covered(rng.exponential(1.0, (N, n)), 1.0, POSITIVE) < 0.93
        assert covered(np.log(rng.lognormal(0.0, 1.0, (N, n))), 0.0, REAL) >= 0.95 - SLACK


def test_a_share_whose_units_all_agree_has_the_exact_binomial_interval():
    low, high = mean_of(np.ones(5), SHARE, "seed").at(0.95)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 5)), 1.0)
    low, high = mean_of(np.zeros(3), PERCENT, "seed").at(0.90)
    assert (low, high) == (0.0, pytest.approx(100 * (1 - 0.05 ** (1 / 3))))


@pytest.mark.parametrize("quantity", [REAL, POSITIVE, COUNT, COSINE, EXPONENT])
def test_three_seeds_without_spread_know_nothing(quantity):
    assert mean_of([0.5, 0.5, 0.5], quantity, "seed").at(0.9) == (quantity.low, quantity.high)


def test_one_unit_knows_nothing_and_an_interval_stays_in_its_domain():
    assert mean_of([0.7], SHARE, "seed").at(0.9) == (0.0, 1.0)
    assert mean_of([0.7], REAL, "seed").at(0.9) == (-math.inf, math.inf)
    low, high = mean_of([0.1, 3.0, 0.2], POSITIVE, "seed").at(0.99)
    assert low == 0.0
    assert high > 3
    assert mean_of([0.99, 0.999, 0.9], COSINE, "seed").at(0.99)[1] == 1.0


def test_nothing_and_nan_are_not_averaged():
    with pytest.raises(EmptyArm):
        mean_of([], REAL, "seed")
    for bad in (math.nan, math.inf):
        with pytest.raises(NotFinite):
            mean_of([1.0, bad], REAL, "seed")


def points(rng, levels, per_level, law, spread):
    x = np.repeat(levels, per_level)
    return x, law(x) + rng.normal(0, spread, x.size)


def test_slope_covers_and_its_lack_of_fit_test_has_its_size():
    """Straight lines with 4 levels of 5 units: refused in 5 % (N = 4000, four standard errors of 0.34 %, so that 2.5 %
    would be seen)."""
    rng, levels = np.random.default_rng(11), np.log([10.0, 20.0, 40.0, 80.0])
    found = [slope(*points(rng, levels, 5, lambda x: 1.3 * x, 0.2), "seed") for _ in range(4000)]
    refused = np.mean([bool(e.refused) for e in found])
    assert abs(refused - 0.05) <= 4 * math.sqrt(0.05 * 0.95 / 4000)
    inside = [e.at(0.95)[0] <= 1.3 <= e.at(0.95)[1] for e in found]
    assert abs(np.mean(inside) - 0.95) <= 4 * math.sqrt(0.05 * 0.95 / 4000)


def test_slope_refuses_a_curved_law():
    """d log^2 d over d = 64 to 1024, five seeds: refused in at least 80 of 100 at a spread of 3 %, in half at 5 %."""
    rng, levels = np.random.default_rng(12), np.log([64.0, 128.0, 256.0, 512.0, 1024.0])
    found = [slope(*points(rng, levels, 5, lambda x: x + 2 * np.log(x), 0.03), "seed") for _ in range(100)]
    assert sum(e.refused.startswith("the points do not lie on a line") for e in found) >= 80
    local = [p.value for p in found[0].parts]
    assert len(local) == 4
    assert local[0] > local[-1] > 1


def test_slope_is_least_squares_with_its_standard_error():
    rng = np.random.default_rng(13)
    x, y = points(rng, np.array([0.0, 1.0, 2.0, 3.0]), 4, lambda x: 2 * x + 1, 0.3)
    reference, found = stats.linregress(x, y), slope(x, y, "seed")
    assert found.value == pytest.approx(reference.slope)
    assert found.error >= reference.stderr * (1 - 1e-12)
    assert found.degrees == 14
    assert found.n == 16
    pure = sum(((y[x == v] - y[x == v].mean()) ** 2).sum() for v in np.unique(x)) / 12
    assert found.parts[0].error == pytest.approx(math.sqrt(pure / 2))
    assert found.parts[0].value == pytest.approx(y[x == 1].mean() - y[x == 0].mean())


def test_a_fit_that_cannot_show_lack_of_fit_says_so():
    assert slope([0.0, 1.0, 2.0], [0.0, 1.1, 2.0], "seed").refused.startswith("one point at each level")
    assert slope([0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.2], "seed").refused.startswith("two levels")
    for x, y in (([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0], [1.0, 2.0])):
        with pytest.raises(EmptyArm):
            slope(x, y, "seed")
    with pytest.raises(NotFinite):
        slope([0.0, 1.0, 2.0], [0.0, math.nan, 1.0], "seed")


def test_points_without_spread_off_the_line_are_refused():
    x = np.repeat([0.0, 1.0, 2.0], 2)
    assert slope(x, x**2, "seed").refused


def test_moving_an_estimate_moves_its_local_estimates():
    x, y = points(np.random.default_rng(14), np.array([0.0, 1.0, 2.0]), 3, lambda x: x**2, 0.1)
    found = slope(x, y, "seed")
    moved = found.moved(found.value + 1)
    assert [p.value for p in moved.parts] == pytest.approx([p.value + 1 for p in found.parts])
    assert moved.error == found.error


def test_paired_differences_are_covered_where_unpaired_ones_are_too_wide():
    """Units shift both arms alike (spread 5), their difference has spread 1: N draws of 5 units."""
    rng = np.random.default_rng(15)
    shift, gain = rng.normal(0, 5, (N, 5)), rng.normal(2, 1, (N, 5))
    assert abs(covered(shift + gain - shift, 2.0, REAL) - 0.95) <= SLACK
    widths = [np.ptp(mean_of(g, REAL, "seed").at(0.95)) for g in gain]
    assert np.median(widths) < 3


@pytest.mark.parametrize("n", SIZES)
def test_a_deviation_and_the_ratio_of_two_are_covered(n):
    draws = np.random.default_rng(300 + n).normal(3.0, 2.0, (N, 2, n))
    for truth, found in (
        (2.0, [deviation_of(x, "seed") for x, _ in draws]),
        (0.5, [deviation_of(x, "seed", than=2 * y) for x, y in draws]),
    ):
        ends = np.array([e.at(0.95) for e in found])
        assert abs(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) - 0.95) <= SLACK


def test_deviations_have_their_textbook_intervals():
    """Of 1, 2, 3 it is 1: chi-square of two degrees has 7.378 and 0.0506; F of two and two is the odds of its level."""
    assert deviation_of([1.0, 2.0, 3.0], "seed").at(0.95) == pytest.approx((0.52066, 6.2847), 1e-4)
    ratio = deviation_of([1.0, 2.0, 3.0], "seed", than=[2.0, 4.0, 6.0]).at(0.9)
    assert ratio == pytest.approx((0.5 / math.sqrt(19), 0.5 * math.sqrt(19)))
    assert deviation_of([1.0, 1.0, 1.0], "seed").at(0.95) == (0.0, math.inf)  # as a mean without spread
    assert deviation_of([1.0], "seed").at(0.95) == (0.0, math.inf)
    assert deviation_of([1.0, 2.0, 3.0], "seed").moved(2.0).at(0.95) == pytest.approx((2 * 0.52066, 2 * 6.2847), 1e-4)
    with pytest.raises(EmptyArm, match="spread"):
        deviation_of([1.0, 2.0], "seed", than=[3.0, 3.0])


def test_elements_of_each_kind():
    value, low, high = elements(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.9, 0.95)
    assert value.tolist() == [1, 2, 3, 4]
    assert (low[0] == value).all()
    assert (high[1] == value).all()
    assert elements(0.5, 0.9, 0.95)[0].tolist() == [0.5]
    assert elements(Derived(np.array([1.0]), {"t": np.array([2.0])}), 0.9, 0.95)[0].tolist() == [1.0]
    e = mean_of([1.0, 2.0, 3.0], REAL, "seed")
    for seen in (e, [e], (e,)):
        value, low, high = elements(seen, 0.90, 0.99)
        assert (low[0, 0], high[0, 0]) == e.at(0.90)
        assert (low[1, 0], high[1, 0]) == e.at(0.99)


def test_a_censored_time_is_a_lower_bound():
    value, low, high = elements(Waits(np.array([5.0, 7.0]), np.array([False, True])), 0.9, 0.95)
    assert value.tolist() == [5, 7]
    assert low[0].tolist() == [5, 7]
    assert high[0].tolist() == [5, math.inf]


@pytest.mark.parametrize(
    "seen",
    [
        math.nan,
        np.array([1.0, math.inf]),
        Derived(np.array([math.nan])),
        Waits(np.array([math.nan]), np.array([True])),
        Estimate(math.nan, 1.0, 2.0, 3, "seed", REAL),
        [Estimate(1.0, 1.0, 2.0, 3, "seed", REAL), Estimate(math.nan, 1.0, 2.0, 3, "seed", REAL)],
    ],
)
def test_what_is_not_finite_is_never_judged(seen):
    with pytest.raises(NotFinite):
        elements(seen, 0.9, 0.95)


def test_nothing_observed_is_named():
    for nothing in (np.array([]), []):
        with pytest.raises(EmptyArm):
            elements(nothing, 0.9, 0.95)


def test_a_rival_law_changes_one_constant():
    law = Law(lambda t, rate, start: start * np.exp(-rate * t), rate=2.0, start=1.0)
    assert law({"t": np.array([0.0, 1.0])}).tolist() == [1.0, math.exp(-2)]
    assert law.but(rate=1.0)({"t": np.array([1.0])}).tolist() == [math.exp(-1)]
    for wrong in ({}, {"rate": 1.0, "start": 2.0}, {"rate": 2.0}, {"speed": 1.0}):
        with pytest.raises(BadStatement):
            law.but(**wrong)
