"""What was observed and how well it is known: estimates with intervals, waiting times, records on which laws are read.

Intervals are Student's on the means of independent units. Where a share lies so near an end of its range that its
spread says nothing (five units that are all right), or few units make a difference, the exact binomial interval of
Clopper and Pearson stands in: a test simulates the coverage of both at 3, 5, 11, 20 and 40 units.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy import special

from featlearn.errors import BadStatement, EmptyArm, NotFinite
from featlearn.lab.quantity import EXPONENT, Quantity

FEW_SPREADS = 3.0
"""A mean this many standard deviations of its units from an end of its range has a Student interval."""
FEW_MOVED = 10
"""As many units of a difference that are other than 0, or half of them, have spread enough to judge by."""


@dataclass(frozen=True)
class Estimate:
    """A mean (or a fitted number) with what is needed for its interval at any level.

    value; error: its standard error; degrees: of Student's t; n units called `unit`. Units without any spread say
    nothing about their error, so outside of shares their interval is the whole domain: give what is certain as a
    number. refused: why it may not stand for an equality (lack of fit). says: rows that were left out of it.
    reference: where it is a difference, the mean of the arm it is taken against, and room how far that arm is from the
    top of its range and from the bottom, or from chance. parts: local estimates, such as the exponents between
    neighbours of a fit that is refused. moved_units: how many units of a difference are other than 0. arms: the
    settings that it averages, each by itself.
    """

    value: float
    error: float
    degrees: float
    n: int
    unit: str
    quantity: Quantity
    refused: str = ""
    says: str = ""
    reference: float | None = None
    room: tuple[float, float] = (math.inf, math.inf)
    parts: tuple["Estimate", ...] = ()
    moved_units: int | None = None
    arms: tuple["Estimate", ...] = ()

    def at(self, level: float) -> tuple[float, float]:
        """Ends of the two-sided interval that covers with this probability, within the range of the quantity."""
        low, high = self.quantity.low, self.quantity.high
        if self.n < 2 or self.degrees < 1:
            return low, high
        half = float(special.stdtrit(self.degrees, 0.5 + level / 2)) * self.error
        ends = (self.value - half, self.value + half)
        if self.quantity.bounded and self.quantity.name != "cosine":
            ends = _near_an_end(self, ends, level)
        elif not self.error > 0:
            return low, high
        return max(low, ends[0]), min(high, ends[1])

    def moved(self, value: float) -> "Estimate":
        """The same precision about another value; local estimates move along, and settings are alike."""
        parts = tuple(p.moved(p.value + value - self.value) for p in self.parts)
        return replace(self, value=value, parts=parts, arms=tuple(a.moved(value) for a in self.arms))


def _near_an_end(e: Estimate, ends: tuple[float, float], level: float) -> tuple[float, float]:
    low, high = e.quantity.low, e.quantity.high
    spread = e.error * math.sqrt(e.n)
    few = e.moved_units is not None and e.moved_units < min(FEW_MOVED, e.n / 2)
    if spread > 0 and not few and min(e.value - low, high - e.value) >= FEW_SPREADS * spread:
        return ends
    hits, tail = e.n * (e.value - low) / (high - low), (1 - level) / 2
    left = 0.0 if hits <= 0 else float(special.betaincinv(hits, e.n - hits + 1, tail))
    right = 1.0 if hits >= e.n else float(special.betaincinv(hits + 1, e.n - hits, 1 - tail))
    return min(ends[0], low + (high - low) * left), max(ends[1], low + (high - low) * right)


def mean_of(values: Sequence[float] | np.ndarray, quantity: Quantity, unit: str) -> Estimate:
    """Mean of independent units. Errors: EmptyArm without any, NotFinite.

    Example:
        >>> from featlearn.lab.quantity import REAL
        >>> low, high = mean_of([1.0, 2.0, 3.0], REAL, "seed").at(0.95)
        >>> round(low, 3), round(high, 3)
        (-0.484, 4.484)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        raise EmptyArm(f"no {unit} is left to average")
    if not np.isfinite(x).all():
        raise NotFinite(f"values that are not finite cannot be averaged over {unit}")
    error = float(x.std(ddof=1)) / math.sqrt(x.size) if x.size > 1 else math.inf
    moved = int(np.count_nonzero(x)) if quantity.low < 0 < quantity.high else None
    return Estimate(float(x.mean()), error, float(x.size - 1), x.size, unit, quantity, moved_units=moved)


@dataclass(frozen=True)
class Deviation(Estimate):
    """A standard deviation of normal units, with chi-square's interval; or its ratio to that of another arm of units
    with `other` degrees of freedom, with F's. Units without any spread say nothing: their interval is the domain."""

    other: float = math.inf

    def at(self, level: float) -> tuple[float, float]:
        if self.degrees < 1 or self.other < 1 or not self.value > 0:
            return self.quantity.low, self.quantity.high
        low, high = (self._quantile(0.5 + sign * level / 2) for sign in (1, -1))
        return self.value / math.sqrt(low), self.value / math.sqrt(high)

    def _quantile(self, p: float) -> float:
        """Of the squared deviation in units of the true one."""
        if math.isinf(self.other):
            return float(special.chdtri(self.degrees, 1 - p)) / self.degrees
        return float(special.fdtri(self.degrees, self.other, p))


def deviation_of(
    values: Sequence[float] | np.ndarray, unit: str, than: Sequence[float] | np.ndarray | None = None, symbol: str = ""
) -> Deviation:
    """Standard deviation of independent units, in units of `symbol`; over that of `than` where given, which has none.

    Errors: EmptyArm, NotFinite.

    Example:
        >>> low, high = deviation_of([1.0, 2.0, 3.0], "seed").at(0.95)
        >>> round(low, 3), round(high, 3)
        (0.521, 6.285)
    """
    quantity = Quantity("deviation", symbol if than is None else "", 0.0)
    arms = [mean_of(v, quantity, unit) for v in ((values,) if than is None else (values, than))]
    spread = [a.error * math.sqrt(a.n) for a in arms]
    if than is not None and not spread[1] > 0:
        raise EmptyArm(f"no spread over {unit} to compare with")
    value, other = (spread[0], math.inf) if than is None else (spread[0] / spread[1], arms[1].degrees)
    return Deviation(value, math.nan, arms[0].degrees, arms[0].n, unit, quantity, other=other)


def slope(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, unit: str, *, quantity: Quantity = EXPONENT
) -> Estimate:
    """Least-squares slope of y against x, several independent units at every x, refused on lack of fit.

    Its standard error takes the spread about the line or, where larger, the pure error of the replicates. Lack of fit:
    the F test of the level means about the line against the pure error, at 5 %; without replicates or with two levels
    it cannot be tested, and `refused` says so. parts: the slopes between neighbouring levels, at the pure error.

    Give logarithms for an exponent.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise NotFinite("points that are not finite have no slope")
    levels = np.unique(x)
    if len(levels) < 2 or len(x) < 3:
        raise EmptyArm(f"{len(x)} points at {len(levels)} levels have no slope: three points at two levels or more")
    groups = [y[x == v] for v in levels]
    counts = np.array([len(g) for g in groups])
    means = np.array([g.mean() for g in groups])
    pure_freedom = len(x) - len(levels)
    pure = sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / pure_freedom if pure_freedom else math.nan
    centred = x - x.mean()
    fitted = float(centred @ y / (centred @ centred))
    line = y.mean() + fitted * (levels - x.mean())
    rest = float(((y - y.mean() - fitted * centred) ** 2).sum()) / (len(x) - 2)
    refused = ""
    if pure_freedom == 0:
        refused = "one point at each level: lack of fit cannot be tested"
    elif len(levels) == 2:
        refused = "two levels: lack of fit cannot be tested"
    else:
        ratio = float((counts * (means - line) ** 2).sum()) / (len(levels) - 2) / pure if pure else math.inf
        p = float(special.fdtrc(len(levels) - 2, pure_freedom, ratio))
        if p < 0.05:
            refused = f"the points do not lie on a line (lack of fit: F = {ratio:.3g}, p = {p:.2g})"
    variance = max(rest, pure) if pure_freedom else rest
    parts: list[Estimate] = []
    if pure_freedom:
        for i in range(len(levels) - 1):
            gap = levels[i + 1] - levels[i]
            error = math.sqrt(pure * (1 / counts[i] + 1 / counts[i + 1])) / gap
            local = float((means[i + 1] - means[i]) / gap)
            parts.append(Estimate(local, error, float(pure_freedom), len(x), unit, quantity))
    error = math.sqrt(variance / float(centred @ centred))
    return Estimate(fitted, error, float(len(x) - 2), len(x), unit, quantity, refused, parts=tuple(parts))


@dataclass(frozen=True)
class Waits:
    """Right-censored times. value: the time, or what was waited where `censored`: then only a lower bound."""

    value: np.ndarray
    censored: np.ndarray


@dataclass(frozen=True)
class Derived:
    """Observed values with named covariates, on which laws and premises are evaluated element by element."""

    value: np.ndarray
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)


Observation = float | np.ndarray | Estimate | Sequence[Estimate] | Waits | Derived


@dataclass(frozen=True)
class Law:
    """A function of covariates with named constants; a rival is the same law with one of them changed.

    Example:
        >>> import numpy as np
        >>> decay = Law(lambda t, rate: np.exp(-rate * t), rate=2.0)
        >>> decay.but(rate=1.0).constants
        {'rate': 1.0}
    """

    function: Callable[..., Any]
    constants: Mapping[str, float]

    def __init__(self, function: Callable[..., Any], **constants: float) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "constants", dict(constants))

    def but(self, **changed: float) -> "Law":
        """The law with one constant changed. Errors: BadStatement for another number of changes, or none at all."""
        if len(changed) != 1 or any(self.constants.get(k, v) == v for k, v in changed.items()):
            raise BadStatement(f"a rival law changes one of {', '.join(self.constants)}, not {changed}")
        return Law(self.function, **{**self.constants, **changed})

    def __call__(self, covariates: Mapping[str, np.ndarray]) -> np.ndarray:
        """The law at these covariates."""
        return np.asarray(self.function(**covariates, **self.constants), dtype=np.float64)


def elements(seen: Observation, confirm: float, contradict: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value and, element by element, low and high ends (2, n): at the level that confirms, and at that which refutes.

    Exact values are their own ends. Errors: NotFinite.
    """
    if isinstance(seen, Derived):
        return elements(seen.value, confirm, contradict)
    if isinstance(seen, Waits):
        value = np.ravel(np.asarray(seen.value, dtype=np.float64))
        high = np.where(np.ravel(seen.censored), math.inf, value)
        _refuse_not_finite(value)
        return value, np.stack([value, value]), np.stack([high, high])
    if isinstance(seen, Estimate):
        seen = (seen,)
    if isinstance(seen, Sequence) and len(seen) and isinstance(seen[0], Estimate):
        value = np.array([e.value for e in seen])
        _refuse_not_finite(value)
        ends = np.array([[e.at(confirm), e.at(contradict)] for e in seen])
        return value, ends[:, :, 0].T, ends[:, :, 1].T
    if np.iscomplexobj(cast(Any, seen)) or np.ma.isMaskedArray(seen):
        raise NotFinite("complex numbers and masked arrays are not judged: give the real numbers that were seen")
    value = np.ravel(np.asarray(seen, dtype=np.float64))
    if value.size == 0:
        raise EmptyArm("nothing was observed")
    _refuse_not_finite(value)
    return value, np.stack([value, value]), np.stack([value, value])


def _refuse_not_finite(value: np.ndarray) -> None:
    if not np.isfinite(value).all():
        raise NotFinite(f"{int((~np.isfinite(value)).sum())} of {value.size} observed values are not finite")
