"""Blind tests of claims: what is planted in place of the observation must be told apart.

Each returns what is wrong, one line each, so a test asserts that nothing is. Statements of numbers are judged on
planted numbers and `observe` runs once; a claim that reads rows is observed again on rows that were changed.
"""

import contextlib
import dataclasses
import functools
import inspect
import math
import os
import site
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, NoneType
from typing import Any

import numpy as np

from featlearn.errors import LabError, MissingUnit, NotFinite
from featlearn.lab.claim import Claim, observed, predict, settle, verdict_of
from featlearn.lab.judge import ALPHA, judge, kept_of
from featlearn.lab.row import columns
from featlearn.lab.statement import Control, Statement
from featlearn.lab.table import VALIDATION, Table
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, Waits

PUSHES = 20
MANY = 12
"""Numbers of which no honest second ones stand in the same order."""
AGAIN = 2
"""How often a claim with a control is observed again, with other keys."""


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


def blind_statement(
    s: Statement,
    seen: Mapping[str, Observation],
    m: int,
    rng: np.random.Generator,
    again: Sequence[Mapping[str, Observation]] = (),
) -> list[str]:
    """What is wrong with one statement that is expected to be decided.

    Planted: what it predicts (confirmed), its rival (not confirmed), the ends of its domain (one of them not
    confirmed), nan in one element (refused), and single elements past their limit, the worst and 20 drawn (not
    confirmed). Looked for: a control that is made from the observation, also in what was observed `again` with other
    keys, and a covariate that is.
    """
    real = judge(s, seen, m)
    observation, wrong = seen[s.observed_as], _borrowed(s, [seen, *again])
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

    q = real.statement.quantity
    counts = q.whole and not isinstance(observation, Estimate | Sequence)
    good = np.clip(_agreeing(least, largest, width), q.low, q.high)
    good = np.where(np.floor(good) >= least, np.floor(good), np.ceil(good)) if counts else good
    sound = outcome(good) == "confirmed"
    if not sound and "confirmed" in (s.expect, real.outcome):
        wrong.append(f"{s.name}: what it predicts is not confirmed (too little power)")
    if real.rival is not None and outcome(real.rival) == "confirmed":
        wrong.append(f"{s.name}: its rival is confirmed")
    far = 1e6 * (1 + float(np.abs(real.value).max()))
    ends = [e if math.isfinite(e) else math.copysign(round(far), e) for e in (q.low, q.high)]
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
            past = _past(float(least[i]), float(largest[i]), q.low, q.high, counts)
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
    around = [[(e.value, part) for part in (e, *e.parts)] + [(arm.value, arm) for arm in e.arms] for e in estimates]
    reach = [max(abs(end - middle) for middle, part in parts for end in part.at(1 - ALPHA)) for parts in around]
    return np.where(np.isfinite(reach), reach, 0.0)


def _agreeing(least: np.ndarray, largest: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Numbers that agree: the middle of two limits; the limit, or so far inside that the interval ends before it."""
    inward = np.where(np.isfinite(least), least + 1.5 * width, largest - 1.5 * width)
    return np.where(np.isfinite(least) & np.isfinite(largest), (least + largest) / 2, inward)


def _past(least: float, largest: float, low: float, high: float, counts: bool) -> float | None:
    """A number just past one of the limits, a whole one where it counts; None where no number that can be is."""
    beyond = [limit + sign * 1e-6 * (1 + abs(limit)) for limit, sign in ((largest, 1), (least, -1))]
    if counts:
        beyond = [float(f(b)) if math.isfinite(b) else b for f, b in zip((math.ceil, math.floor), beyond, strict=True)]
    return next((b for b in beyond if math.isfinite(b) and low <= b <= high), None)


def _borrowed(s: Statement, runs: Sequence[Mapping[str, Observation]]) -> list[str]:
    """A control that is a function of the observation, and a covariate that is: alike in all runs."""
    wrong: list[str] = []
    for other in (s.rival, s.trivial):
        if isinstance(other, Control):
            pairs = [(_values(seen[s.observed_as]), _values(seen[other.name])) for seen in runs]
            if _made_from(pairs):
                wrong.append(f"{s.name}: its control {other.name!r} is computed from what it is compared with")
    here = np.ravel(_values(runs[0][s.observed_as]))
    for name, c in getattr(runs[0][s.observed_as], "covariates", {}).items():
        there = np.ravel(c)
        if there.size < 2 or there.shape != here.shape:
            continue
        # a law of a covariate may say that the two are on a line, and a premise on it what sorts them
        chosen = s.where is not None and not isinstance(s.value, Law) and _made_from([(here, there)])
        if chosen or np.allclose(here, there, rtol=1e-6, atol=0):
            wrong.append(f"{s.name}: it may look at {name!r}, which is the observation")
    return wrong


def _made_from(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether the second numbers are the first up to a factor and a shift, or, of many, in their order or its reverse.

    Fewer than three different numbers tell nothing.
    """
    pairs = [(np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64)) for a, b in pairs if a.size == b.size]
    if not pairs:
        return False
    here, there = np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
    different, first = np.unique(here, return_index=True)
    if different.size < 3 or np.ptp(there) == 0:
        return False
    line = np.polynomial.Polynomial.fit(here, there, 1)
    if np.abs(line(here) - there).max() <= 1e-9 * np.abs(there).max():
        return True
    steps = np.sign(np.diff(there[first]))
    return different.size >= MANY and abs(int(steps.sum())) == steps.size


def blind(claim: Claim, key: Any, tables: Sequence[Any] = ()) -> list[str]:
    """What is wrong with a claim: each statement blind, whether what it predicts stays the same when something was
    observed, and for claims that read rows the rows themselves."""
    own = key / claim.id
    with without_results() as opened:
        settings = settle(claim, own)
        statements = predict(claim, settings)
    wrong = [f"{claim.id}: statements read {name}" for name in opened]
    seen = observed(claim, settings, own, tables)
    controls = [s for s in statements if isinstance(s.rival, Control) or isinstance(s.trivial, Control)]
    more = AGAIN if not claim.reads and any(_values(seen[s.observed_as]).size < MANY for s in controls) else 0
    again = [observed(claim, settings, key / f"blind {i + 1}" / claim.id) for i in range(more)]
    rng = (own / "blind").numpy()
    wrong += [w for s in statements for w in blind_statement(s, seen, len(statements), rng, again)]
    before = [_said(s, seen) for s in statements]
    if before != [_said(s, seen) for s in predict(claim, settings)]:
        wrong.append(f"{claim.id}: what it predicts changes once it has observed")
    return wrong + (_too_many(claim.id, seen, tables) + blind_rows(claim, key, tables) if claim.reads else [])


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


CODE = (".py", ".pyc", ".so", ".toml")
"""Files of ours that what predicts may open: code, and what a work says of its papers."""
READS = ("open", "sqlite3.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
"""Ways to what stands outside of the process."""
_wanted: ContextVar[list[str] | None] = ContextVar("wanted", default=None)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook, which stays for good: it notes what is opened while some one listens."""
    wanted = _wanted.get()
    if wanted is None or event not in READS:
        return
    if event == "open":
        name, _, flags = args
        flags = flags if isinstance(flags, int) else 0
        writes = flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY or flags & (os.O_EXCL | os.O_TRUNC)
        if isinstance(name, int) or writes or _is_code(os.fsdecode(name)):
            return
        wanted.append(os.path.basename(os.fsdecode(name)))
    else:
        wanted.append(event)


sys.addaudithook(_heard)


def _is_code(name: str) -> bool:
    """Whether a file is code, or belongs to Python or to a library."""
    path = os.path.realpath(name)
    ours = path.startswith(str(Path(inspect.getfile(LabError)).resolve().parent))
    libraries = tuple(map(os.path.realpath, {sys.prefix, sys.base_prefix, *site.getsitepackages()}))
    return path.endswith(CODE) or (not ours and path.startswith((*libraries, "/proc/", "/sys/", "/dev/")))


@contextlib.contextmanager
def without_results() -> Generator[list[str], None, None]:
    """Inside, reading is heard of: gives the names of files that are neither code nor of a library, however they were
    opened."""
    wanted: list[str] = []
    token = _wanted.set(wanted)
    try:
        yield wanted
    finally:
        _wanted.reset(token)


def outcomes(claim: Claim, key: Any, tables: Sequence[Any]) -> list[tuple[str, str]]:
    """(statement, outcome) of a claim on some tables."""
    return [(f.statement.name, f.outcome) for f in verdict_of(claim, key, tables).findings]


def blind_rows(claim: Claim, key: Any, tables: Sequence[Table[Any]]) -> list[str]:
    """Renaming units alike and reversing rows change nothing; a planned trial without rows is refused."""
    before, wrong = outcomes(claim, key, tables), []
    backwards = [_again(t, reversed(t.rows)) for t in tables]
    if outcomes(claim, key, backwards) != before:
        wrong.append(f"{claim.id}: the order of its rows changes an outcome")
    renamed = [_renamed(t) for t in tables]
    if outcomes(claim, key, renamed) != before:
        wrong.append(f"{claim.id}: renaming units changes an outcome")
    whole: Sequence[Table[Any]] = () if claim.may_lack else tables
    for t in whole:
        rest = [r for r in t.rows if getattr(r, t.kind.unit) != t.units()[-1]] or t.rows
        lacking = Table.of(t.kind, rest, absent=("a trial",), allow_absent=True, trials=len(t.rows))
        try:
            verdict_of(claim, key, [lacking if other is t else other for other in tables])
            wrong.append(f"{claim.id}: {t.kind.__name__} without a planned trial is accepted")
        except MissingUnit:
            pass
    return wrong


def _too_many(claim: str, found: Mapping[str, Observation], tables: Sequence[Table[Any]]) -> list[str]:
    """Estimates that count more units than there are (of a slope: at each of its levels), and more than trials."""
    wrong: list[str] = []
    units, trials = max(len(t.units()) for t in tables), max(t.trials for t in tables)
    for name, seen in found.items():
        for e in seen if isinstance(seen, Sequence) else (seen,):
            if isinstance(e, Estimate) and e.n > max(trials, units * (len(e.parts) + 1)):
                wrong.append(f"{claim}: {name} is estimated from {e.n} values called {e.unit}, of {units} units")
                break
    return wrong


def _renamed(t: Table[Any]) -> Table[Any]:
    """Units renamed backwards among those of one role: reported seeds, validation seeds."""
    unit = t.kind.unit
    if columns(t.kind)[unit].type is not int:
        return t
    roles: dict[int, list[int]] = {}
    for u in t.units():
        roles.setdefault(u // VALIDATION, []).append(u)
    other = {u: v for us in roles.values() for u, v in zip(us, reversed(us), strict=True)}
    rows = [dataclasses.replace(r, **{unit: other[getattr(r, unit)]}) for r in t.rows]
    return _again(t, rows)


def _again(t: Table[Any], rows: Iterable[Any]) -> Table[Any]:
    return Table.of(t.kind, rows, absent=t.absent, allow_absent=True, trials=t.trials)


# --- apart -----------------------------------------------------------------------------------------------------------

SHARED = ("core/", "lab/", "errors.py")
"""What both halves may call: nouns, and the words in which both are written."""
MEASURES = ("measure/", "learn/", "kernels/", "methods/", "apply/")
"""Rooms that measure. Settings draw tasks and networks, by functions that observing may call too, but for these."""


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
    """Functions that both halves of a claim call outside of `SHARED`, its work's setup.py and the allowed ones, and of
    `MEASURES` those that both its settings and `observe` call.

    ran: what observing has called (`calls_of`) and what came of it, where it was watched already.
    """
    root = Path(inspect.getfile(LabError)).parent
    own = key / claim.id
    drawn: list[Any] = []
    draws = calls_of(lambda: drawn.append(settle(claim, own)), root)
    settings = drawn[0]
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

    one = calls_of(predicting, root) | {c for c in draws if c.startswith(MEASURES)}
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
