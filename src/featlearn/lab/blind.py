"""Blind tests of claims: what is planted in place of the observation must be told apart.

Each returns what is wrong, one line each, so a test asserts that nothing is. Statements of numbers are judged on
planted numbers and `observe` runs once; a claim that reads rows is observed again on rows that were changed.
"""

import dataclasses
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.errors import LabError, NotFinite
from featlearn.lab.claim import Claim, observed, predict, settle, verdict_of
from featlearn.lab.judge import judge
from featlearn.lab.row import columns
from featlearn.lab.statement import Control, Statement
from featlearn.lab.table import Table, identity
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, Waits

PUSHES = 20


def like(seen: Observation, values: np.ndarray) -> Observation:
    """An observation of the same kind and precision about other values."""
    if isinstance(seen, Derived):
        return dataclasses.replace(seen, value=values)
    if isinstance(seen, Waits):
        return Waits(values, np.zeros(values.shape, dtype=bool))
    if isinstance(seen, Estimate):
        return seen.moved(float(values[0]))
    if isinstance(seen, Sequence):
        return [e.moved(float(v)) for e, v in zip(seen, values, strict=True)]
    return values


def blind_statement(s: Statement, seen: Mapping[str, Observation], m: int, rng: np.random.Generator) -> list[str]:
    """What is wrong with one statement that is expected to be decided.

    Planted: its value (confirmed), its rival (not confirmed), the ends of its domain (one of them not confirmed), nan
    (refused), and single elements past their limit, the worst and 20 drawn (not confirmed).
    """
    real = judge(s, seen, m)
    if real.outcome == "too weak to test":
        return []
    observation, wrong = seen[s.observed_as], []
    whole = dataclasses.replace(s, where=None, where_says="", least=1) if s.where is not None else s
    kept = _observed_mask(s, observation)

    def outcome(values: np.ndarray) -> str:
        full = np.ravel(_values(observation)).astype(np.float64).copy()
        full[kept] = values
        return judge(s, {**seen, s.observed_as: like(observation, full)}, m).outcome

    least, largest = whole.limits(real.value)
    good = _within(s, real.value, least, largest)
    if outcome(good) not in ("confirmed", "too weak to test") and real.outcome == "confirmed":
        wrong.append(f"{s.name}: its own value is not confirmed (too little power)")
    if real.rival is not None and outcome(real.rival) == "confirmed":
        wrong.append(f"{s.name}: its rival is confirmed")
    q = s.quantity
    ends = [
        e if math.isfinite(e) else math.copysign(1e6 * (1 + float(np.abs(real.value).max())), e)
        for e in (q.low, q.high)
    ]
    if all(outcome(np.full_like(real.value, e)) == "confirmed" for e in ends):
        wrong.append(f"{s.name}: both ends of what a {q.name} can be are confirmed")
    try:
        planted = np.full_like(real.value, math.nan)
        judge(
            s,
            {**seen, s.observed_as: like(observation, np.where(kept, math.nan, 0.0)) if kept.size > 1 else planted},
            m,
        )
        wrong.append(f"{s.name}: nan is judged")
    except NotFinite:
        pass
    if s.quantifier == "every":
        wrong += _pushed(s, outcome, good, least, largest, real.observed, rng)
    return wrong


def _values(seen: Observation) -> np.ndarray:
    if isinstance(seen, Derived | Waits):
        return np.asarray(seen.value)
    if isinstance(seen, Estimate):
        return np.array([seen.value])
    if isinstance(seen, Sequence):
        return np.array([e.value for e in seen])
    return np.asarray(seen)


def _observed_mask(s: Statement, seen: Observation) -> np.ndarray:
    values = np.ravel(_values(seen))
    if s.where is None or not isinstance(seen, Derived):
        return np.ones(values.shape, dtype=bool)
    return np.ravel(np.broadcast_to(np.asarray(s.where(seen.covariates), dtype=bool), values.shape))


def _within(s: Statement, value: np.ndarray, least: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Numbers that agree: the value, or for a bound the limit itself."""
    if s.relation == "between":
        return (least + largest) / 2
    return np.where(np.isfinite(value), value, 0.0)


def _pushed(
    s: Statement,
    outcome: Callable[[np.ndarray], str],
    good: np.ndarray,
    least: np.ndarray,
    largest: np.ndarray,
    found: np.ndarray,
    rng: np.random.Generator,
) -> list[str]:
    gap = np.maximum(np.abs(good), 1e-9)
    over = np.where(np.isfinite(largest), largest + gap, least - gap)
    far = np.clip(over, s.quantity.low, s.quantity.high)
    other = np.clip(np.where(np.isfinite(least), least - gap, largest + gap), s.quantity.low, s.quantity.high)
    past = np.where(s.inside(far, _reach(s, least, largest)), other, far)
    worst = int(np.argmax(np.abs(found - good)))
    wrong = []
    for i in {worst, *rng.integers(0, good.size, PUSHES).tolist()}:
        moved = good.copy()
        moved[i] = past[i]
        if outcome(moved) == "confirmed":
            wrong.append(f"{s.name}: element {i} at {moved[i]:g} is past its limit and the statement is confirmed")
    return wrong[:1]


def _reach(s: Statement, least: np.ndarray, largest: np.ndarray) -> np.ndarray:
    m = np.asarray(s.margin)
    return {"equal": (least + largest) / 2, "at most": largest - m, "at least": least + m, "between": least + m}[
        s.relation
    ]


def blind(claim: Claim, key: Any, tables: Sequence[Any] = ()) -> list[str]:
    """What is wrong with a claim: each statement blind, and for claims that read rows the rows themselves."""
    own = key / claim.id
    settings = settle(claim, own)
    statements = predict(claim, settings)
    seen = observed(claim, settings, own, tables)
    rng = (own / "blind").numpy()
    wrong = [w for s in statements for w in blind_statement(s, seen, len(statements), rng)]
    return wrong + (blind_rows(claim, key, tables) if claim.reads else [])


def outcomes(claim: Claim, key: Any, tables: Sequence[Any]) -> list[tuple[str, str]]:
    """(statement, outcome) of a claim on some tables."""
    return [(f.statement.name, f.outcome) for f in verdict_of(claim, key, tables).findings]


def blind_rows(claim: Claim, key: Any, tables: Sequence[Table[Any]]) -> list[str]:
    """Renaming units alike and reversing rows change nothing; dropping a unit or a setting is refused."""
    before, wrong = outcomes(claim, key, tables), []
    backwards = [Table.of(t.kind, reversed(t.rows), absent=t.absent, allow_absent=True) for t in tables]
    if outcomes(claim, key, backwards) != before:
        wrong.append(f"{claim.id}: the order of its rows changes an outcome")
    renamed = [_renamed(t) for t in tables]
    if outcomes(claim, key, renamed) != before:
        wrong.append(f"{claim.id}: renaming units changes an outcome")
    for t in tables:
        for says, rows in _dropped(t):
            try:
                Table.of(t.kind, rows, planned=map(identity, t.rows), absent=t.absent, allow_absent=True)
                wrong.append(f"{claim.id}: {t.kind.__name__} without {says} is accepted")
            except LabError:
                pass
    return wrong


def _renamed(t: Table[Any]) -> Table[Any]:
    unit = t.kind.unit
    if columns(t.kind)[unit].type is not int:
        return t
    # reported seeds stay reported and validation seeds stay validation seeds: a role is a column of its own
    rows = [dataclasses.replace(r, **{unit: getattr(r, unit) + 5000}) for r in t.rows]
    return Table.of(t.kind, rows, absent=t.absent, allow_absent=True)


def _dropped(t: Table[Any]) -> Iterable[tuple[str, list[Any]]]:
    last = t.units()[-1]
    yield f"unit {last}", [r for r in t.rows if getattr(r, t.kind.unit) != last]
    for name in t.kind.key:
        level = sorted({getattr(r, name) for r in t.rows}, key=str)[-1]
        yield f"{name} = {level!r}", [r for r in t.rows if getattr(r, name) != level]


# --- apart -----------------------------------------------------------------------------------------------------------

SHARED = ("core/", "lab/", "errors.py")
"""What both halves may call: nouns, and the words in which both are written."""


def calls_of(call: Callable[[], Any], root: Path) -> set[str]:
    """Functions below `root` that a call runs, as "file:qualified name"."""
    found: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(root)):
            found.add(f"{Path(file).relative_to(root).as_posix()}:{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def apart(claim: Claim, key: Any, tables: Sequence[Any] = (), allowed: Sequence[str] = ()) -> list[str]:
    """Functions that both halves of a claim call outside of `SHARED`, its work's setup.py and the allowed ones."""
    root = Path(inspect.getfile(LabError)).parent
    own = key / claim.id
    settings = settle(claim, own)
    seen = observed(claim, settings, own, tables)

    def predicting() -> None:
        for s in predict(claim, settings):
            covariates = seen[s.observed_as]
            for law in (s.value, s.rival, s.trivial):
                if isinstance(law, Law) and isinstance(covariates, Derived):
                    law(covariates.covariates)

    one = calls_of(predicting, root)
    two = calls_of(lambda: observed(claim, settings, own, tables), root)
    both = sorted(c for c in one & two if not c.startswith(SHARED) and "/setup.py:" not in c and c not in allowed)
    return [f"{claim.id}: statements and observe both call {c}" for c in both]


__all__ = ["Control", "apart", "blind", "blind_rows", "blind_statement", "calls_of", "like", "outcomes"]
