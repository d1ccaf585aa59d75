"""Row: one measured record with typed columns, told apart from other kinds by a `Literal`.

Example:
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Budget(Row):
    ...     experiment, key = "xor_sgd/samples", ("d",)
    ...     kind: Literal["budget"] = "budget"
    ...     d: Annotated[int, COUNT]
    ...     seed: Annotated[int, SEED]
    ...     samples: Annotated[float, POSITIVE] | None
    >>> [name for name, column in columns(Budget).items() if column.quantity.nominal]
    ['kind', 'seed']
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from featlearn.errors import NotFinite, OutOfRange, UnknownColumn, UnknownLevel
from featlearn.lab.quantity import NAME, SHARE, Quantity


class Row:
    """Base of row types: frozen dataclasses of Annotated columns.

    experiment: id of the experiment that writes it. unit: the column of the independent unit of replication (a seed, a
    subject, a kind of needle), declared before any row exists. key: columns that tell rows of one unit apart.
    A column of type Literal has levels; `X | None` may be absent in a row; a bool is counted as a share.
    """

    experiment: ClassVar[str] = ""
    unit: ClassVar[str] = "seed"
    key: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Column:
    """A column: its quantity, its Python type and whether a row may lack it."""

    name: str
    quantity: Quantity
    type: type
    optional: bool


@cache
def columns(kind: type) -> Mapping[str, Column]:
    """Columns of a row type by name. Errors: TypeError where a field has neither levels nor a quantity."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {f.name: _column(kind, f.name, hints[f.name]) for f in dataclasses.fields(kind)}
    for name in (kind.unit, *kind.key):
        if name not in found:
            raise TypeError(f"{kind.__name__}: unit and key name columns, and {name!r} is none of {', '.join(found)}")
    return found


def _column(kind: type, name: str, hint: Any) -> Column:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) or _is_union(hint) else (hint,)
    optional = type(None) in options
    inner = [o for o in options if o is not type(None)]
    if len(inner) == 1:
        quantity, base = None, inner[0]
        if typing.get_origin(base) is typing.Annotated:
            base, *extras = typing.get_args(base)
            quantity = next((e for e in extras if isinstance(e, Quantity)), None)
        if typing.get_origin(base) is Literal:
            return Column(name, dataclasses.replace(NAME, levels=typing.get_args(base)), str, optional)
        if base is bool:
            return Column(name, quantity or SHARE, bool, optional)
        if quantity is not None and base in (int, float, str):
            return Column(name, quantity, base, optional)
    raise TypeError(f"{kind.__name__}.{name}: give a column as Literal[...], bool or Annotated[type, Quantity]")


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Union


def column(kind: type, name: str) -> Column:
    """One column. Errors: UnknownColumn with the nearest name."""
    known = columns(kind)
    if name not in known:
        raise UnknownColumn(f"{kind.__name__} has no column {name!r}{_nearest(name, known)}")
    return known[name]


def check_level(kind: type, name: str, value: object) -> None:
    """Errors: UnknownColumn, UnknownLevel for a value that the column cannot have."""
    levels = column(kind, name).quantity.levels
    if levels and value not in levels:
        raise UnknownLevel(f"{kind.__name__}.{name} has no level {value!r}{_nearest(str(value), levels)}")


def check(row: Row) -> None:
    """Errors: NotFinite, OutOfRange, UnknownLevel, TypeError for the first value that its column does not allow."""
    for c in columns(type(row)).values():
        value = getattr(row, c.name)
        if value is None:
            if not c.optional:
                why = f"a {c.quantity.name}; declare the column `| None` if a row may lack it"
                raise OutOfRange(_refused(row, c.name, why))
        elif c.quantity.levels:
            check_level(type(row), c.name, value)
        elif c.type is str or c.type is bool:
            if not isinstance(value, c.type):
                raise OutOfRange(_refused(row, c.name, f"of type {c.type.__name__}; convert it"))
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise OutOfRange(_refused(row, c.name, "a number; convert it"))
        elif not math.isfinite(value):
            raise NotFinite(_refused(row, c.name, "a finite number; give None for no value"))
        elif not c.quantity.holds(float(value)):
            ends = f"from {c.quantity.low:g} to {c.quantity.high:g}; check what measured it"
            raise OutOfRange(_refused(row, c.name, f"a whole number {ends}" if c.quantity.whole else ends))


def _refused(row: Row, name: str, why: str) -> str:
    return f"{type(row).__name__}.{name} = {getattr(row, name)!r} is not allowed: {why}"


def plain(row: Row) -> dict[str, Any]:
    """A checked row as the store keeps it."""
    check(row)
    return dataclasses.asdict(typing.cast(Any, row))


def kind_name(kind: type) -> str:
    """The level of a row type's column `kind`."""
    return str(columns(kind)["kind"].quantity.levels[0])


def read(kinds: Sequence[type], rows: Iterable[Mapping[str, Any]]) -> dict[type, list[Any]]:
    """Stored rows by their type. Errors: UnknownLevel for a kind that is not declared, UnknownColumn for a column."""
    by_name = {kind_name(k): k for k in kinds}
    out: dict[type, list[Any]] = {k: [] for k in kinds}
    for r in rows:
        if r.get("kind") not in by_name:
            raise UnknownLevel(
                f"a row has kind {r.get('kind')!r}: one of {', '.join(by_name)}; run the experiment again"
            )
        kind = by_name[r["kind"]]
        values = {name: value for name, value in r.items() if name != "trial"}
        for name in values:
            column(kind, name)
        missing = [n for n in columns(kind) if n not in values]
        if missing:
            raise UnknownColumn(f"a row of {kind.__name__} lacks {', '.join(missing)}; run the experiment again")
        made = kind(**values)
        check(made)
        out[kind].append(made)
    return out


def _nearest(word: str, known: Iterable[str]) -> str:
    names = [str(k) for k in known]
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f": one of {', '.join(names)}"
