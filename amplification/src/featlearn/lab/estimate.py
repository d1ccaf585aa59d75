"""Means over seeds with 95 % Student-t intervals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

VALIDATION = 1000
"""Seeds from here on are validation seeds: they choose settings; smaller ones are reported."""


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds of one metric of one group.

    group: the values of the `by` fields; low, high: ends of the 95 % interval, both equal to value when n = 1.
    """

    group: tuple[Any, ...]
    metric: str
    value: float
    low: float
    high: float
    n: int


def student_share(theta: float, df: int) -> float:
    """Pr[|T| <= sqrt(df) tan(theta)] for Student's T with an integer number df of degrees of freedom.

    The finite sums in sin and cos that hold for integer df (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    s, c = math.sin(theta), math.cos(theta)
    term, total = (c, 0.0) if df % 2 else (1.0, 0.0)
    for i in range(df // 2):  # odd: c + 2/3 c^3 + 2*4/(3*5) c^5 ...; even: 1 + 1/2 c^2 + 1*3/(2*4) c^4 ...
        if i:
            term *= c * c * ((2 * i) / (2 * i + 1) if df % 2 else (2 * i - 1) / (2 * i))
        total += term
    return 2 / math.pi * (theta + s * total) if df % 2 else s * total


@lru_cache(maxsize=256)
def student_quantile(df: int, share: float = 0.95) -> float:
    """The t with Pr[|T| <= t] = share, by bisection on the angle."""
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, df) < share else (low, middle)
    return math.sqrt(df) * math.tan(low)


def interval(values: Sequence[float | int] | np.ndarray, share: float = 0.95) -> tuple[float, float, float]:
    """Mean, low and high of independent values: mean -+ t s / sqrt(n); for n = 1 three times the value."""
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0 or not np.all(np.isfinite(x)):
        raise ValueError(f"values = {x} is not allowed: one or more finite numbers; leave the others out")
    mean = float(x.mean())
    if x.size == 1:
        return mean, mean, mean
    half = student_quantile(x.size - 1, share) * float(x.std(ddof=1)) / math.sqrt(x.size)
    return mean, mean - half, mean + half


def geometric_interval(values: Sequence[float | int] | np.ndarray) -> tuple[float, float, float]:
    """Geometric mean, low and high of independent positive values: the interval is that of the mean logarithm."""
    mean, low, high = interval(np.log(values))
    return math.exp(mean), math.exp(low), math.exp(high)


def estimates(
    rows: Iterable[Mapping[str, Any]], by: Sequence[str] = ("setting", "row"), *, metrics: Sequence[str]
) -> list[Estimate]:
    """One Estimate per group and metric, groups in order of first appearance.

    Rows without a metric (or with None) do not count for it; a missing `by` field groups as "".
    Errors: ValueError if one group holds two rows of the same seed with that metric, since these are not independent.

    Example:
        >>> rows = [{"row": "NTK", "seed": s, "test_acc": v} for s, v in enumerate((1.0, 2.0, 3.0))]
        >>> e = estimates(rows, by=("row",), metrics=("test_acc",))[0]
        >>> e.group, e.n, round(e.value, 3), round(e.high, 3)
        (('NTK',), 3, 2.0, 4.484)
    """
    found: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        group = tuple(row.get(name, "") for name in by)
        values = found.setdefault(group, {name: [] for name in metrics})
        for name in metrics:
            if row.get(name) is None:
                continue
            if row.get("seed") is not None:
                mark = (group, name, row["seed"])
                if mark in seen:
                    raise ValueError(
                        f"seed = {row['seed']} is there twice for {name} of {dict(zip(by, group, strict=True))}:"
                        " one row a seed; add the field that tells them apart to `by`"
                    )
                seen.add(mark)
            values[name].append(float(row[name]))
    return [
        Estimate(group, name, *interval(x), len(x))
        for group, values in found.items()
        for name, x in values.items()
        if x
    ]
