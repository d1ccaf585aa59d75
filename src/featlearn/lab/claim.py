"""Claim: what a source says as statements that can fail, how they are observed, and the verdict on them.

What is predicted (`statements`) and what is measured (`observe`) are apart: the first sees settings and never a row or
a measurement, the second returns what was measured, by name, and the judge pairs the two.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Literal

import numpy as np

from featlearn.errors import BadStatement, MissingUnit
from featlearn.lab.judge import Finding, judge, worst
from featlearn.lab.row import Row
from featlearn.lab.statement import Outcome, Statement
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, Waits

Scope = Literal["premise unmet", "premise not decidable", "other size", "as stated"]
SCOPES: tuple[Scope, ...] = ("premise unmet", "premise not decidable", "other size", "as stated")
"""From the worst to the best."""

HITS: Mapping[str, str] = {
    "statement": "Contradicts the statement as reported",
    "proof": "Contradicts a step of the proof, not the statement",
    "number": "Contradicts a reported number, not the statement",
    "remark": "Contradicts a remark in the text, not a statement",
    "misprint": "A misprint: contradicts a formula as it stands, not what is meant",
}
"""What of a paper an accusation hits, and the words for it on pages."""


@dataclass(frozen=True)
class Premise:
    """A condition of the source at the settings used. met: None where it cannot be decided (a constant that is not
    given). size: it concerns the size of a reported table or figure, so that failing it is another size, no breach."""

    says: str
    met: bool | None
    detail: str = ""
    size: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.met, bool | np.bool_ | NoneType):
            raise BadStatement(f"premise {self.says!r}: met = {self.met!r} is not allowed: True, False or None")


@dataclass(frozen=True, kw_only=True)
class Accusation:
    """Why a sentence of a source is wrong: quotation, place, the reading taken, what it hits (see HITS), and how the
    contradiction is derived without the code that it judges."""

    quote: str
    place: str
    reading: str
    hits: str
    derivation: str

    def __post_init__(self) -> None:
        if self.hits not in HITS:
            raise BadStatement(f"hits = {self.hits!r} is not allowed: one of {', '.join(HITS)}")
        for name in ("quote", "place", "reading", "derivation"):
            if not getattr(self, name):
                raise BadStatement(f"an accusation without {name} is not allowed: quote, place, reading, derivation")


Settings = Any


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a source says, as something that can fail.

    id: "<work>.<slug>"; entries: the inventory ids it is about; says: the source's sentence in our words, with its
    formula. settings: what it is evaluated on, or a function of a key that draws it. statements(settings): what is
    predicted. observe(settings, key), or observe(settings, *tables) for a claim that `reads` row types: what was
    measured, by name. premises(settings, *tables): the source's conditions there. may_lack: that planned trials of the
    experiment, a twentieth of them at most, may be absent, and why. accuses: what of the source is wrong. remarks: a
    sentence for people. draw(): pictures by entry of what it says, made without any measurement.
    """

    id: str
    entries: tuple[str, ...]
    says: str
    statements: Callable[[Settings], Sequence[Statement]]
    observe: Callable[..., Mapping[str, Observation]]
    settings: Any = None
    premises: Callable[..., Sequence[Premise]] | tuple[Premise, ...] = ()
    reads: tuple[type, ...] = ()
    may_lack: str = ""
    accuses: Accusation | None = None
    remarks: str = ""
    draw: Callable[[], Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim, judged.

    reported, corrected: outcomes of the two faces (corrected "" where there is no corrected form); scope; findings, one
    a statement; why, for a claim without findings (not run, data needed, the exception that broke it).
    """

    claim: Claim
    reported: Outcome
    corrected: Outcome | Literal[""]
    scope: Scope
    findings: tuple[Finding, ...] = ()
    premises: tuple[Premise, ...] = ()
    why: str = ""
    error: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def as_expected(self) -> bool:
        """Whether every statement has the outcome that we stand behind."""
        return bool(self.findings) and not self.error and all(f.as_expected for f in self.findings)

    @property
    def covers(self) -> bool:
        """Whether it covers its entries."""
        return not self.error and covering(self.reported, self.scope, [_part(f) for f in self.findings])


def scope_of(premises: Sequence[Premise]) -> Scope:
    """The scope that some premises leave: the worst of them.

    Example:
        >>> scope_of([Premise("d >= 10", True), Premise("p as in the table", False, size=True)])
        'other size'
    """
    found: list[Scope] = ["as stated"]
    for p in premises:
        if p.met is None:
            found.append("premise not decidable")
        elif not p.met:
            found.append("other size" if p.size else "premise unmet")
    return min(found, key=SCOPES.index)


Part = tuple[str, str, str, Outcome]
"""Of a statement that was judged: its name, form, twin and outcome."""


def _part(f: Finding) -> Part:
    return f.statement.name, f.statement.form, f.statement.twin, f.outcome


def covering(reported: str, scope: str, parts: Sequence[Part]) -> bool:
    """Whether a verdict covers its entries: no premise is known to be unmet, a statement of the source (not only a
    derived one, or an audit of its numbers) could have failed, and the outcome is one."""
    decided = ("confirmed", "contradicted")
    tested = any(outcome in decided and form not in ("derived", "audit") for _, form, _, outcome in parts)
    return reported in decided and scope != "premise unmet" and tested


def faces(findings: Sequence[Finding]) -> tuple[Outcome, Outcome | Literal[""]]:
    """The two faces of a verdict, see `faces_of`."""
    return faces_of([_part(f) for f in findings])


def faces_of(parts: Sequence[Part]) -> tuple[Outcome, Outcome | Literal[""]]:
    """As reported: the worst of all statements but the corrected ones. As corrected, where there is a corrected form:
    the worst of all but those it replaces."""
    reported: list[Outcome] = [outcome for _, form, _, outcome in parts if form != "corrected"]
    replaced = {twin for _, form, twin, _ in parts if form == "corrected"}
    corrected: list[Outcome] = [outcome for name, _, _, outcome in parts if name not in replaced] if replaced else []
    return worst(reported or [p[3] for p in parts]), worst(corrected) if corrected else ""


def settle(claim: Claim, key: Any) -> Settings:
    """The settings of a claim: as listed, or drawn with its own key. Errors: BadStatement where they hold what was
    measured."""
    found = claim.settings(key / "settings") if callable(claim.settings) else claim.settings
    _refuse_measured(claim.id, "settings", found)
    return found


def _refuse_measured(claim: str, what: str, thing: Any, depth: int = 4) -> None:
    """Errors: BadStatement for rows, tables and observations in what statements are made of."""
    if isinstance(thing, Row | Table | Estimate | Waits | Derived):
        raise BadStatement(f"{claim}: {what} hold a {type(thing).__name__}: predictions are made without measurements")
    if depth == 0 or isinstance(thing, str | bytes | type):
        return
    inner: list[Any] = []
    if isinstance(thing, Mapping):
        inner = list(thing.values())
    elif isinstance(thing, Sequence | AbstractSet):
        inner = list(thing)
    elif is_dataclass(thing):
        inner = [getattr(thing, f.name) for f in fields(thing)]
    elif isinstance(thing, partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, MethodType):
        inner = [thing.__self__, thing.__func__]
    elif isinstance(thing, FunctionType):
        names = thing.__code__.co_names
        inner = [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        inner += [c.cell_contents for c in thing.__closure__ or ()]
        named = [thing.__globals__.get(n) for n in names]
        inner += [g for g in named if not isinstance(g, FunctionType | ModuleType | type)]
    for one in inner:
        _refuse_measured(claim, what, one, depth - 1)


def predict(claim: Claim, settings: Settings) -> tuple[Statement, ...]:
    """Its statements. Errors: BadStatement for none, for two of one name, for a function that holds measurements."""
    _refuse_measured(claim.id, "statements", claim.statements)
    found = tuple(claim.statements(settings))
    names = [s.name for s in found]
    if not found or len(set(names)) < len(names):
        raise BadStatement(
            f"{claim.id}: {'no statement' if not found else 'two statements of one name'} is not allowed"
        )
    for s in found:
        for part in (s.value, s.rival, s.trivial, s.where):
            _refuse_measured(claim.id, f"laws of {s.name!r}", part.function if isinstance(part, Law) else part)
        if s.form == "corrected" and s.twin not in names:
            raise BadStatement(f"{claim.id}: {s.name!r} corrects {s.twin!r}, which is no statement of the claim")
    # a threshold of ours that is not met accuses nobody; verdict_of asks for another size, or a premise that is unmet
    accused = [s.name for s in found if s.expect == "contradicted" and s.form != "criterion"]
    if accused and claim.accuses is None:
        raise BadStatement(f"{claim.id}: {accused[0]!r} is expected to be contradicted, so give `accuses`")
    return found


def observed(claim: Claim, settings: Settings, key: Any, tables: Sequence[Any] = ()) -> Mapping[str, Observation]:
    """What was measured, by name."""
    return claim.observe(settings, *tables) if claim.reads else claim.observe(settings, key / "observe")


MAY_LACK = 0.05
"""Of the planned trials, where a claim names why some are absent."""


def _refuse_absent(claim: Claim, table: Any) -> None:
    """Errors: MissingUnit for planned trials without rows that the claim does not name, or for too many."""
    lost = len(getattr(table, "absent", ()))
    if lost and (not claim.may_lack or lost > MAY_LACK * (lost + table.trials)):
        raise MissingUnit(
            f"{claim.id}: {lost} planned trials have no rows beside {table.trials} that have; run the experiment again"
        )


def verdict_of(claim: Claim, key: Any, tables: Sequence[Any] = ()) -> Verdict:
    """Judge a claim with its own child of `key`, on the tables of the row types that it reads.

    Errors: LabError for rows or statements that cannot be judged; whatever `observe` raises.
    """
    for table in tables:
        _refuse_absent(claim, table)
    own = key / claim.id
    settings = settle(claim, own)
    statements = predict(claim, settings)
    seen = observed(claim, settings, own, tables)
    findings = tuple(judge(s, seen, len(statements)) for s in statements)
    premises = claim.premises if isinstance(claim.premises, tuple) else tuple(claim.premises(settings, *tables))
    reported, corrected = faces(findings)
    if reported == "contradicted" and claim.accuses is None and scope_of(premises) == "as stated":
        said = [s.name for s in statements if s.expect == "contradicted"]
        if said:
            raise BadStatement(f"{claim.id}: {said[0]!r} contradicts its source at the reported size: give `accuses`")
    return Verdict(
        claim=claim,
        reported=reported,
        corrected=corrected,
        scope=scope_of(premises),
        findings=findings,
        premises=tuple(premises),
        why="; ".join(f"{f.statement.name}: {f.why}" for f in findings if f.outcome == reported)[:400],
    )


def broken(claim: Claim, outcome: Outcome, why: str, error: str = "") -> Verdict:
    """The verdict on a claim that could not be judged: not run, data needed, or its check broke."""
    return Verdict(claim=claim, reported=outcome, corrected="", scope="as stated", why=why, error=error)
