"""Verdicts on disk: `<root>/verdicts/<work>/<claim id>.json`, without times or names of machines.

When, where and how long is kept apart in `<claim id>.made.json` beside it, which nothing compares.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.errors import DamagedError, LabError, TrialError
from featlearn.lab.claim import (
    Accusation,
    Claim,
    Premise,
    Verdict,
    broken,
    covering,
    faces_of,
    scope_of,
    verdict_of,
)
from featlearn.lab.digest import content_digest, rows_digest, text_digest
from featlearn.lab.experiment import Rows
from featlearn.lab.files import FORMAT, read_json, write_atomic
from featlearn.lab.judge import Finding
from featlearn.lab.provenance import provenance
from featlearn.lab.statement import Control, Statement
from featlearn.lab.store import Store, now
from featlearn.lab.uncertainty import Law

SHOWN = 200
AGAIN = "run `featlearn verify` again or restore it from a copy"


@dataclass(frozen=True, kw_only=True)
class JudgedStatement:
    """A statement and what came of it, as text and numbers.

    value, observed, low, high, rival: the elements `at`, at most SHOWN of them, the worst among them; rival is empty
    without one. domain: what the quantity can be. trivial, rival_says, where: in words, or "". trivial_value: what an
    object that has learnt nothing attains; empty without one, and in older files. margin: a number, or the largest of
    an array. quantifier: how many of the elements must agree, and why not every one. twin: the statement that it
    corrects, or "".
    """

    name: str
    quantity: str
    unit: str
    relation: str
    form: str
    source: str
    axis: str
    where: str
    outcome: str
    expect: str
    why: str
    margin: float
    upper: float | None
    value: tuple[float, ...]
    observed: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    rival: tuple[float, ...]
    rival_says: str
    trivial: str
    domain: tuple[float | None, float | None]
    at: tuple[int, ...]
    kept: int
    of: int
    quantifier: str = "every"
    trivial_value: tuple[float, ...] = ()
    twin: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether the outcome is the one we stand behind."""
        return self.outcome == self.expect


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A verdict as it is kept and shown.

    verdict, corrected: outcomes of the faces as reported and, where there is one, as corrected. premises: (says,
    detail, met: yes, no, not decidable, other size). accuses: quote, place, reading, hits, derivation, or empty.
    code, rows: digests of the claim's code and of the rows it read; reads: the experiments they come from; stale_rows:
    that some of them were made by other code than that of the day. when, seconds, made: from the file beside it.
    """

    id: str
    entries: tuple[str, ...]
    says: str
    verdict: str
    corrected: str
    scope: str
    why: str
    error: str
    as_expected: bool
    covers: bool
    remarks: str
    accuses: Mapping[str, str]
    premises: tuple[tuple[str, str, str], ...]
    statements: tuple[JudgedStatement, ...]
    code: str
    rows: str
    reads: tuple[str, ...] = ()
    stale_rows: bool = False
    when: str = ""
    seconds: float = 0.0
    made: Mapping[str, Any] | None = None

    @property
    def hits(self) -> str:
        """What of the paper it accuses, a name of HITS; "" for nothing."""
        return self.accuses.get("hits", "")


def digest_of(claim: Claim) -> str:
    """Digest of all that a verdict on a claim depends on, but for rows: of its fields by content, with the code and the
    reported numbers that they reach. Not of words for people, and not of pictures."""
    c = claim
    return content_digest(c.statements, c.observe, c.settings, c.premises, c.entries, c.reads, c.may_lack, c.accuses)


def experiment_of(kind: type) -> str:
    """The experiment that writes a row type."""
    return str(kind.experiment)  # pyright: ignore[reportAttributeAccessIssue]


def judged(verdict: Verdict, rows: str = "", stale_rows: bool = False) -> Judged:
    """A verdict as it is kept. On rows of other code it covers nothing."""
    c = verdict.claim
    return Judged(
        id=c.id,
        entries=c.entries,
        says=c.says,
        verdict=verdict.reported,
        corrected=verdict.corrected,
        scope=verdict.scope,
        why=verdict.why,
        error=verdict.error,
        as_expected=verdict.as_expected,
        covers=verdict.covers and not stale_rows,
        remarks=c.remarks,
        accuses=asdict(c.accuses) if isinstance(c.accuses, Accusation) else {},
        premises=tuple((p.says, p.detail, _met(p.met, p.size)) for p in verdict.premises),
        statements=tuple(map(_statement, verdict.findings)),
        code=digest_of(c),
        rows=rows,
        reads=tuple(dict.fromkeys(experiment_of(kind) for kind in c.reads)),
        stale_rows=stale_rows,
        seconds=verdict.seconds,
    )


def _met(met: bool | None, size: bool) -> str:
    return "not decidable" if met is None else "yes" if met else "other size" if size else "no"


def _statement(f: Finding) -> JudgedStatement:
    s = f.statement
    at = _shown(f)
    least, largest = (None if not math.isfinite(e) else e for e in (s.quantity.low, s.quantity.high))
    trivial = s.trivial_says or (s.trivial.name if isinstance(s.trivial, Control) else "")
    return JudgedStatement(
        name=s.name,
        quantity=s.quantity.name,
        unit=s.quantity.unit,
        relation=s.relation,
        form=s.form,
        source=s.source,
        axis=s.axis,
        where=s.where_says,
        outcome=f.outcome,
        expect=s.expect,
        why=f.why,
        margin=float(np.max(s.margin)),
        upper=s.upper if math.isfinite(s.upper) else None,
        value=_numbers(f.value[at]),
        observed=_numbers(f.observed[at]),
        low=_ends(f.low[at]),
        high=_ends(f.high[at]),
        rival=() if f.rival is None else _numbers(f.rival[at]),
        rival_says=s.rival_says + (f" ({_law(s.rival)})" if isinstance(s.rival, Law) else ""),
        trivial=trivial if s.trivial is not None else "",
        domain=(least, largest),
        at=tuple(int(i) for i in at),
        kept=f.kept,
        of=f.of,
        quantifier=_quantifier(s),
        trivial_value=() if f.trivial is None or not np.isfinite(f.trivial).all() else _numbers(f.trivial[at]),
        twin=s.twin,
    )


def _quantifier(s: Statement) -> str:
    if s.quantifier == "every":
        return "every"
    share = f" of {s.share:g}" if s.quantifier == "share" else ""
    return f"{s.quantifier}{share}: {s.quantifier_says}"


def _law(law: Law) -> str:
    return ", ".join(f"{k} = {v:.4g}" for k, v in law.constants.items())


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{v:.12g}") for v in values)


def _ends(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(f"{v:.12g}") if math.isfinite(v) else None for v in values)


def _shown(f: Finding) -> np.ndarray:
    """Positions that are kept: all, or an even choice with the element that lies worst."""
    n = f.observed.size
    if n <= SHOWN:
        return np.arange(n)
    least, largest = f.statement.limits(f.value)
    over = np.maximum(np.where(np.isfinite(least), least - f.observed, -np.inf), f.observed - largest)
    return np.unique(np.append(np.linspace(0, n - 1, SHOWN - 1).astype(int), int(np.argmax(over))))


def path_of(root: Path, claim: str) -> Path:
    """File of a claim's verdict."""
    work, _, slug = claim.partition(".")
    if not slug or not all(c.isalnum() or c in "._-" for c in claim):
        raise TrialError(
            f"claim id = {claim!r} is not allowed: <work>.<slug> of letters, digits, '.', '-', '_'; rename"
        )
    return root / "verdicts" / work / f"{claim}.json"


def write(store: Store, verdict: Judged) -> Path:
    """Write a verdict and, beside it, when, where and in how many seconds it was made; its path."""
    path = path_of(store.root, verdict.id)
    beside = {"format": FORMAT, "when": now(), "seconds": verdict.seconds, "made": provenance()}
    write_atomic(path.with_suffix(".made.json"), json.dumps(beside, indent=1).encode())
    write_atomic(path, file_of(verdict))
    return path


def file_of(verdict: Judged) -> bytes:
    """The file of a verdict, sealed: any change of it shows."""
    apart = ("when", "seconds", "made")
    kept = {f.name: getattr(verdict, f.name) for f in fields(verdict) if f.name not in apart}
    kept["statements"] = [asdict(s) for s in verdict.statements]
    kept = json.loads(json.dumps({"format": FORMAT, **kept}, allow_nan=False, default=dict))
    return json.dumps({**kept, "seal": seal_of(kept)}, indent=1).encode()


def seal_of(data: Mapping[str, Any]) -> str:
    """Digest of all fields of a verdict's file but its seal."""
    return text_digest(json.dumps({k: v for k, v in data.items() if k != "seal"}, sort_keys=True))


def wrong(kept: Judged) -> str:
    """What a verdict says of itself that its statements and premises do not give; "" where all agrees."""
    parts: Any = [(s.name, s.form, s.twin, s.outcome) for s in kept.statements]
    found = faces_of(parts) if parts else (kept.verdict if kept.verdict in UNJUDGED else "", "")
    met = {"yes": True, "not decidable": None, "no": False, "other size": False}
    scope = scope_of([Premise(a, met[b], size=b == "other size") for a, _, b in kept.premises])
    as_expected = bool(parts) and not kept.error and all(s.as_expected for s in kept.statements)
    covers = not kept.error and not kept.stale_rows and covering(found[0], scope, parts)
    given = {"verdict": found[0], "corrected": found[1], "scope": scope, "as_expected": as_expected, "covers": covers}
    return ", ".join(name for name, value in given.items() if getattr(kept, name) != value)


UNJUDGED = ("not run", "data needed")


def read(store: Store, claim: str) -> Judged | None:
    """The last verdict of the nearest layer that has one; None if there is none. Errors: DamagedError, also for one
    that was changed after it was judged."""
    for root in (store.root, *store.below):
        path = path_of(root, claim)
        if path.exists():
            data = read_json(path, AGAIN)
            beside = path.with_suffix(".made.json")
            more = read_json(beside, AGAIN) if beside.exists() else {}
            try:
                found = built({**data, **{k: more[k] for k in ("when", "seconds", "made") if k in more}})
                seal = data.get("seal")
                bad = wrong(found) if seal == seal_of(data) else "it was changed" if seal else "it has no seal"
            except (AttributeError, TypeError, KeyError, ValueError) as e:
                raise DamagedError(f"{path} is damaged ({type(e).__name__}): {AGAIN}") from e
            if bad or found.id != claim:
                raise DamagedError(f"{path} is damaged ({bad or f'it is of {found.id[:40]}'}): {AGAIN}")
            return found
    return None


def built(data: Mapping[str, Any]) -> Judged:
    """The verdict in the object of a file, not checked. Errors: TypeError, KeyError, ValueError."""
    known = {f.name for f in fields(Judged)}
    values = {k: v for k, v in data.items() if k in known}
    parts: list[dict[str, Any]] = [
        {k: tuple(v) if isinstance(v, list) else v for k, v in s.items()} for s in data["statements"]
    ]
    values["statements"] = tuple(JudgedStatement(**part) for part in parts)
    values["entries"] = tuple(data["entries"])
    values["reads"] = tuple(str(r) for r in data.get("reads", ()))
    values["premises"] = tuple((str(a), str(b), str(c)) for a, b, c in data["premises"])
    return Judged(**values)


Tables = Callable[[str], Rows | None]


def check(claim: Claim, key: Any, tables: Tables) -> Judged:
    """Judge a claim on the rows of the experiments it reads; `not run` where one of them has no rows.

    tables: experiment id -> its rows, or None. Errors: LabError where rows or statements cannot be judged.
    """
    read_rows, other_code = [], False
    for kind in claim.reads:
        rows = tables(experiment_of(kind))
        if rows is None or not rows.rows:
            return judged(broken(claim, "not run", f"featlearn run {experiment_of(kind)} --preset paper"))
        read_rows.append(rows.of(kind, allow_absent=bool(claim.may_lack)))
        other_code = other_code or bool(rows.other_code)
    verdict = verdict_of(claim, key, read_rows)
    digest = rows_digest(r for t in read_rows for r in t.rows) if read_rows else ""
    return judged(verdict, digest, other_code)


def rows_of(claim: Claim, tables: Tables) -> str | None:
    """The digest of the rows that a claim reads now; None where some are not there, "" where they cannot be read."""
    found = [(tables(experiment_of(kind)), kind) for kind in claim.reads]
    if not found or any(rows is None for rows, _ in found):
        return None
    try:
        read_rows = [rows.of(kind, allow_absent=bool(claim.may_lack)) for rows, kind in found if rows is not None]
    except LabError:
        return ""
    return rows_digest(r for table in read_rows for r in table.rows)


def stale(kept: Judged, claim: Claim, tables: Tables) -> str:
    """Why a verdict does not stand for the claim and the rows as they are now: "code", "rows" (they changed), "stale
    rows" (other code made them, as was known when it was judged); "" where it does."""
    if kept.code != digest_of(claim):
        return "code"
    if kept.stale_rows:
        return "stale rows"
    rows = rows_of(claim, tables) if kept.rows else None
    return "rows" if rows is not None and kept.rows != rows else ""


def expected(verdict: Judged) -> str:
    """What every statement is expected to come to, in words: "as expected", or the statements that differ."""
    if verdict.error:
        return "the check broke"
    different = [s.name for s in verdict.statements if not s.as_expected]
    return "as expected" if verdict.as_expected else f"not as expected: {', '.join(different) or verdict.verdict}"


def as_json(verdict: Judged) -> dict[str, Any]:
    """The document that `featlearn verify --json` prints for one claim."""
    return {
        "id": verdict.id,
        "entries": list(verdict.entries),
        "verdict": verdict.verdict,
        "scope": verdict.scope,
        "corrected": verdict.corrected,
        "expected": verdict.as_expected,
        "why": verdict.why,
        "seconds": round(verdict.seconds, 3),
        "error": verdict.error,
        "stale": "stale rows" if verdict.stale_rows else "",
        "statements": [_shown_json(s) for s in verdict.statements],
    }


def _shown_json(s: JudgedStatement) -> dict[str, Any]:
    names = ("name", "quantity", "relation", "form", "source", "margin", "outcome", "expect", "why")
    out: dict[str, Any] = {n: getattr(s, n) for n in names}
    out |= {n: _one(getattr(s, n)) for n in ("value", "observed", "low", "high")}
    out |= {"rival": _one(s.rival) if s.rival else None, "rival_says": s.rival_says, "trivial": s.trivial or None}
    return {**out, "domain": list(s.domain)}


def _one(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else list(values)


__all__ = [
    "Judged",
    "JudgedStatement",
    "LabError",
    "as_json",
    "check",
    "digest_of",
    "expected",
    "judged",
    "path_of",
    "read",
    "rows_of",
    "stale",
    "write",
]
