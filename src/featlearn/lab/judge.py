"""The judge: pairs statements with observations and says what came of each.

Every statement counts. Exact values agree or not; an estimate confirms where its two-sided 1 - 2 alpha interval lies
inside the limits, contradicts where its 1 - alpha/m interval (m statements) lies outside, and is inconclusive between.
A statement that every number of its domain meets, or that an object meets which has learnt nothing, is too weak to
test, and so is a bound without a competitor of which no instance attains half.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featlearn.errors import BadStatement, MissingUnit
from featlearn.lab.statement import OUTCOMES, Control, Other, Outcome, Statement
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, elements

ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Finding:
    """What came of one statement.

    outcome, why. value, observed: (n) what was predicted and seen of the elements that count; low, high: (n) ends of
    the interval that confirms. rival: (n), or None. kept, of: elements that meet the statement's premise, and all.
    agree, against: elements that agree, that contradict. attained: for a bound, the largest share of it that was seen.
    """

    statement: Statement
    outcome: Outcome
    why: str
    value: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rival: np.ndarray | None = None
    kept: int = 0
    of: int = 0
    agree: int = 0
    against: int = 0
    attained: float = math.nan

    @property
    def as_expected(self) -> bool:
        """Whether the outcome is the one we stand behind."""
        return self.outcome == self.statement.expect


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """The worst of some outcomes. Errors: ValueError for none.

    Example:
        >>> worst(["confirmed", "inconclusive"])
        'inconclusive'
    """
    return min(outcomes, key=OUTCOMES.index)


def judge(statement: Statement, seen: Mapping[str, Observation], m: int = 1, alpha: float = ALPHA) -> Finding:
    """The finding on one of m statements of a claim.

    Errors: MissingUnit for an observation that is not there, NotFinite, BadStatement for a shape or a rival that does
    not fit.
    """
    name = statement.observed_as
    if name not in seen:
        raise MissingUnit(
            f"statement {statement.name!r}: nothing was observed as {name!r}; observed: {', '.join(seen)}"
        )
    observation = seen[name]
    observed, low, high = elements(observation, 1 - 2 * alpha, 1 - alpha / m)
    covariates = observation.covariates if isinstance(observation, Derived) else {}
    value = _at(statement, statement.value, covariates, seen, observed.shape)
    rival = None if statement.rival is None else _at(statement, statement.rival, covariates, seen, observed.shape)
    trivial = None if statement.trivial is None else _at(statement, statement.trivial, covariates, seen, observed.shape)
    kept = _kept(statement, covariates, observed.shape)
    of = observed.size
    if kept.sum() < statement.least:
        why = f"{int(kept.sum())} of {of} elements meet the premise ({statement.where_says}), {statement.least} needed"
        return Finding(statement, "inconclusive", why, value, observed, low[0], high[0], rival, int(kept.sum()), of)
    observed, low, high, value = observed[kept], low[:, kept], high[:, kept], value[kept]
    rival, trivial = (None if v is None else v[kept] for v in (rival, trivial))
    if rival is not None and isinstance(statement.rival, Law | Control):
        statement.check_rival(rival, value)
    agree, against = compare(statement, value, low, high)
    outcome, why = _outcome(statement, agree, against)
    attained = _attained(statement, observed, value)
    refused = _refused(statement, observation, value, low, high, outcome, m, alpha)
    weak = _weak(statement, value, rival, trivial, attained, observation)
    if refused is not None:
        outcome, why = refused
    if weak and outcome != "contradicted":
        outcome, why = "too weak to test", weak
    return Finding(
        statement,
        outcome,
        why,
        value,
        observed,
        low[0],
        high[0],
        rival,
        int(kept.sum()),
        of,
        int(agree.sum()),
        int(against.sum()),
        attained,
    )


def compare(
    statement: Statement, value: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Elements whose interval lies inside the limits, and those whose interval lies outside; low, high: (2, n)."""
    least, largest = statement.limits(value)
    return (low[0] >= least) & (high[0] <= largest), (low[1] > largest) | (high[1] < least)


def _outcome(statement: Statement, agree: np.ndarray, against: np.ndarray) -> tuple[Outcome, str]:
    n = agree.size
    needed = {"every": n, "some": 1, "share": math.ceil(statement.share * n)}[statement.quantifier]
    what = statement.axis or "element"
    if agree.sum() >= needed:
        return "confirmed", f"{int(agree.sum())} of {n} ({what}) agree" if n > 1 else "agrees"
    if n - against.sum() < needed:
        return (
            "contradicted",
            f"{int(against.sum())} of {n} ({what}) lie outside" if n > 1 else "lies outside the limits",
        )
    if n == 1:
        return "inconclusive", "the interval reaches over a limit"
    return (
        "inconclusive",
        f"{int(agree.sum())} of {n} ({what}) agree, {int(against.sum())} lie outside, {needed} needed",
    )


def _refused(
    statement: Statement,
    observation: Observation,
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    outcome: Outcome,
    m: int,
    alpha: float,
) -> tuple[Outcome, str] | None:
    """A fit that is refused confirms no equality; a bound on it is judged on its local exponents."""
    if not isinstance(observation, Estimate) or not observation.refused:
        return None
    if statement.relation == "equal" or not observation.parts:
        return None if outcome == "contradicted" else ("inconclusive", observation.refused)
    _, low, high = elements(observation.parts, 1 - 2 * alpha, 1 - alpha / m)
    local = np.broadcast_to(value, low[0].shape)
    agree, against = compare(statement, local, low, high)
    if agree.all():
        return "confirmed", f"all {agree.size} local exponents agree, though {observation.refused}"
    if against.any():
        return (
            "contradicted",
            f"{int(against.sum())} of {agree.size} local exponents lie outside; {observation.refused}",
        )
    return "inconclusive", f"{int(agree.sum())} of {agree.size} local exponents agree; {observation.refused}"


def _weak(
    statement: Statement,
    value: np.ndarray,
    rival: np.ndarray | None,
    trivial: np.ndarray | None,
    attained: float,
    observation: Observation,
) -> str:
    """Why the statement cannot fail here, or ""."""
    q = statement.quantity
    ends = [np.full_like(value, e if math.isfinite(e) else math.copysign(math.inf, e)) for e in (q.low, q.high)]
    if all(bool(np.all(statement.inside(e, value))) for e in ends):
        return f"every {q.name} meets it"
    if trivial is not None and bool(np.all(statement.inside(trivial, value))):
        return f"met by {statement.trivial_says or 'an object that has learnt nothing'}"
    if rival is None and statement.relation != "equal" and not attained >= 0.5:
        return f"a bound without competitor of which {attained:.2g} is attained: nothing comes near it"
    if isinstance(observation, Estimate) and observation.reference is not None and statement.relation == "at least":
        ahead = float(value.max())  # superiority needs room above the reference, non-inferiority room below it
        if observation.room[0] < ahead or observation.room[1] < -ahead:
            return f"the reference is at {observation.reference:.4g}: there is no room for a difference of {ahead:g}"
    return ""


def _attained(statement: Statement, observed: np.ndarray, value: np.ndarray) -> float:
    """The largest share of a bound that some element attains (for "at least": of the observed by the bound)."""
    if statement.relation == "equal":
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = value / observed if statement.relation == "at least" else observed / value
    ratio = np.where(
        np.isfinite(ratio) & (np.sign(observed) == np.sign(value)), ratio, np.where(observed == value, 1, 0)
    )
    return float(np.max(ratio))


def _kept(statement: Statement, covariates: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    if statement.where is None:
        return np.ones(shape, dtype=bool)
    return np.ravel(np.broadcast_to(np.asarray(statement.where(covariates), dtype=bool), shape))


def _at(
    statement: Statement,
    other: Other,
    covariates: Mapping[str, np.ndarray],
    seen: Mapping[str, Observation],
    shape: tuple[int, ...],
) -> np.ndarray:
    """A value, law or control as one number an element."""
    if isinstance(other, Control):
        if other.name not in seen:
            raise MissingUnit(f"statement {statement.name!r}: its control {other.name!r} was not observed")
        found = elements(seen[other.name], 0.9, 0.9)[0]
    elif isinstance(other, Law):
        found = other(covariates)
    else:
        found = np.asarray(other, dtype=np.float64)
    if found.size == 1:
        found = np.broadcast_to(np.ravel(found), shape)
    found = np.ravel(found)
    if found.shape != shape:
        raise BadStatement(f"statement {statement.name!r}: {found.size} values for {shape[0]} observed elements")
    return found
