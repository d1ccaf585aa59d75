"""Summary rows as tables: a plain grid of text that a terminal, a page or a paper can show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.lab.experiment import SummaryRow


@dataclass(frozen=True)
class Grid:
    """A table of text. columns: (heading, "left" or "right"); verdict: index of the verdict's column, or -1."""

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    verdict: int = -1
    note: str = ""

    def to_rich(self) -> Any:
        """The grid as a rich Table; rich is imported here, and text with brackets stays text."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title or None, caption=self.note or None, title_justify="left")
        for name, side in self.columns:
            table.add_column(Text(name), justify="right" if side == "right" else "left", no_wrap=side == "right")
        styles = {"reproduced": "green", "reproduced (wide)": "yellow", "deviates": "bold red"}
        styles |= {"not comparable": "dim", "not reported": "dim"}
        for row in self.rows:
            table.add_row(*(Text(c, style=styles.get(c, "") if i == self.verdict else "") for i, c in enumerate(row)))
        return table


def number(value: float | int | None, unit: str = "", spread: float | int | None = None) -> str:
    """A number for people: percentages with one decimal, else as many digits as the interval's half width allows.

    Example:
        >>> number(86.4, "%"), number(0.99712, "", 0.0004), number(None), number(1.2e-9)
        ('86.4', '0.99712', '–', '1.2e-09')
    """
    if value is None:
        return "–"
    value = float(value)
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if unit == "%":
        text = f"{value:.2f}" if spread is not None and 0 < spread < 0.05 else f"{value:.1f}"
    elif value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        text = f"{value:.3g}"
    elif value == int(value) and not spread and abs(value) >= 10:
        text = f"{value:.0f}"
    elif spread is not None and 0 < spread < math.inf:
        # one digit more than the interval's first; its first two where it is wide
        text = f"{value:.{min(max(1 - math.floor(math.log10(spread)), 0), 6)}f}"
    else:
        text = f"{value:.{3 if abs(value) < 10 else 1}f}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def interval(r: SummaryRow) -> str:
    """The 95 % interval of a row as text; a dash for one seed."""
    half = (r.high - r.low) / 2
    if r.n < 2 or not math.isfinite(half):
        return "–"
    return f"[{number(r.low, r.unit, half)}, {number(r.high, r.unit, half)}]"


def value(r: SummaryRow) -> str:
    """Our number of a row as text, with the digits its interval supports."""
    half = (r.high - r.low) / 2
    return number(r.value, r.unit, half if r.n > 1 and math.isfinite(half) else None)


def difference(r: SummaryRow) -> str:
    """Ours minus the reported number, with its sign; a dash where none is reported."""
    if r.reported is None:
        return "–"
    d = r.value - r.reported
    text = number(d, r.unit, max(abs(r.high - r.low) / 2, 0.0) or None)
    return text if text.startswith("−") or not d > 0 else f"+{text}"


def loose(r: SummaryRow) -> bool:
    """Whether a row agrees only because its interval is wide: half of it exceeds a tenth of the reported number."""
    half = (r.high - r.low) / 2
    return r.verdict == "reproduced" and r.reported is not None and half > 0.1 * abs(r.reported)


def metric_name(r: SummaryRow) -> str:
    """The metric with its unit."""
    return f"{r.metric} ({r.unit})" if r.unit else r.metric


def long(rows: Sequence[SummaryRow], title: str = "", metric: bool = True) -> Grid:
    """One line per number: setting (where there are several), row, metric, ours, interval, seeds, reported, difference,
    tolerance (where one decides), verdict. metric: False leaves that column out, where the title says it. Agreement by
    a wide interval alone is marked "reproduced (wide)".

    Example:
        >>> long([SummaryRow("", "NTK", "cos", 0.5, 0.5, 0.5, 1)]).rows[0]
        ('NTK', 'cos', '0.500', '–', '1', '–', '–', 'not reported')
    """
    settings = any(r.setting for r in rows)
    heads = [("setting", "left")] if settings else []
    heads += [("row", "left"), *([("metric", "left")] if metric else [])]
    heads += [("ours", "right"), ("95 % interval", "right"), ("seeds", "right")]
    allowed = any(r.tolerance is not None for r in rows)
    heads += [("reported", "right"), ("difference", "right"), *([("tolerance", "right")] if allowed else [])]
    heads.append(("verdict", "left"))
    body = tuple(
        (
            *((r.setting,) if settings else ()),
            r.row,
            *((metric_name(r),) if metric else ()),
            value(r),
            interval(r),
            str(r.n),
            number(r.reported, r.unit),
            difference(r),
            *((number(r.tolerance, r.unit),) if allowed else ()),
            f"{r.verdict} (wide)" if loose(r) else r.verdict,
        )
        for r in rows
    )
    return Grid(title, tuple(heads), body, verdict=len(heads) - 1)


def wide(rows: Sequence[SummaryRow], title: str = "") -> Grid:
    """One line per row of the reported table: for every metric ours ± half its interval, or with its ends where it is
    lopsided, and the reported number beside it where the metric has any.

    Example:
        >>> wide([SummaryRow("", "NTK", "cos", 0.5, 0.4, 0.6, 5, 0.4, "reproduced")]).rows
        (('NTK', '0.50 ± 0.10', '0.400'),)
        >>> wide([SummaryRow("", "NTK", "test_acc", 100.0, 83.2, 100.0, 20, unit="%")]).rows
        (('NTK', '100.0 [83.2, 100.0]'),)
    """
    settings = any(r.setting for r in rows)
    metrics = list(dict.fromkeys(r.metric for r in rows))
    names = {r.metric: metric_name(r) for r in rows}
    reported = {r.metric for r in rows if r.reported is not None}
    heads: list[tuple[str, str]] = [("setting", "left")] if settings else []
    heads.append(("row", "left"))
    for m in metrics:
        heads += [(names[m], "right"), *([("reported", "right")] if m in reported else [])]
    at = {(r.setting, r.row, r.metric): r for r in rows}
    body = []
    for setting, row in dict.fromkeys((r.setting, r.row) for r in rows):
        line = [setting, row] if settings else [row]
        for m in metrics:
            r = at.get((setting, row, m))
            ours, theirs = ("–", "–") if r is None else (_plus_minus(r), number(r.reported, r.unit) + _mark(r))
            line += [ours, theirs] if m in reported else [ours]
        body.append(tuple(line))
    note = "! deviates from the paper" if any(r.verdict == "deviates" for r in rows) else ""
    return Grid(title, tuple(heads), tuple(body), note=note)


def _plus_minus(r: SummaryRow) -> str:
    half = (r.high - r.low) / 2
    if r.n < 2 or half == 0 or not math.isfinite(half):  # a statistic of all seeds together has no interval
        return value(r)
    if abs(r.high + r.low - 2 * r.value) > 0.2 * half:  # near an end of its range: ± half would leave it
        return f"{value(r)} {interval(r)}"
    return f"{value(r)} ± {number(half, r.unit, half)}"


def _mark(r: SummaryRow) -> str:
    return " !" if r.verdict == "deviates" else ""
