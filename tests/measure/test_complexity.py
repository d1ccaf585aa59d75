"""Complexities of smooth functions against sums worked out by hand."""

import math

import pytest

from featlearn.core import SettingError
from featlearn.measure import log_complexity, smooth_complexity


def test_smooth_complexity_by_hand():
    # phi = 3 - 2 z + z^4 at C* = 5: 5 (1 * 3 + 2 * 2 + 5 * 1)
    assert smooth_complexity([3.0, -2.0, 0.0, 0.0, 1.0], constant=5.0) == pytest.approx(60.0)


def test_log_complexity_by_hand():
    # log(1/eps) = 8: 3 (1 + 1) for c_0; 2 (5 + sqrt(8) 5) for c_1; (25 + (sqrt(8/2) 5)^2) for c_2
    want = 6 + 2 * (5 + 5 * math.sqrt(8)) + 25 + 100
    assert log_complexity([3.0, -2.0, 1.0], math.exp(-8), constant=5.0) == pytest.approx(math.log(want))


def test_degrees_beyond_the_numbers_of_float64_have_a_logarithm():
    found = log_complexity([0.0] * 200 + [1.0], 0.1)
    assert found == pytest.approx(200 * math.log(1e4), rel=1e-3)
    assert log_complexity([0.0, 0.0], 0.1) == -math.inf


def test_the_argument_scaled_scales_coefficients_by_powers():
    c = [0.0, 1.0, 0.5, 0.25]
    scaled = [v * 3.0**i for i, v in enumerate(c)]
    assert smooth_complexity(scaled, constant=1.0) == pytest.approx(2 * 3 + 3 * 4.5 + 4 * 6.75)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: smooth_complexity([]), "coefficients"),
        (lambda: smooth_complexity([math.nan]), "coefficients"),
        (lambda: smooth_complexity([1.0], constant=0.0), "constant"),
        (lambda: log_complexity([1.0], 1.0), "eps"),
    ],
)
def test_what_cannot_be_is_refused(call, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        call()
