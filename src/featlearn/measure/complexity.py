"""How complex a smooth function is by its Taylor series: the two measures behind sample and network sizes."""

import math
from collections.abc import Sequence

from featlearn.core import SettingError
from featlearn.core.check import check_number


def _coefficients(coefficients: Sequence[float], constant: float) -> list[float]:
    if not coefficients or not all(map(math.isfinite, coefficients)):
        raise SettingError("coefficients", list(coefficients), "finite numbers c_0, c_1, ...", "cut the series")
    check_number(constant, "constant", "a finite number above 0", "1e4 is the reported one", above=True)
    return list(coefficients)


def smooth_complexity(coefficients: Sequence[float], *, constant: float = 1e4) -> float:
    """C_s(phi) = C* sum_i (i + 1) |c_i| of phi(z) = sum_i c_i z^i.

    Source: resnet.complexity (section 4). Errors: `SettingError` for no coefficients and for what is not finite.

    Example:
        >>> smooth_complexity([0.0, 1.0, 0.0, 2.0], constant=1.0)
        10.0
    """
    found = _coefficients(coefficients, constant)
    return constant * math.fsum((i + 1) * abs(c) for i, c in enumerate(found))


def log_complexity(coefficients: Sequence[float], eps: float, *, constant: float = 1e4) -> float:
    """log C_eps(phi), C_eps = sum_i ((C*)^i + (sqrt(log(1/eps)/i) C*)^i) |c_i|; the second term is 1 for i = 0.

    In logarithms, as C*^i leaves the numbers of float64 at i = 77. The series has to be finite: that of tanh or the
    logistic function diverges for C* above its radius and is cut where eps allows. Minus infinity for phi = 0.
    Source: resnet.complexity (section 4). Errors: as `smooth_complexity`, and for eps outside (0, 1).

    Example:
        >>> round(math.exp(log_complexity([0.0, 1.0], math.exp(-4), constant=10.0)), 6)
        30.0
    """
    found = _coefficients(coefficients, constant)
    if not 0 < eps < 1:
        raise SettingError("eps", eps, "in (0, 1)", "it is the accuracy that is asked for")
    terms = []
    for i, c in enumerate(found):
        if c:
            spread = i * (math.log(constant) + 0.5 * math.log(math.log(1 / eps) / i)) if i else 0.0
            terms += [i * math.log(constant) + math.log(abs(c)), spread + math.log(abs(c))]
    if not terms:
        return -math.inf
    top = max(terms)
    return top + math.log(math.fsum(math.exp(t - top) for t in terms))
