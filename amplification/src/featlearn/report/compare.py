"""Our numbers beside the reported ones."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from featlearn.errors import ReportError
from featlearn.lab.estimate import Estimate
from featlearn.lab.experiment import SummaryRow


def against_reported(
    estimates: Iterable[Estimate | tuple[Any, ...]],
    entry_ids: Sequence[str],
    tolerance: Mapping[str, float | int],
    units: Mapping[str, str] | None = None,
    lookup: Callable[[str], Any] | None = None,
    incomparable: Collection[str] = (),
) -> list[SummaryRow]:
    """Join our numbers with the reported ones of the given inventory entries.

    Formula: `reproduced` iff |value - reported| <= max(min(half, 3 t), t) with half = (high - low) / 2 and
    t = tolerance[metric], else `deviates`: a wide interval shows few seeds, not agreement, so it excuses 3 t at most;
    `not reported` where no entry reports a number for exactly that setting, row and metric. A metric without a
    tolerance has tolerance 0; an interval that is not finite widens nothing; a value that is not finite deviates.
    Where several entries report the same cell the first id in `entry_ids` wins. Numbers of entries in `incomparable`
    (other models, other data) are set beside ours and judged `not comparable`.

    Args: estimates: of `run.estimate.estimates` with groups (setting, row), or tuples (setting, row, metric, value,
    low, high, n); tolerance: per metric, in its unit; units: per metric, where none is reported; lookup: entry id
    -> entry, by default `featlearn.lab.inventory.entry`.
    Returns: one SummaryRow per estimate, in the same order.
    Errors: ReportError for a negative tolerance, a group that is not (setting, row), an interval that does not contain
    its value, or two estimates of one cell; what `lookup` raises for an unknown id.

    Example:
        >>> ours = [("", "NTK", "test_acc", 85.2, 84.9, 85.5, 5)]
        >>> against_reported(ours, ["emergence.table1"], {"test_acc": 1.5})[0].verdict
        'reproduced'
    """
    if lookup is None:
        from featlearn.lab.inventory import entry as lookup
    for metric, t in tolerance.items():
        if not t >= 0:
            raise ReportError(f"tolerance[{metric!r}] = {t} is not allowed: at least 0; give it in the metric's unit")
    cells: dict[tuple[str, str, str], tuple[str, Any]] = {}
    for id_ in entry_ids:
        for p in lookup(id_).reported:
            cells.setdefault((p.setting, p.row, p.metric), (id_, p))
    rows: list[SummaryRow] = []
    seen: set[tuple[str, str, str]] = set()
    for e in map(_flat, estimates):
        setting, row, metric, value, low, high, n = e
        key, ours = (setting, row, metric), (value, low, high, n)
        if key in seen:
            raise ReportError(f"estimate {key} occurs twice: one number a cell; pool its seeds first")
        seen.add(key)
        unit = (units or {}).get(metric, "")
        if key not in cells:
            rows.append(SummaryRow(setting, row, metric, *ours, unit=unit))
            continue
        id_, p = cells[key]
        allowed = tolerance.get(metric, 0.0)
        verdict = "reproduced" if _close(value, low, high, p.value, allowed) else "deviates"
        if id_ in incomparable:
            verdict, allowed = "not comparable", None
        rows.append(SummaryRow(setting, row, metric, *ours, p.value, verdict, id_, unit or p.unit, allowed))
    return rows


def _flat(e: Estimate | tuple[Any, ...]) -> tuple[str, str, str, float, float, float, int]:
    """(setting, row, metric, value, low, high, n), checked."""
    if isinstance(e, Estimate):
        if len(e.group) != 2:
            raise ReportError(f"group = {e.group} is not allowed: (setting, row); estimate by=('setting', 'row')")
        e = (*e.group, e.metric, e.value, e.low, e.high, e.n)
    setting, row, metric, value, low, high, n = e
    if n < 1:
        raise ReportError(f"n = {n} is not allowed for {row!r}: at least 1 seed; count the seeds behind it")
    if low > value or value > high:
        raise ReportError(
            f"interval = [{low}, {high}] is not allowed for {(setting, row, metric)}: it must contain the value {value}"
        )
    return str(setting), str(row), metric, float(value), float(low), float(high), int(n)


def _close(value: float, low: float, high: float, reported: float, tolerance: float | int) -> bool:
    half = (high - low) / 2
    allowed = max(min(half, 3 * tolerance) if math.isfinite(half) else 0.0, tolerance)
    # 95.1 - 94.1 is not 1.0 in binary; a boundary case must not hang on the last bit
    slack = 1e-9 * max(1.0, abs(reported), abs(value))
    return abs(value - reported) <= allowed + slack  # False for nan
