"""Statistics of rows: fitted exponents and laws of growth, crossings, and trends of times that may not have ended."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from featlearn.errors import EmptyArm
from featlearn.lab.estimate import student_quantile
from featlearn.lab.quantity import REAL, Quantity
from featlearn.lab.uncertainty import Estimate, mean_of

Points = Sequence[float] | Sequence[int] | np.ndarray
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


def within_slope(x: np.ndarray, y: np.ndarray, unit: str, quantity: Quantity = REAL) -> Estimate:
    """Mean over units of the least-squares slope within each, refused on lack of fit.

    x, y: (units, levels), at the same levels for every unit, whose own height falls out. Lack of fit: Hotelling's T^2
    of the levels' mean deviations from the line, orthogonal to height and slope, at 5 %.
    With two levels it cannot be tested, and `refused` says so. parts: the slopes between neighbouring levels.
    Errors: EmptyArm for fewer than two units more than levels.
    """
    n, k = y.shape
    if k < 2 or n < 3 or n <= k - 1:
        raise EmptyArm(f"{n} units at {k} levels have no slope with a test of fit: more units")
    centred_x, centred_y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    slopes = (centred_x * centred_y).sum(1) / (centred_x**2).sum(1)
    steps = (np.diff(y, axis=1) / np.diff(x, axis=1)).T
    made = replace(mean_of(slopes, quantity, unit), parts=tuple(mean_of(s, quantity, unit) for s in steps))
    if (q := k - 2) == 0:
        return replace(made, refused="two levels: lack of fit cannot be tested")
    rest = centred_y - made.value * centred_x
    line = np.column_stack([np.ones(k), x.mean(0) - x.mean(), np.eye(k)[:, :q]])
    z = rest @ np.linalg.qr(line)[0][:, 2:]
    mean, spread = z.mean(0), np.atleast_2d(np.cov(z.T))
    f = n * float(mean @ np.linalg.solve(spread, mean)) * (n - q) / (q * (n - 1))
    p = float(special.fdtrc(q, n - q, f))
    fit = f"the levels do not lie on a line (Hotelling: F = {f:.3g}, p = {p:.2g})" if p < 0.05 else ""
    return replace(made, refused=fit)


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
    """First budget at which the score reaches the target, linear in log budget since the evaluation before; None if
    never.

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


# --- trends --------------------------------------------------------------------------------------------------------

BLOCK = 1000  # assignments at once


@dataclass(frozen=True)
class Trend:
    """statistic: pairs that fall minus pairs that rise, over pairs of different groups, in -1..1, so above 0 for a
    fall. p: two-sided level. pairs: how many pairs of different groups can be ordered at all, and how many there are.
    """

    statistic: float
    p: float
    pairs: tuple[int, int]


def _orders(times: np.ndarray, censored: np.ndarray) -> np.ndarray:
    """(n, n): 1 where time i surely is above time j, -1 below, 0 where they tie or censoring leaves it open."""
    above = (times[:, None] > times[None]) & ~censored[None]
    above |= (times[:, None] == times[None]) & censored[:, None] & ~censored[None]  # still waiting when j ended
    return above.astype(float) - above.T


def falling_trend(
    groups: Sequence[Sequence[tuple[float | int, bool]]], rng: np.random.Generator, draws: int = 20_000
) -> Trend:
    """Jonckheere's test for ordered groups with right-censored times, by permutation.

    groups: in order, each with (time, censored); a censored time is one that was only waited for. Statistic: over all
    pairs of times from different groups +1 if the later group's is surely smaller, -1 if surely larger (Gehan's
    scores), divided by the number of pairs. Level: the share of `draws` random assignments of times to groups whose
    statistic is at least as far from 0, the observed one counted in. It is exact up to the draws if times and waits
    would be exchangeable between groups without a trend, so waits should be alike in all of them.

    Errors: ValueError for fewer than two groups that hold a time, and for times that are not finite.

    Example:
        >>> groups = [[(9.0, True), (8.0, False)], [(5.0, False), (4.0, False)], [(1.0, False), (2.0, False)]]
        >>> falling_trend(groups, np.random.default_rng(0)).statistic
        1.0
    """
    filled = [g for g in groups if len(g)]
    if len(filled) < 2:
        raise ValueError(f"groups = {len(filled)} with times is not allowed: at least 2; run more values of k")
    times = np.array([t for g in filled for t, _ in g], dtype=float)
    censored = np.array([c for g in filled for _, c in g], dtype=bool)
    if not np.isfinite(times).all():
        raise ValueError("times that are not finite are not allowed; give what was waited and mark it censored")
    rank = np.repeat(np.arange(len(filled)), [len(g) for g in filled])
    later = (rank[:, None] < rank[None]).astype(float)
    orders = _orders(times, censored)
    total = float(later.sum())
    found = float((orders * later).sum()) / total
    hits = 1
    for start in range(0, draws, BLOCK):
        order = rng.permuted(np.tile(np.arange(len(times)), (min(BLOCK, draws - start), 1)), axis=1)
        values = (orders[order[:, :, None], order[:, None]] * later).sum((1, 2)) / total
        hits += int((np.abs(values) >= abs(found) - 1e-12).sum())
    return Trend(found, hits / (draws + 1), (int((np.abs(orders) * later).sum()), int(total)))


def units_needed(spread: float, margin: float, power: float = 0.8, alpha: float = 0.05, most: int = 10_000) -> int:
    """Independent units with which a mean difference that is 0 is seen to exceed -margin.

    spread: the standard deviation over units, from rows that are not among those to come. The test is Student's,
    one-sided at alpha, so its power at n is Pr[T(n - 1, margin sqrt(n) / spread) > t(n - 1, 1 - alpha)] with the
    noncentral T. Errors: ValueError where `most` units do not suffice, or for a spread or margin that is not positive.

    Example:
        >>> units_needed(5.0, 5.0)
        8
    """
    if not (spread > 0 and margin > 0):
        raise ValueError(f"spread = {spread}, margin = {margin} is not allowed: both above 0")
    for n in range(2, most + 1):
        t = float(special.stdtrit(n - 1, 1 - alpha))
        if 1 - float(special.nctdtr(n - 1, margin * math.sqrt(n) / spread, t)) >= power:
            return n
    raise ValueError(f"spread = {spread} is not allowed: {most} units do not show a margin of {margin:g}")
