"""Statistics of rows: fitted exponents, slopes within units, laws, crossings."""

import numpy as np
import pytest
from scipy import special
from scipy.stats import nct, t

from featlearn.core import Key
from featlearn.errors import EmptyArm
from featlearn.lab.statistics import LAWS, crossing, falling_trend, law_errors, power_fit, units_needed, within_slope


def test_power_fit_covers_the_slope_in_95_percent():
    """400 fits of 12 points: 95 % coverage has standard error 1.1 %, so 91 to 99 % is 3.6 of them."""
    rng, d = Key("fits").numpy(), np.repeat([32.0, 64.0, 128.0], 4)
    fits = [power_fit(d, 3 * d**1.2 * np.exp(0.1 * rng.normal(size=12))) for _ in range(400)]
    inside = np.mean([f.low <= 1.2 <= f.high for f in fits])
    assert 0.91 < inside < 0.99
    assert abs(np.mean([f.slope for f in fits]) - 1.2) < 0.01


@pytest.mark.parametrize("law", LAWS)
def test_the_law_that_made_the_points_fits_best(law):
    d = np.array([32.0, 64, 128, 256, 512, 1024])
    errors = law_errors(d, 7 * LAWS[law](d) * np.exp(0.02 * np.array([1, -1, 1, -1, 1, -1])))
    assert min(errors, key=errors.get) == law
    assert errors[law] == pytest.approx(0.02, abs=5e-3)


def test_crossing():
    assert crossing([10.0, 20.0, 40.0], [50.0, 60.0, 100.0], 80.0) == pytest.approx(20 * 2**0.5)
    assert crossing([10.0], [99.0], 95.0) == 10.0
    assert crossing([10.0, 1000.0], [50.0, 100.0], 75.0) == pytest.approx(100.0)
    assert crossing([10.0, 20.0], [99.0, 50.0], 95.0) == 10.0
    assert crossing([10.0, 20.0], [float("nan"), 99.0], 95.0) == 20.0
    assert crossing([10.0, 20.0], [50.0, 60.0], 95.0) is None


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="three points"):
        power_fit([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])


def test_the_level_of_a_trend_counts_ties_with_what_was_found():
    """Two groups of three, fully apart: 1 of the 20 ways to group is as far on either side, so p = 2/20 two-sided."""
    found = falling_trend(
        [[(4.0, False), (5.0, False), (6.0, False)], [(1.0, False), (2.0, False), (3.0, False)]], Key("trend").numpy()
    )
    assert found.statistic == 1.0
    assert found.p == pytest.approx(0.1, abs=0.008)  # 20 000 draws: standard error 0.0021


# --- slopes within units ---------------------------------------------------------------------------------------------


def units(key, n=24, slope=1.3, bend=0.0, noise=0.02):
    rng = key.numpy()
    x = np.log([64.0, 128.0, 256.0, 512.0])[None] + 0.3 * rng.normal(size=(n, 1)) + 0.05 * rng.normal(size=(n, 4))
    t = np.log([64.0, 128.0, 256.0, 512.0]) - np.log(181.0)
    return x, 5 + rng.normal(size=(n, 1)) + slope * x + bend * t**2 + noise * rng.normal(size=(n, 4))


def test_a_slope_within_units_is_found_whatever_their_heights():
    e = within_slope(*units(Key("within"), noise=1e-9), "seed")
    assert e.value == pytest.approx(1.3, abs=1e-6)
    assert (e.n, e.unit) == (24, "seed")


def test_the_interval_of_a_slope_within_units_covers_it():
    """400 fits of 8 units: 95 % coverage has standard error 1.1 %."""
    fits = [within_slope(*units(Key("cover") / i, n=8), "seed").at(0.95) for i in range(400)]
    assert 0.915 < np.mean([low <= 1.3 <= high for low, high in fits]) < 0.985


def test_lack_of_fit_refuses_one_line_in_twenty_and_a_bent_one_always():
    """400 fits: the share refused of straight ones has standard error 1.1 % about 5 %."""
    straight = [bool(within_slope(*units(Key("fit") / i), "seed").refused) for i in range(400)]
    assert 0.015 < np.mean(straight) < 0.09
    assert all(within_slope(*units(Key("bent") / i, bend=0.05), "seed").refused for i in range(20))


def test_too_few_units_have_no_slope():
    x, y = units(Key("few"), n=3)
    with pytest.raises(EmptyArm):
        within_slope(x, y, "seed")


@pytest.mark.parametrize("spread, margin, power", [(5.0, 5.0, 0.8), (1.0, 2.0, 0.8), (9.0, 2.0, 0.9), (1.0, 4.0, 0.6)])
def test_units_needed_are_the_fewest_by_the_noncentral_t(spread, margin, power):
    """With degrees of freedom n - 1 in both places, which few units tell from n."""
    n = units_needed(spread, margin, power)
    reach = [nct.sf(t.ppf(0.95, k - 1), k - 1, margin * k**0.5 / spread) for k in (n - 1, n) if k > 1]
    assert reach[-1] >= power
    assert all(r < power for r in reach[:-1])


def test_units_needed_have_the_power_they_are_asked_for():
    """2000 draws of normal units: the share that excludes the margin has standard error 0.9 % about 80 %."""
    rng = Key("power").numpy()
    for spread, margin in ((18.0, 5.0), (6.0, 5.0)):
        n = units_needed(spread, margin)
        drawn = rng.normal(scale=spread, size=(2000, n))
        low = drawn.mean(1) - special.stdtrit(n - 1, 0.95) * drawn.std(1, ddof=1) / np.sqrt(n)
        assert 0.77 < np.mean(low > -margin) < 0.85
    for spread, margin in ((0.0, 5.0), (5.0, 0.0), (1e6, 1.0)):
        with pytest.raises(ValueError, match="is not allowed"):
            units_needed(spread, margin)
