"""How a sample budget grows with the dimension: fitted exponents with intervals, and which law fits best."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from featlearn.run.estimate import student_quantile

Points = Sequence[float] | Sequence[int] | Float[np.ndarray, " k"]
LAWS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "d": lambda d: d,
    "d log d": lambda d: d * np.log(d),
    "d log^2 d": lambda d: d * np.log(d) ** 2,
    "d^2": lambda d: d**2,
}


@dataclass(frozen=True)
class Power:
    """n = c d^slope by least squares on logarithms; low, high: 95 % interval of the slope; points: how many."""

    slope: float
    low: float
    high: float
    points: int


def power_fit(d: Points, n: Points) -> Power:
    """Exponent of n against d from independent points (several seeds a dimension), with its Student interval.

    Lack of fit counts as noise, so that a curved law widens the interval.
    Errors: ValueError for fewer than three points or a single dimension.

    Example:
        >>> round(power_fit([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]).slope, 6)
        2.0
    """
    x, y = np.log(np.asarray(d, dtype=np.float64)), np.log(np.asarray(n, dtype=np.float64))
    if len(x) < 3 or np.ptp(x) == 0:
        raise ValueError(f"d = {list(np.asarray(d))} is not allowed: three points of two dimensions or more")
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    rest = y - y.mean() - slope * centred
    half = student_quantile(len(x) - 2) * math.sqrt(float(rest @ rest) / (len(x) - 2) / float(centred @ centred))
    return Power(slope, slope - half, slope + half, len(x))


def law_errors(d: Points, n: Points) -> dict[str, float]:
    """Root mean square of log(n / (c law(d))), c fitted, for each law: 0.05 is five percent a point.

    Example:
        >>> errors = law_errors([10.0, 100.0, 1000.0], [7.0, 70.0, 700.0])
        >>> min(errors, key=errors.get)
        'd'
    """
    x, y = np.asarray(d, dtype=np.float64), np.log(np.asarray(n, dtype=np.float64))
    rests = {name: y - np.log(law(x)) for name, law in LAWS.items()}
    return {name: float(r.std()) for name, r in rests.items()}


def crossing(budgets: Sequence[float], scores: Sequence[float], target: float) -> float | None:
    """First budget at which the score reaches the target, linear in log budget since the look before; None if never.

    Example:
        >>> crossing([10.0, 100.0], [50.0, 100.0], 75.0)
        31.6...
    """
    for i, score in enumerate(scores):
        if score >= target:
            if i == 0 or not score > scores[i - 1]:
                return float(budgets[i])
            share = (target - scores[i - 1]) / (score - scores[i - 1])
            return float(budgets[i - 1] * (budgets[i] / budgets[i - 1]) ** share)
    return None
