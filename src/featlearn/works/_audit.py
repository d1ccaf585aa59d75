"""Print audits: what the reported cells of a table say, set beside its reported averages, its orders and the prose.

A work's `claims/tables.py` recomputes from here; the cells themselves stand in its `work.toml`. What predicts reads the
reported numbers by `said` and `averages_fit`, what observes reads cells by `table`: the two share nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from featlearn.lab.inventory import reported
from featlearn.lab.quantity import PERCENT, Quantity
from featlearn.lab.statement import Statement, equal

Row = Mapping[str, float]
"""metric -> value; the metric `average` is the reported one."""
Rows = dict[str, dict[str, float]]
"""row -> metric -> value, in the order of the paper."""


def table(entry: str, setting: str = "", spread: bool = False) -> Rows:
    """The reported values of an entry (or their deviations), averages included."""
    rows: Rows = {}
    for found in reported(entry, setting=setting):
        value = found.spread if spread else found.value
        if value is not None:
            rows.setdefault(found.row, {})[found.metric] = value
    return rows


def without(rows: Rows, *names: str) -> Rows:
    """The other rows."""
    return {k: v for k, v in rows.items() if k not in names}


def cells(row: Row) -> np.ndarray:
    """A row without its average."""
    return np.array([v for k, v in row.items() if k != "average"])


def means(rows: Mapping[str, Row]) -> np.ndarray:
    """Mean of each row's cells."""
    return np.array([cells(row).mean() for row in rows.values()])


def averages(rows: Mapping[str, Row]) -> np.ndarray:
    """Reported averages."""
    return np.array([row["average"] for row in rows.values()])


def said(entry: str, *, setting: str = "", row: str | None = None, metric: str | None = None) -> np.ndarray:
    """Reported values as a prediction, in the order of the paper, averages left out unless asked for."""
    found = reported(entry, setting=setting, row=row, metric=metric)
    return np.array([p.value for p in found if p.value is not None and (metric or p.metric != "average")])


def averages_fit(
    name: str,
    entry: str,
    slack: float,
    *,
    setting: str = "",
    leave_out: Sequence[str] = (),
    loose: Sequence[str] = (),
    quantity: Quantity = PERCENT,
) -> Statement:
    """Every reported average is the mean of its row's cells to within `slack`: what is observed are `means` of `table`.

    leave_out: rows of another statement; loose: rows whose average was taken before their cells were rounded, with
    twice the slack. The rival leaves the last column out.
    """
    shown: dict[str, float] = {}
    others: dict[str, list[float]] = {}
    for p in reported(entry, setting=setting):
        if p.row not in leave_out and p.value is not None:
            if p.metric == "average":
                shown[p.row] = p.value
            else:
                others.setdefault(p.row, []).append(p.value)
    return equal(
        name,
        quantity,
        np.array(list(shown.values())),
        f"reported averages of {entry} {setting}".strip(),
        axis="row",
        margin=np.array([slack * (1 + (r in loose)) for r in shown]),
        rival=np.array([np.mean(others[r][:-1]) for r in shown]),
        rival_says="the last column left out",
    )


def audited(says: Callable[..., Sequence[Statement]]) -> Callable[..., Sequence[Statement]]:
    """The statements of a claim that reads reported numbers alone, as audits: nothing was run, nothing is covered."""
    return partial(_as_audits, says)


def _as_audits(says: Callable[..., Sequence[Statement]], settings: Any) -> Sequence[Statement]:
    return [s if s.form == "corrected" else replace(s, form="audit") for s in says(settings)]


# --- orders ----------------------------------------------------------------------------------------------------------


def less(one: Row, other: Row, columns: Sequence[str]) -> np.ndarray:
    """One row less another, column by column."""
    return np.array([one[c] - other[c] for c in columns])


def place(value: float, among: Sequence[float] | np.ndarray) -> int:
    """Place from the top, 1 for the highest."""
    return 1 + int((np.asarray(among) > value).sum())
