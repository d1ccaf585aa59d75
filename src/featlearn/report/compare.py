"""Our numbers beside the printed ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.run.experiment import SummaryRow


class ReportError(ValueError):
    """Something a report cannot be made from, or a place it may not be written to; one line with the remedy."""


@dataclass(frozen=True)
class Estimate:
    """One number of ours: mean over `n` seeds with its 95 % interval [low, high].

    `setting`, `row` and `metric` are the names the inventory uses for the printed number; setting "" where an entry
    has only one.
    """

    setting: str
    row: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    unit: str = ""

    def __post_init__(self):
        if self.n < 1:
            raise ReportError(f"n = {self.n} is not allowed: at least 1 seed; count the seeds behind {self.row!r}")
        if self.low > self.value or self.value > self.high:
            raise ReportError(
                f"interval = [{self.low}, {self.high}] is not allowed: it must contain the value {self.value} "
                f"of ({self.setting!r}, {self.row!r}, {self.metric!r}); give low <= value <= high"
            )


def estimate(
    setting: str,
    row: str,
    metric: str,
    values: Iterable[float],
    unit: str = "",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Mean over seeds with a Student 95 % interval.

    Formula: mean ± t(0.975, n - 1) · s / √n, with s the sample deviation (n - 1), cut at `bounds` (a percentage
    cannot exceed 100). Units: those of `values`. With one seed there is no interval: low = high = value. If a value
    is not finite the mean and both ends are nan, so that no comparison succeeds.
    Errors: ReportError where `values` is empty.

    Example:
        >>> e = estimate("", "Network", "test_acc", [99.0, 100.0, 99.5], "%", (0.0, 100.0))
        >>> (round(e.value, 2), round(e.low, 2), e.high)
        (99.5, 98.26, 100.0)
    """
    x = np.asarray(list(values), dtype=np.float64)
    if x.size == 0:
        raise ReportError(
            f"values = [] is not allowed: at least one seed for ({setting!r}, {row!r}, {metric!r}); run it"
        )
    if not np.all(np.isfinite(x)):
        return Estimate(setting, row, metric, math.nan, math.nan, math.nan, x.size, unit)
    mean = float(x.mean())
    if x.size == 1:
        return Estimate(setting, row, metric, mean, mean, mean, 1, unit)
    from scipy.special import stdtrit  # the t quantile alone, without the cost of scipy.stats

    half = float(stdtrit(x.size - 1, 0.975)) * float(x.std(ddof=1)) / math.sqrt(x.size)
    low, high = max(mean - half, bounds[0]), min(mean + half, bounds[1])
    return Estimate(setting, row, metric, mean, min(low, mean), max(high, mean), x.size, unit)


def against_print(
    estimates: Iterable[Estimate | tuple],
    entry_ids: Sequence[str],
    tolerance: Mapping[str, float],
    lookup: Callable[[str], Any] | None = None,
) -> list[SummaryRow]:
    """Join our numbers with the printed ones of the given inventory entries.

    Formula: `reproduced` iff |value - printed| <= max((high - low) / 2, tolerance[metric]), else `deviates`;
    `no print` where no entry prints a number for exactly that setting, row and metric. A metric without a tolerance
    has tolerance 0; an interval that is not finite widens nothing; a value that is not finite deviates.
    Where several entries print the same cell the first id in `entry_ids` wins.

    Args: estimates: Estimate, or tuples (setting, row, metric, value, low, high, n[, unit]); tolerance: per metric, in
    the unit of the metric; lookup: entry id -> entry, by default `featlearn.inventory.entry`.
    Returns: one SummaryRow per estimate, in the same order.
    Errors: ReportError for a negative tolerance or two estimates of one cell; what `lookup` raises for an unknown id.

    Example:
        >>> ours = [("", "NTK", "test_acc", 85.2, 84.9, 85.5, 5)]
        >>> against_print(ours, ["emergence.table1"], {"test_acc": 1.5})[0].verdict
        'reproduced'
    """
    if lookup is None:
        from featlearn.inventory import entry as lookup
    for metric, t in tolerance.items():
        if not t >= 0:
            raise ReportError(f"tolerance[{metric!r}] = {t} is not allowed: at least 0; give it in the metric's unit")
    cells: dict[tuple[str, str, str], tuple[str, Any]] = {}
    for id_ in entry_ids:
        for p in lookup(id_).printed:
            cells.setdefault((p.setting, p.row, p.metric), (id_, p))
    rows: list[SummaryRow] = []
    seen: set[tuple[str, str, str]] = set()
    for e in (e if isinstance(e, Estimate) else Estimate(*e) for e in estimates):
        key = (e.setting, e.row, e.metric)
        if key in seen:
            raise ReportError(f"estimate {key} occurs twice: one number a cell; pool its seeds first")
        seen.add(key)
        common = (*key, float(e.value), float(e.low), float(e.high), int(e.n))
        if key not in cells:
            rows.append(SummaryRow(*common, unit=e.unit))
            continue
        id_, p = cells[key]
        rows.append(
            SummaryRow(
                *common,
                printed=p.value,
                verdict="reproduced" if _close(e, p.value, tolerance.get(e.metric, 0.0)) else "deviates",
                entry=id_,
                unit=e.unit or p.unit,
            )
        )
    return rows


def _close(e: Estimate, printed: float, tolerance: float) -> bool:
    half = (e.high - e.low) / 2
    allowed = max(half if math.isfinite(half) else 0.0, tolerance)
    # 95.1 - 94.1 is not 1.0 in binary; a boundary case must not hang on the last bit
    slack = 1e-9 * max(1.0, abs(printed), abs(e.value))
    return abs(e.value - printed) <= allowed + slack  # False for nan
