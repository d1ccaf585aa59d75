"""Experiment: a reported table or picture as a value, and the small types around it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from featlearn.errors import ReportError
from featlearn.lab.estimate import geometric_interval, interval
from featlearn.lab.row import Row, kind_name, read
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate

R = TypeVar("R")


@dataclass(frozen=True)
class Deviation:
    """One place where we do not do what the paper says: what, as reported, as done here, why."""

    what: str
    reported: str
    ours: str
    why: str


@dataclass(frozen=True)
class Cost:
    """Expected seconds on one core and peak memory in MiB of one trial."""

    seconds: float | int
    mib: float | int


@dataclass(frozen=True)
class TrialResult:
    """What a trial returns: flat JSON-able rows, and arrays for pictures (saved beside the rows, never in them)."""

    rows: Sequence[Mapping[str, Any] | Row]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """The rows of a run, read from the store; each row also carries `trial`, the hash of the trial it came from.

    arrays: trial hash -> loader of that trial's arrays (called only when a picture needs them).
    missing, failed, diverged: hashes of trials without rows, by reason. other_code: of trials whose rows were made by
    other code than today's, where it was looked for.
    """

    rows: tuple[Mapping[str, Any], ...]
    arrays: Mapping[str, Callable[[], Mapping[str, np.ndarray]]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    other_code: tuple[str, ...] = ()
    _tables: dict[Any, Any] = field(default_factory=dict[Any, Any], init=False, repr=False, compare=False)

    def where(self, **equal: Any) -> "Rows":
        """The rows whose fields equal the given values."""
        rows = tuple(r for r in self.rows if all(r.get(k) == v for k, v in equal.items()))
        return replace(self, rows=rows)

    def of(self, kind: type[R], *, allow_absent: bool = False) -> Table[R]:
        """The rows of one declared type. Errors: MissingUnit where planned trials have none, unless that is allowed."""
        if (kind, allow_absent) not in self._tables:  # many claims read the rows of one run
            mine = [r for r in self.rows if r.get("kind") == kind_name(kind)]
            absent = (*self.missing, *self.failed, *self.diverged)
            trials = len({r.get("trial") for r in mine})
            made = Table.of(kind, read([kind], mine)[kind], absent=absent, allow_absent=allow_absent, trials=trials)
            self._tables[kind, allow_absent] = made
        return self._tables[kind, allow_absent]

    def values(self, name: str) -> np.ndarray:
        """One column as float64, rows without it left out."""
        return np.array([r[name] for r in self.rows if r.get(name) is not None], dtype=np.float64)


@dataclass(frozen=True)
class SummaryRow:
    """One number of a table beside the reported numbers.

    value: mean over seeds; low, high: its 95 % interval; n: seeds; reported: None where the paper has no such number;
    verdict: "reproduced" | "deviates" | "not comparable" | "not reported"; entry: the inventory id of the reported
    number; tolerance: how far off it may be, where that decides.

    Errors: ReportError for a percentage beyond 0 to 100: a difference of percentages has the unit "points".
    """

    setting: str
    row: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    reported: float | None = None
    verdict: str = "not reported"
    entry: str = ""
    unit: str = ""
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.unit == "%" and math.isfinite(self.value):
            if not -1e-9 <= self.value <= 100 + 1e-9:
                raise ReportError(
                    f"{self.metric} = {self.value:g} % is not allowed: 0 to 100; give a difference the unit points"
                )
            object.__setattr__(self, "low", max(self.low, 0.0))
            object.__setattr__(self, "high", min(self.high, 100.0))

    @staticmethod
    def of(
        setting: str,
        row: str,
        metric: str,
        found: Estimate | Sequence[float] | np.ndarray | float | int,
        *,
        geometric: bool = False,
        entry: str = "",
        unit: str = "",
    ) -> "SummaryRow":
        """A number that no paper reports.

        found: an estimate or the values of independent units, with a 95 % interval, or a number that is certain, such
        as a selected setting. geometric: the interval is that of the mean logarithm of the values.

        Example:
            >>> row = SummaryRow.of("d = 32", "Network", "time", [1.0, 2.0, 3.0])
            >>> row.value, round(row.high, 3), row.n
            (2.0, 4.484, 3)
        """
        value, low, high, n = ends(found, geometric)
        return SummaryRow(setting, row, metric, value, low, high, n, entry=entry, unit=unit)


def ends(
    found: Estimate | Sequence[float] | np.ndarray | float | int, geometric: bool = False
) -> tuple[float, float, float, int]:
    """Value, both ends of the 95 % interval and number of units of what `SummaryRow.of` is given."""
    if isinstance(found, Estimate):
        return found.value, *found.at(0.95), found.n
    if isinstance(found, Sequence | np.ndarray):
        return *(geometric_interval if geometric else interval)(found), len(found)
    return float(found), float(found), float(found), 1


@dataclass(frozen=True)
class Experiment:
    """A published table or picture, ready to run; a value, not a base class.

    id: "<work>/<item>"; reproduces: inventory ids; Config: a frozen dataclass whose field docstrings are the help of
    the command line and whose `__post_init__` refuses wrong settings; presets: at least smoke, small and paper.
    trials(config): pure, one frozen dataclass of JSON-able fields per independent chunk of work;
    run_trial(trial) -> TrialResult; summarise(table) -> summary rows; draw(table) -> pictures by inventory id;
    cost(trial): expected seconds and memory. version: raise it when the meaning of a trial's rows changes.
    rows: the row types (see lab.row) that its trials write; without any, rows are flat mappings that nothing checks.
    incomparable: entry ids whose reported numbers stand for other models or data than ours, each with a sentence why.
    needs(trial): names of the data sets, texts and models of `featlearn data` that the trial reads; `featlearn run`
    looks for them before any work.
    """

    id: str
    title: str
    reproduces: tuple[str, ...]
    Config: type
    presets: Mapping[str, Any]
    trials: Callable[[Any], Sequence[Any]]
    run_trial: Callable[[Any], TrialResult]
    summarise: Callable[[Rows], Sequence[SummaryRow]]
    draw: Callable[[Rows], Mapping[str, Any]]
    deviations: tuple[Deviation, ...] = ()
    cost: Callable[[Any], Cost] = lambda trial: Cost(60.0, 500.0)
    version: int = 1
    rows: tuple[type, ...] = ()
    needs: Callable[[Any], Sequence[str]] = lambda trial: ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
