"""Claim: an equality, inequality or scaling law that can fail, and the verdict on it.

Every claim is a list of cases. A case sets a prediction (the formula) beside an observation (what was measured) and a
rival (the nearest wrong answer). A claim holds only if every observation agrees with its prediction *and* disagrees
with its rival: a tolerance that cannot tell the two apart establishes nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.lab.experiment import Rows

RENAMED: Mapping[str, str] = {"nuclear.stable_rank_reported": "nuclear.stable_rank_printed"}
"""Claims whose random numbers keep the path of their former id, so that their numbers stay."""
Tables = Callable[[str], Rows | None]
VERDICTS = ("holds", "refuted", "vacuous", "assumptions unmet", "not established", "data needed", "not run")
RELATIONS = ("equal", "at most", "at least")
HITS: Mapping[str, str] = {
    "statement": "Contradicts the statement as reported",
    "proof": "Contradicts a step of the proof, not the statement",
    "number": "Contradicts a reported number, not the statement",
    "remark": "Contradicts a remark in the text, not a statement",
    "": "Contradicts nothing in the paper",
}
"""What of a paper an accusation hits, and the words for it on pages."""


@dataclass(frozen=True)
class Assumption:
    """A premise of the statement at the sizes used: e.g. Assumption("k >= log^2(D/delta)", False, "5 < 68.8")."""

    says: str
    met: bool
    detail: str = ""


@dataclass(frozen=True)
class Case:
    """One comparison.

    predict, observe, rival: floats or arrays of one shape (rival None only for a case that is itself a rival check or
    where `vacuous` is given). relation: how observe must stand to predict ("equal", "at most", "at least").
    tolerance: absolute, float or array. rival_says: what is wrong about the rival.
    The rival is rejected if `observe` violates the same relation to it somewhere.
    vacuous: for a bound that holds but cannot bite here: the size at which it would, e.g. "m >= 7.7e9"; else "".
    """

    name: str
    predict: Any
    observe: Any
    rival: Any = None
    relation: str = "equal"
    tolerance: Any = 0.0
    rival_says: str = ""
    vacuous: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"relation = {self.relation!r} is not allowed: one of {RELATIONS}")

    def agrees(self, with_: Any) -> bool:
        """Whether `observe` stands in the relation to `with_`, up to the tolerance, in every element."""
        observe, other, tol = (np.asarray(v, dtype=np.float64) for v in (self.observe, with_, self.tolerance))
        if not np.all(np.isfinite(observe)):
            return False
        if self.relation == "equal":
            return bool(np.all(np.abs(observe - other) <= tol))
        if self.relation == "at most":
            return bool(np.all(observe <= other + tol))
        return bool(np.all(observe >= other - tol))

    @property
    def ok(self) -> bool:
        return self.agrees(self.predict)

    @property
    def rival_rejected(self) -> bool:
        return self.rival is None or not self.agrees(self.rival)


@dataclass(frozen=True)
class Evidence:
    """What a check returns: cases, premises evaluated at the sizes used, and a sentence for people.

    data: arrays for the picture, by name. reported: what the paper says where it is wrong, else "".
    data_needed / not_run: the command that would bring what is missing (then there may be no cases).
    """

    cases: Sequence[Case] = ()
    assumptions: Sequence[Assumption] = ()
    comment: str = ""
    data: Mapping[str, np.ndarray] | None = None
    data_needed: str = ""
    not_run: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper as something that can fail.

    id: "<work>.<slug>"; entries: the inventory ids it covers; says: the statement in our words, with its formula;
    check(key, tables) -> Evidence, where tables(experiment id) gives the Rows of that experiment's best committed or
    local rows, or None if it was never run (claims never train themselves); expected: the verdict we stand behind;
    reported: what the paper says where it is wrong and what is right instead; draw(evidence) -> Figure, or None for
    the standard picture of its cases.
    """

    id: str
    entries: tuple[str, ...]
    says: str
    check: Callable[[Any, Callable[[str], Any]], Evidence]
    expected: str = "holds"
    reported: str = ""
    hits: str = ""
    draw: Callable[[Evidence], Any] | None = None

    def __post_init__(self) -> None:
        if self.expected not in VERDICTS:
            raise ValueError(f"expected = {self.expected!r} is not allowed: one of {VERDICTS}")
        if self.hits not in HITS:
            raise ValueError(f"hits = {self.hits!r} is not allowed: one of {tuple(HITS)}")
        if self.hits and not self.reported:
            raise ValueError(
                f"hits = {self.hits!r} without a reported numbered: quote the sentence, its place and what is right"
            )


@dataclass(frozen=True)
class Verdict:
    """A claim, judged: verdict, why in one line, evidence, seconds."""

    claim: Claim
    verdict: str
    why: str
    evidence: Evidence
    seconds: float

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.claim.expected


def judge(evidence: Evidence) -> tuple[str, str]:
    """Verdict and reason from evidence.

    Order: a violated case refutes; a rival that is not rejected leaves the claim not established; unmet assumptions
    and vacuous bounds are named only when everything that can be tested agreed.
    """
    if evidence.data_needed:
        return "data needed", evidence.data_needed
    if evidence.not_run or not evidence.cases:
        return "not run", evidence.not_run or "no case was evaluated"
    for case in evidence.cases:
        if not case.ok:
            return "refuted", f"{case.name}: observed value is not {case.relation} the prediction"
    for case in evidence.cases:
        if not case.rival_rejected:
            return "not established", f"{case.name}: the rival ({case.rival_says}) fits as well"
    bites = [c for c in evidence.cases if c.vacuous]
    tested = [c for c in evidence.cases if not c.vacuous and c.rival is not None]
    if not tested:
        return "not established", "no case with a rival was evaluated"
    unmet = [a for a in evidence.assumptions if not a.met]
    if unmet:
        return "assumptions unmet", "; ".join(f"{a.says} ({a.detail})" if a.detail else a.says for a in unmet)
    if bites:
        return "vacuous", "; ".join(f"{c.name}: would bite at {c.vacuous}" for c in bites)
    return "holds", f"{len(tested)} case{'s' if len(tested) != 1 else ''}, every rival rejected"


def needs(experiment: str) -> Evidence:
    """Evidence that rows are missing, with the command that brings them."""
    return Evidence(not_run=f"featlearn run {experiment} --preset paper")


def reads(experiment: str, judge: Callable[[Rows], Evidence]) -> Callable[[Any, Tables], Evidence]:
    """A check that judges the rows of one experiment, or names the command that makes them."""

    def check(key: Any, tables: Tables) -> Evidence:  # noqa: ARG001
        table = tables(experiment)
        return needs(experiment) if table is None or not table.rows else judge(table)

    return check


def verify(claim: Claim, key: Any, tables: Callable[[str], Any]) -> Verdict:
    """Check one claim with its own child of `key`; exceptions are the caller's to see."""
    start = time.perf_counter()
    evidence = claim.check(key / RENAMED.get(claim.id, claim.id), tables)
    verdict, why = judge(evidence)
    return Verdict(claim, verdict, why, evidence, time.perf_counter() - start)
