"""Table[Row]: the rows of one type that know their columns, their levels and what was planned.

Rows are kept in the order of key and unit, so the order in which they came decides nothing. What cannot be meant (an
unknown column, a level that is not there, an arm without rows, a unit that one arm lacks, the same row twice) is an
error with a name, never a verdict.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, MethodType
from typing import Any, Generic, TypeVar

import numpy as np

from featlearn.errors import BadStatement, DuplicateRow, EmptyArm, MissingUnit
from featlearn.lab.quantity import SEED
from featlearn.lab.row import check, check_level, column, columns
from featlearn.lab.statistics import within_slope
from featlearn.lab.uncertainty import Estimate, mean_of

R = TypeVar("R")
Identity = tuple[Any, ...]
VALIDATION = 1000
"""Seeds from here on choose settings, those below are reported."""


def identity(row: Any) -> Identity:
    """(key columns, unit) of a row."""
    return (*(getattr(row, name) for name in row.key), getattr(row, row.unit))


def _order(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple((v is None, isinstance(v, str), 0 if v is None else v) for v in values)


@dataclass(frozen=True)
class Table(Generic[R]):
    """Rows of one type.

    absent: planned trials without rows, by reason; trials: how many have some; says: the selections made so far; lost:
    how many rows a predicate left out, which its estimates repeat; chosen_by: columns whose values such a predicate
    depends on, which are averaged no more.
    """

    kind: type[R]
    rows: tuple[R, ...]
    absent: tuple[str, ...] = ()
    says: str = ""
    lost: str = ""
    trials: int = 0
    chosen_by: frozenset[str] = frozenset()

    @staticmethod
    def of(
        kind: type[R],
        rows: Iterable[R],
        *,
        planned: Iterable[Identity] | None = None,
        absent: Sequence[str] = (),
        allow_absent: bool = False,
        trials: int = 0,
    ) -> "Table[R]":
        """A checked table.

        planned: the (key, unit) that must be there. absent: planned trials that have no rows; with `allow_absent` the
        claim names them itself.
        Errors: OutOfRange, NotFinite, UnknownLevel; TypeError for a row of another type; DuplicateRow; MissingUnit for
        what was planned and is not there; EmptyArm without rows.
        """
        found: dict[Identity, R] = {}
        for row in rows:
            if type(row) is not kind:
                raise TypeError(f"a row of {type(row).__name__} stands among those of {kind.__name__}: read them apart")
            check(row)  # pyright: ignore[reportArgumentType]
            if identity(row) in found:
                raise DuplicateRow(f"{kind.__name__} has {_named(row)} twice: add the column that tells them apart")
            found[identity(row)] = row
        if absent and not allow_absent:
            raise MissingUnit(
                f"{len(absent)} planned trials of {kind.__name__} have no rows ({absent[0]}, ...): run the experiment"
                " again, or let the claim name what may be absent"
            )
        for wanted in planned or ():
            if wanted not in found:
                raise MissingUnit(f"{kind.__name__} lacks the planned row {wanted}: run the experiment again")
        if not found:
            raise EmptyArm(f"no row of {kind.__name__}: run {getattr(kind, 'experiment', '') or 'the experiment'}")
        ordered = sorted(found, key=_order)
        return Table(kind, tuple(found[i] for i in ordered), tuple(absent), trials=trials)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **equal: Any) -> "Table[R]":
        """Rows whose columns equal the values. Errors: UnknownColumn, UnknownLevel, EmptyArm."""
        for name, value in equal.items():
            check_level(self.kind, name, value)
        rows = tuple(r for r in self.rows if all(getattr(r, k) == v for k, v in equal.items()))
        return self._selected(rows, ", ".join(f"{k} = {v!r}" for k, v in equal.items()))

    def keep(self, test: Callable[[R], bool], says: str) -> "Table[R]":
        """Rows that pass a test, named by what it says; how many it leaves out stands beside what is made of the rest.

        Errors: EmptyArm.
        """
        rows = tuple(r for r in self.rows if test(r))
        lost = f"{len(rows)} of {len(self)} rows: {says}" if len(rows) < len(self) else ""
        made = replace(self._selected(rows, says), lost="; ".join(s for s in (self.lost, lost) if s))
        return replace(made, chosen_by=self.chosen_by | self._decide(test)) if lost else made

    def _decide(self, test: Callable[[R], bool]) -> frozenset[str]:
        """Measured columns that decide a test: with another row's number in its place, some row passes or fails."""
        read: set[str] = set()
        before = [test(_Watched(r, read)) for r in self.rows]  # pyright: ignore[reportArgumentType]
        named = {*self.kind.key, self._unit}  # pyright: ignore[reportAttributeAccessIssue]
        found: set[str] = set()
        for name, c in columns(self.kind).items():
            if name not in read or name in named or c.quantity.nominal or c.type is str:
                continue
            values = sorted(v for r in self.rows if (v := getattr(r, name)) is not None)
            there = [(r, b) for r, b in zip(self.rows, before, strict=True) if getattr(r, name) is not None]
            for other in {values[0], values[len(values) // 2], values[-1]} if values else ():
                if any(test(_Watched(r, read, {name: other})) != b for r, b in there):  # pyright: ignore[reportArgumentType]
                    found.add(name)
        return frozenset(found)

    def _selected(self, rows: tuple[R, ...], says: str) -> "Table[R]":
        said = "; ".join(s for s in (self.says, says) if s)
        if not rows:
            raise EmptyArm(f"no row of {self.kind.__name__} has {said}")
        return replace(self, rows=rows, says=said)

    def by(self, *names: str) -> dict[Any, "Table[R]"]:
        """The tables of each value (or tuple of values) of some columns, in ascending order."""
        for name in names:
            column(self.kind, name)
        groups: dict[Any, list[R]] = {}
        for r in self.rows:
            groups.setdefault(tuple(getattr(r, n) for n in names), []).append(r)
        ordered = sorted(groups, key=_order)
        said = self.says + "; " if self.says else ""
        return {
            g if len(names) > 1 else g[0]: replace(
                self,
                rows=tuple(groups[g]),
                says=said + ", ".join(f"{n} = {v!r}" for n, v in zip(names, g, strict=True)),
            )
            for g in ordered
        }

    def column(self, name: str) -> np.ndarray:
        """One column as float64. Errors: UnknownColumn; BadStatement for names, and for a column by which
        rows were chosen; MissingUnit where a row lacks it."""
        c = column(self.kind, name)
        if c.quantity.nominal or c.type is str:
            raise BadStatement(f"{self.kind.__name__}.{name} holds names: count them with keep(), do not average them")
        if name in self.chosen_by:
            raise BadStatement(f"{self.kind.__name__}: the rows were chosen by {name} ({self.lost}): show all of them")
        values = [getattr(r, name) for r in self.rows]
        if any(v is None for v in values):
            raise MissingUnit(f"{values.count(None)} of {len(values)} rows of {self.kind.__name__} have no {name}")
        return np.array(values, dtype=np.float64)

    def units(self) -> tuple[Any, ...]:
        """The units of replication there are."""
        return tuple(sorted({getattr(r, self._unit) for r in self.rows}))

    @property
    def _unit(self) -> str:
        return self.kind.unit  # pyright: ignore[reportAttributeAccessIssue]

    def per_unit(self, name: str) -> dict[Any, float]:
        """The mean of a column over the rows of each unit. Errors: as `column`; MissingUnit where units have unlike
        numbers of rows, since then the arms are not alike."""
        values = self.column(name)
        found: dict[Any, list[float]] = {}
        for r, v in zip(self.rows, values, strict=True):
            found.setdefault(getattr(r, self._unit), []).append(float(v))
        self._alike({u: len(v) for u, v in found.items()})
        return {u: float(np.mean(v)) for u, v in found.items()}

    def _missing(self) -> str:
        lacks = f"{len(self.absent)} planned trials have no rows" if self.absent else ""
        return "; ".join(s for s in (self.lost, lacks) if s)

    def _alike(self, counts: Mapping[Any, int]) -> None:
        if len(set(counts.values())) > 1:
            few = min(counts, key=lambda u: counts[u])
            raise MissingUnit(
                f"{self._unit} {few} has {counts[few]} rows of {self.kind.__name__} where others have"
                f" {max(counts.values())}: run what is missing, or select first"
            )

    def _mixed(self, rows: Sequence[R], over: Sequence[str], arms: Iterable[str] = ()) -> None:
        """Errors: BadStatement where rows of several settings would be averaged and no one said so."""
        known = columns(self.kind)
        for wanted in over:
            column(self.kind, wanted)
        units = {getattr(r, self._unit) for r in rows}
        if self._unit == SEED.name and len({u >= VALIDATION for u in units}) > 1:
            raise BadStatement(
                f"{self.kind.__name__}: reported seeds and validation seeds, from {VALIDATION} on, would be averaged:"
                " keep one kind"
            )
        for n, c in known.items():  # prompts of a seed are no more independent than seeds are
            seeds = {(getattr(r, self._unit), getattr(r, n)) for r in rows} if c.quantity == SEED else set()
            if 1 < len({s for _, s in seeds}) < len(seeds) == len(units) and n != self._unit:
                raise BadStatement(
                    f"{self.kind.__name__}: each {self._unit} is of one {n}, so that {len(units)} of them are not"
                    f" independent: average over {n}"
                )
        key = set(self.kind.key)  # pyright: ignore[reportAttributeAccessIssue]
        settings = [n for n, c in known.items() if n in key or c.quantity.levels]
        for n in settings:
            levels = {getattr(r, n) for r in rows}
            if len(levels) > 1 and n not in (*over, *arms, self._unit):
                raise BadStatement(
                    f"{self.kind.__name__}: rows of {len(levels)} values of {n} would be averaged: select one with"
                    f" where(), or name it in over=({n!r},)"
                )

    def mean(self, name: str, over: Sequence[str] = (), *, meant: str = "") -> Estimate:
        """Mean of a column: within the unit first, then over units.

        over: the settings (columns of the key, columns with levels) whose values are averaged; the estimate keeps the
        mean of each as an arm, unless `meant` says why it is their average that is meant (the source averages; two
        orders, each as often), which then stands beside it. Errors: as `per_unit`; BadStatement for rows of several
        settings that are not named, of reported and validation seeds, or of units that are not independent.
        """
        found = self.per_unit(name)
        self._mixed(self.rows, over)
        made = mean_of(list(found.values()), column(self.kind, name).quantity, self._unit)
        return self._with_arms(made, meant, over, lambda part: part.mean(name))

    def _with_arms(
        self, made: Estimate, meant: str, over: Sequence[str], of: Callable[["Table[R]"], Estimate]
    ) -> Estimate:
        parts = self.by(*over) if over and not meant else {}
        arms = tuple(replace(of(p), says=p.says) for p in parts.values()) if len(parts) > 1 else ()
        return replace(made, says="; ".join(s for s in (self._missing(), meant) if s), arms=arms)

    def slope(self, x: str, y: str) -> Estimate:
        """Exponent of a column in another: the mean over units of the slope of logarithms within each.

        Rows of one unit and one x are averaged before. Errors: as `mean`; MissingUnit where units have unlike x;
        EmptyArm for fewer than two units more than values of x.
        """
        parts = {u: p.by(x) for u, p in self.by(self._unit).items()}
        levels = {tuple(p) for p in parts.values()}
        if len(levels) > 1:
            raise MissingUnit(f"{self.kind.__name__}: the {self._unit}s were not seen at the same {x}")
        self._mixed(self.rows, (x,))
        means = np.array([[float(part.column(y).mean()) for part in p.values()] for p in parts.values()])
        at = np.broadcast_to(np.log(np.array(levels.pop(), dtype=np.float64)), means.shape)
        return replace(within_slope(at, np.log(means), self._unit), says=self._missing())

    def paired(
        self,
        name: str,
        one: Mapping[str, Any],
        two: Mapping[str, Any],
        over: Sequence[str] = (),
        *,
        chance: float | None = None,
        meant: str = "",
    ) -> Estimate:
        """Mean difference of a column, arm `one` less arm `two`.

        Rows are matched on the key without the arms' own columns, then averaged within the unit, over the settings that
        `over` names. The estimate knows the mean of `two` as its reference, and its room up to the top of the range and
        down to `chance`, or to that of the column: of a bounded column without either nobody knows (nan), so that it
        shows no arm to be as good as another. Errors: as `mean`; BadStatement for arms that are not told apart by the
        same columns; MissingUnit for a row that has no partner.
        """
        c = column(self.kind, name)
        if set(one) != set(two) or dict(one) == dict(two):
            raise BadStatement(
                f"{self.kind.__name__}: arms {dict(one)} and {dict(two)}: two values of the same columns"
            )
        parts = [self.where(**arm) for arm in (one, two)]
        self._mixed(parts[0].rows + parts[1].rows, over, one)
        free = [k for k in self.kind.key if k not in one and k not in two]  # pyright: ignore[reportAttributeAccessIssue]
        sides: list[dict[Identity, float]] = []
        for part in parts:
            values = part.column(name)
            side: dict[Identity, float] = {}
            for r, v in zip(part.rows, values, strict=True):
                side[(*(getattr(r, k) for k in free), getattr(r, self._unit))] = float(v)
            sides.append(side)
        for here, there, arm in ((sides[0], sides[1], two), (sides[1], sides[0], one)):
            lost = [m for m in here if m not in there]
            if lost:
                raise MissingUnit(f"{self.kind.__name__}: {dict(arm)} lacks the partner of {lost[0]}")
        found: dict[Any, list[float]] = {}
        for m, v in sides[0].items():
            found.setdefault(m[-1], []).append(v - sides[1][m])
        self._alike({u: len(v) for u, v in found.items()})
        span = c.quantity.high - c.quantity.low
        difference = replace(c.quantity, name="difference", low=-span, high=span, whole=False, chance=None)
        made = mean_of([float(np.mean(v)) for v in found.values()], difference, self._unit)
        reference = float(np.mean(list(sides[1].values())))
        floor = c.quantity.chance if chance is None else chance  # guessing is as bad as it gets
        if floor is None:
            floor = math.nan if c.quantity.bounded else c.quantity.low
        made = replace(made, reference=reference, room=(c.quantity.high - reference, reference - floor))
        return parts[0]._with_arms(
            made, meant, over, lambda part: self._beside(part, over).paired(name, one, two, chance=chance)
        )

    def _beside(self, part: "Table[R]", names: Sequence[str]) -> "Table[R]":
        """All rows at the values that some columns have in a part."""
        return self.where(**{n: getattr(part.rows[0], n) for n in names})


class _Watched:
    """A row that notes which columns are read of it, and gives other numbers in their place."""

    def __init__(self, row: Any, read: set[str], instead: Mapping[str, Any] | None = None) -> None:
        self._row, self._read, self._instead = row, read, instead or {}

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self._row), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)
        if isinstance(own, FunctionType):
            return MethodType(own, self)
        self._read.add(name)
        return self._instead[name] if name in self._instead else getattr(self._row, name)


def _named(row: Any) -> str:
    names = (*row.key, row.unit)
    return ", ".join(f"{n} = {getattr(row, n)!r}" for n in names)
