"""Blind tests of claims: what is planted in place of the observation must be told apart.

Each returns what is wrong, one line each, so a test asserts that nothing is. Statements of numbers are judged on
planted numbers and `observe` runs once; a claim that reads rows is observed again on rows that were changed.
"""

import builtins
import contextlib
import dataclasses
import functools
import inspect
import io
import math
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, NoneType
from typing import Any

import numpy as np

from featlearn.errors import LabError, NotFinite
from featlearn.lab.claim import Claim, observed, predict, settle, verdict_of
from featlearn.lab.judge import ALPHA, judge, kept_of
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
    if isinstance(seen, Sequence) and len(seen) and isinstance(seen[0], Estimate):
        return [e.moved(float(v)) for e, v in zip(seen, values, strict=True)]
    return values


def blind_statement(s: Statement, seen: Mapping[str, Observation], m: int, rng: np.random.Generator) -> list[str]:
    """What is wrong with one statement that is expected to be decided.

    Planted: what it predicts (confirmed), its rival (not confirmed), the ends of its domain (one of them not
    confirmed), nan in one element (refused), and single elements past their limit, the worst and 20 drawn (not
    confirmed). Looked for: a control that is made from the observation, a covariate that is the observation.
    """
    real = judge(s, seen, m)
    observation, wrong = seen[s.observed_as], _borrowed(s, seen)
    if real.outcome == "too weak to test" or real.kept < s.least:
        return wrong
    whole = np.ravel(_values(observation)).astype(np.float64)
    covariates = observation.covariates if isinstance(observation, Derived) else {}
    places = np.flatnonzero(kept_of(s, covariates, whole.shape))
    least, largest = s.only(places).limits(real.value)
    width = _widths(observation)[places]

    def outcome(values: np.ndarray, at: np.ndarray = places) -> str:
        full = whole.copy()
        full[at] = values
        return judge(s, {**seen, s.observed_as: like(observation, full)}, m).outcome

    q = s.quantity
    good = np.clip(_agreeing(least, largest, width), q.low, q.high)
    sound = outcome(good) == "confirmed"
    if not sound and "confirmed" in (s.expect, real.outcome):
        wrong.append(f"{s.name}: what it predicts is not confirmed (too little power)")
    if real.rival is not None and outcome(real.rival) == "confirmed":
        wrong.append(f"{s.name}: its rival is confirmed")
    far = 1e6 * (1 + float(np.abs(real.value).max()))
    ends = [e if math.isfinite(e) else math.copysign(far, e) for e in (q.low, q.high)]
    if all(outcome(np.full_like(real.value, e)) == "confirmed" for e in ends):
        wrong.append(f"{s.name}: both ends of what a {q.name} can be are confirmed")
    try:
        outcome(np.array([math.nan]), rng.choice(places, 1))
        wrong.append(f"{s.name}: nan is judged")
    except NotFinite:
        pass
    if s.quantifier == "every" and sound:
        worst = int(np.argmax(np.abs(real.observed - good)))
        for i in {worst, *rng.integers(0, good.size, PUSHES).tolist()}:
            past = _past(float(least[i]), float(largest[i]), q.low, q.high)
            if past is not None and outcome(np.array([past]), places[[i]] if good.size > 1 else places) == "confirmed":
                wrong.append(f"{s.name}: element {i} at {past:g} is past its limit and the statement is confirmed")
                break
    return wrong


def _values(seen: Observation) -> np.ndarray:
    if isinstance(seen, Derived | Waits):
        return np.asarray(seen.value)
    if isinstance(seen, Estimate):
        return np.array([seen.value])
    if isinstance(seen, Sequence) and len(seen) and isinstance(seen[0], Estimate):
        return np.array([e.value for e in seen])
    return np.asarray(seen)


def _widths(seen: Observation) -> np.ndarray:
    """How far an interval, or one of its local estimates, reaches from its value; 0 for numbers."""
    estimates = [seen] if isinstance(seen, Estimate) else seen
    if not isinstance(estimates, Sequence) or not len(estimates) or not isinstance(estimates[0], Estimate):
        return np.zeros(np.size(_values(seen)))
    reach = [max(abs(end - e.value) for part in (e, *e.parts) for end in part.at(1 - ALPHA)) for e in estimates]
    return np.where(np.isfinite(reach), reach, 0.0)


def _agreeing(least: np.ndarray, largest: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Numbers that agree: the middle of two limits; the limit, or so far inside that the interval ends before it."""
    inward = np.where(np.isfinite(least), least + 1.5 * width, largest - 1.5 * width)
    return np.where(np.isfinite(least) & np.isfinite(largest), (least + largest) / 2, inward)


def _past(least: float, largest: float, low: float, high: float) -> float | None:
    """A number just past one of the limits, or None where no number that can be is."""
    beyond = [limit + sign * 1e-6 * (1 + abs(limit)) for limit, sign in ((largest, 1), (least, -1))]
    return next((b for b in beyond if math.isfinite(b) and low <= b <= high), None)


def _borrowed(s: Statement, seen: Mapping[str, Observation]) -> list[str]:
    """A control that is the observation up to a factor and a shift, and a premise that looks at the observation."""
    here, wrong = np.ravel(_values(seen[s.observed_as])).astype(np.float64), []
    for other in (s.rival, s.trivial):
        if not isinstance(other, Control) or here.size < 3 or np.ptp(here) == 0:
            continue
        there = np.ravel(_values(seen[other.name])).astype(np.float64)
        if there.shape == here.shape and np.ptp(there) > 0:
            line = np.polynomial.Polynomial.fit(here, there, 1)
            if np.abs(line(here) - there).max() <= 1e-9 * np.abs(there).max():
                wrong.append(f"{s.name}: its control {other.name!r} is computed from what it is compared with")
    covariates = getattr(seen[s.observed_as], "covariates", {})
    for name, c in covariates.items():
        if s.where is not None and np.size(c) > 1 and np.array_equal(np.ravel(c), here):
            wrong.append(f"{s.name}: its premise may look at {name!r}, which is the observation")
    return wrong


def blind(claim: Claim, key: Any, tables: Sequence[Any] = ()) -> list[str]:
    """What is wrong with a claim: each statement blind, whether what it predicts stays the same when something was
    observed, and for claims that read rows the rows themselves."""
    own = key / claim.id
    settings = settle(claim, own)
    with without_results() as opened:
        statements = predict(claim, settings)
    wrong = [f"{claim.id}: statements read {name}" for name in opened]
    seen = observed(claim, settings, own, tables)
    rng = (own / "blind").numpy()
    wrong += [w for s in statements for w in blind_statement(s, seen, len(statements), rng)]
    before = [_said(s, seen) for s in statements]
    if before != [_said(s, seen) for s in predict(claim, settings)]:
        wrong.append(f"{claim.id}: what it predicts changes once it has observed")
    return wrong + (blind_rows(claim, key, tables) if claim.reads else [])


def _said(s: Statement, seen: Mapping[str, Observation]) -> list[Any]:
    """All numbers and words of a statement, laws on the covariates that were observed."""
    covariates = getattr(seen.get(s.observed_as), "covariates", {})
    out: list[Any] = []
    for f in dataclasses.fields(s):
        v = getattr(s, f.name)
        if isinstance(v, Law):
            v = [sorted(v.constants.items()), np.asarray(v(covariates)).tolist()]
        elif f.name == "where":
            v = None if v is None else np.asarray(v(covariates)).tolist()
        elif f.name in ("value", "upper", "margin", "rival", "trivial") and not isinstance(v, Control | NoneType):
            v = repr(np.asarray(v).tolist())  # nan equals itself only as text
        out.append(v)
    return out


RESULTS = (".json", ".jsonl", ".npz", ".npy", ".csv", ".parquet")
"""Files that hold results: what predicts may not open them."""


@contextlib.contextmanager
def without_results() -> Generator[list[str], None, None]:
    """Inside, files of results are not opened; gives the names of those that were wanted."""
    wanted: list[str] = []
    plain = io.open

    def guarded(file: Any, *args: Any, **kwargs: Any) -> Any:
        if str(file).endswith(RESULTS):
            wanted.append(Path(str(file)).name)
        return plain(file, *args, **kwargs)

    builtins.open = io.open = guarded
    try:
        yield wanted
    finally:
        builtins.open = io.open = plain


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
    top = 5000 + max(t.units())  # backwards, so that the first seed is another one
    rows = [dataclasses.replace(r, **{unit: top - getattr(r, unit)}) for r in t.rows]
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
    """Functions below `root` that a call runs, as "file:qualified name"; caches of the package are emptied before, or
    what one half has computed would not run in the other."""
    ran: dict[int, CodeType] = {}
    for module in [m for name, m in sys.modules.items() if name.split(".")[0] == "featlearn"]:
        for thing in vars(module).values():
            if isinstance(thing, functools._lru_cache_wrapper):  # pyright: ignore[reportPrivateUsage]
                thing.cache_clear()

    def note(frame: Any, event: str, argument: Any) -> None:  # noqa: ARG001
        if event == "call":  # runs at every call there is, so names are made afterwards
            ran[id(frame.f_code)] = frame.f_code

    before = sys.gettrace()
    sys.settrace(note)  # no profile: that would also be told of every call of C
    try:
        call()
    finally:
        sys.settrace(before)
    ours = [code for code in ran.values() if code.co_filename.startswith(str(root))]
    return {f"{Path(code.co_filename).relative_to(root).as_posix()}:{code.co_qualname}" for code in ours}


def apart(
    claim: Claim,
    key: Any,
    tables: Sequence[Any] = (),
    allowed: Sequence[str] = (),
    ran: tuple[set[str], Mapping[str, Observation]] | None = None,
) -> list[str]:
    """Functions that both halves of a claim call outside of `SHARED`, its work's setup.py and the allowed ones.

    ran: what observing has called (`calls_of`) and what came of it, where it was watched already.
    """
    root = Path(inspect.getfile(LabError)).parent
    own = key / claim.id
    settings = settle(claim, own)
    if ran is None:
        found: dict[str, Observation] = {}
        two = calls_of(lambda: found.update(observed(claim, settings, own, tables)), root)
        seen: Mapping[str, Observation] = found
    else:
        two, seen = ran

    def predicting() -> None:
        for s in predict(claim, settings):
            covariates = seen[s.observed_as]
            if isinstance(covariates, Derived):
                for law in (s.value, s.rival, s.trivial, s.where):
                    if callable(law):
                        law(covariates.covariates)

    one = calls_of(predicting, root)
    both = sorted(c for c in one & two if not c.startswith(SHARED) and "/setup.py:" not in c and c not in allowed)
    return [f"{claim.id}: statements and observe both call {c}" for c in both]


__all__ = [
    "Control",
    "apart",
    "blind",
    "blind_rows",
    "blind_statement",
    "calls_of",
    "like",
    "outcomes",
    "without_results",
]
