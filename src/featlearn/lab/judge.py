"""The judge: pairs statements with observations and says what came of each.

Every statement counts. Exact values agree or not; an estimate confirms where its two-sided 1 - 2 alpha interval lies
inside the limits, contradicts where its 1 - alpha/m interval (m statements) lies outside, and is inconclusive between.
Of n elements of which k must agree, n - k + 1 chances to agree by luck and k chances to disagree share alpha. A
statement that every number of its domain meets, or that an object meets which has learnt nothing, is too weak to test,
and so is a bound without a competitor of which no instance attains half. A control must be seen to violate it. The
domain is the statement's and that of the estimates which it is judged on: a share is one whatever it is called.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featlearn.errors import BadStatement, MissingUnit, NotFinite, OutOfRange
from featlearn.lab.statement import OUTCOMES, Control, Other, Outcome, Statement
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, elements

ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Finding:
    """What came of one statement.

    outcome, why. value, observed: (n) what was predicted and seen of the elements that count; low, high: (n) ends of
    the interval that confirms. rival, trivial: (n), or None. kept, of: elements that meet the statement's premise,
    and all. agree, against: elements that agree, that contradict. attained: for a bound, the largest share of it that
    was seen.
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
    trivial: np.ndarray | None = None

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


def levels_of(n: int, needed: int, m: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Levels of the intervals that have to lie inside the limits, and outside, of n elements of one of m statements.

    needed: how many of the elements have to agree.

    Example:
        >>> levels_of(1, 1, 1), levels_of(4, 4, 2)
        ((0.9, 0.95), (0.9, 0.99375))
    """
    return 1 - 2 * alpha / (n - needed + 1), 1 - alpha / (m * needed)


def judge(statement: Statement, seen: Mapping[str, Observation], m: int = 1, alpha: float = ALPHA) -> Finding:
    """The finding on one of m statements of a claim.

    Errors: MissingUnit for an observation that is not there, NotFinite, OutOfRange for an observation that its quantity
    cannot be, BadStatement for a shape, a unit or a rival that does not fit.
    """
    name = statement.observed_as
    if name not in seen:
        raise MissingUnit(
            f"statement {statement.name!r}: nothing was observed as {name!r}; observed: {', '.join(seen)}"
        )
    observation = seen[name]
    shape = elements(observation, 0.9, 0.9)[0].shape
    covariates = observation.covariates if isinstance(observation, Derived) else {}
    for word, c in covariates.items():
        if not np.isfinite(np.asarray(c, dtype=np.float64)).all():
            raise NotFinite(
                f"statement {statement.name!r}: its covariate {word!r} is not finite: a premise would drop it unseen"
            )
    statement = _narrowed(statement, observation)
    kept = kept_of(statement, covariates, shape)
    n, of = int(kept.sum()), kept.size
    needed = statement.needed(max(n, 1))
    levels = levels_of(max(n, 1), needed, m, alpha)
    observed, low, high = (v[..., kept] for v in elements(observation, *levels))
    _fits(statement, observation, observed)
    value = _at(statement, statement.value, covariates, seen, shape)[kept]
    others = [None if o is None else _at(statement, o, covariates, seen, shape)[kept] for o in _others(statement)]
    for other, found, says in zip(_others(statement), others, ("its rival", "its trivial object"), strict=True):
        if isinstance(other, Control) and found is not None:
            _refuse_outside(statement, found, f"{says}, the control {other.name!r},")
    whole, statement = statement, statement.only(kept)
    if n < statement.least:
        why = f"{n} of {of} elements meet the premise ({statement.where_says}), {statement.least} needed"
        return Finding(
            whole, "inconclusive", why, value, observed, low[0], high[0], others[0], n, of, trivial=others[1]
        )
    if not np.isfinite(value).all():
        raise NotFinite(
            f"statement {statement.name!r}: its law is not finite at {int((~np.isfinite(value)).sum())} elements"
        )
    if others[0] is not None and not isinstance(statement.rival, Control):
        statement.check_rival(others[0], value)
    if others[1] is not None and not isinstance(statement.trivial, Control):
        statement.check_trivial(others[1])
    agree, against = compare(statement, value, low, high)
    unfit = _by_parts(statement, observation, value, kept, levels, agree, against)
    outcome, why = _outcome(statement, agree, against)
    why = "; ".join(w for w in (why, unfit, _left_out(observation)) if w)
    if outcome == "confirmed" and (apart := _apart(statement, observation, value, kept, levels)):
        outcome, why = "inconclusive", apart
    attained = _attained(statement, observed, value)
    weak, one_way = _weak(statement, value, others, attained), _no_room(statement, value, observation)
    if outcome == "confirmed":
        for other, says in zip(_others(statement), (statement.rival_says, statement.trivial_says), strict=True):
            if isinstance(other, Control) and not _violates(statement, other, seen, value, kept, levels):
                outcome, why = "inconclusive", f"the control ({says or other.name}) is not seen to violate it"
    if one_way and outcome == "contradicted" and _reversed(statement, value, high[1], against):
        one_way = ""
    if one_way or (weak and outcome != "contradicted"):
        outcome, why = "too weak to test", one_way or weak
    return Finding(
        statement=whole,
        outcome=outcome,
        why=why,
        value=value,
        observed=observed,
        low=low[0],
        high=high[0],
        rival=others[0],
        trivial=others[1],
        kept=n,
        of=of,
        agree=int(agree.sum()),
        against=int(against.sum()),
        attained=attained,
    )


def compare(
    statement: Statement, value: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Elements whose interval lies inside the limits, and those whose interval lies outside; low, high: (2, n).

    The interval of an estimate is open: it may end at a limit only where its quantity ends.
    """
    least, largest = statement.limits(value)
    exact = low[0] == high[0]
    above = (low[0] > least) | ((low[0] == least) & (exact | (least <= statement.quantity.low)))
    below = (high[0] < largest) | ((high[0] == largest) & (exact | (largest >= statement.quantity.high)))
    return above & below, (low[1] > largest) | (high[1] < least)


def _outcome(statement: Statement, agree: np.ndarray, against: np.ndarray) -> tuple[Outcome, str]:
    n = agree.size
    needed = statement.needed(n)
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


def _estimates(observation: Observation) -> Sequence[Estimate]:
    if isinstance(observation, Estimate):
        return (observation,)
    return [e for e in observation if isinstance(e, Estimate)] if isinstance(observation, Sequence) else ()


def _fits(statement: Statement, observation: Observation, observed: np.ndarray) -> None:
    """Errors: OutOfRange where the observation is not of the quantity that the statement is about."""
    q = statement.quantity
    _refuse_outside(statement, observed)
    if q.whole and not _estimates(observation) and (observed != np.round(observed)).any():
        raise OutOfRange(f"statement {statement.name!r}: {observed} was observed, and a {q.name} is a whole number")


def _refuse_outside(statement: Statement, found: np.ndarray, what: str = "") -> None:
    q = statement.quantity
    slack = 1e-9 * np.maximum(1.0, np.abs(found))
    out = ~((found >= q.low - slack) & (found <= q.high + slack))
    if out.any():
        raise OutOfRange(
            f"statement {statement.name!r}: {what} {found[out][0]:.6g} was observed, and a {q.name} goes from"
            f" {q.low:g} to {q.high:g}: check what measured it"
        )


def _narrowed(statement: Statement, observation: Observation) -> Statement:
    """The statement on what its quantity and those of the estimates can be, both. Errors: BadStatement for
    estimates in another unit, for a rival or a trivial object that is no longer possible."""
    q, own = statement.quantity, [e.quantity for e in _estimates(observation)]
    for e in own:
        if e.unit != q.unit and {e.unit, q.unit} != {"%", "points"}:
            raise BadStatement(
                f"statement {statement.name!r}: an estimate in {e.unit or 'plain numbers'} is judged in"
                f" {q.unit or 'plain numbers'}: give both the same quantity"
            )
    if not own:
        return statement
    low, high = max(q.low, min(e.low for e in own)), min(q.high, max(e.high for e in own))
    chances = {e.chance for e in own}
    chance = chances.pop() if q.chance is None and len(chances) == 1 else q.chance
    if (low, high, chance) == (q.low, q.high, q.chance):
        return statement
    return dataclasses.replace(statement, quantity=dataclasses.replace(q, low=low, high=high, chance=chance))


def _by_parts(
    statement: Statement,
    observation: Observation,
    value: np.ndarray,
    kept: np.ndarray,
    levels: tuple[float, float],
    agree: np.ndarray,
    against: np.ndarray,
) -> str:
    """Judge refused fits: they confirm no equality, and a bound by their local exponents. Changes agree and against."""
    words = ""
    for i, (e, v) in enumerate(
        zip([e for e, k in zip(_estimates(observation), kept, strict=False) if k], value, strict=False)
    ):
        if not e.refused:
            continue
        words = words or e.refused
        agree[i] = False
        if statement.relation != "equal" and e.parts:
            _, low, high = elements(e.parts, levels[0], 1 - (1 - levels[1]) / len(e.parts))
            inside, outside = compare(statement.only(np.array([i])), np.full(len(e.parts), v), low, high)
            agree[i], against[i] = inside.all(), outside.any()
            words = f"{int(inside.sum())} of {inside.size} local exponents agree; {e.refused}"
    return words


def _apart(
    statement: Statement, observation: Observation, value: np.ndarray, kept: np.ndarray, levels: tuple[float, float]
) -> str:
    """Which settings lie outside although their mean agrees, or ""."""
    own = [e for e, k in zip(_estimates(observation), kept, strict=False) if k]
    for i, (e, v) in enumerate(zip(own, value, strict=False)):
        if e.arms:
            _, low, high = elements(e.arms, levels[0], levels[0])
            outside = compare(statement.only(np.array([i])), np.full(len(e.arms), v), low, high)[1]
            if outside.any():
                worst_arm = e.arms[int(np.argmax(outside))]
                return (
                    f"{int(outside.sum())} of {len(e.arms)} settings that are averaged lie outside"
                    f" ({worst_arm.says}: {worst_arm.value:.4g})"
                )
    return ""


def _left_out(observation: Observation) -> str:
    return next((e.says for e in _estimates(observation) if e.says), "")


def _others(statement: Statement) -> tuple[Other | None, Other | None]:
    return statement.rival, statement.trivial


def _violates(
    statement: Statement,
    other: Control,
    seen: Mapping[str, Observation],
    value: np.ndarray,
    kept: np.ndarray,
    levels: tuple[float, float],
) -> bool:
    """Whether a control is contradicted: its interval, not only its value, lies outside."""
    _, low, high = elements(seen[other.name], *levels)
    low, high = (np.broadcast_to(v, (2, kept.size))[:, kept] for v in (low, high))
    return _outcome(statement, *compare(statement, value, low, high))[0] == "contradicted"


def _weak(
    statement: Statement,
    value: np.ndarray,
    others: Sequence[np.ndarray | None],
    attained: float,
) -> str:
    """Why the statement cannot fail here, or ""."""
    q = statement.quantity
    ends = [statement.inside(np.full_like(value, e), value) for e in (q.low, q.high)]
    if statement.met_by(ends[0] & ends[1]):
        return f"every {q.name} meets it"
    for other, found, says in zip(
        _others(statement), others, (statement.rival_says, statement.trivial_says), strict=True
    ):
        if other is None or found is None or (other is statement.rival and not isinstance(other, Control)):
            continue
        # a control as rival of an equality is as far as a number would have to be
        margins = 2 - 1e-9 if other is statement.rival and statement.relation == "equal" else 1.0
        if statement.met_by(statement.inside(found, value, margins)):
            return f"met by {says or 'an object that has learnt nothing'}"
    guessed = np.full_like(value, math.nan if q.chance is None else q.chance)
    if statement.relation == "at least" and statement.met_by(statement.inside(guessed, value)):
        return f"met by guessing, which attains {q.chance:g}"
    if statement.rival is None and statement.relation != "equal" and not attained >= 0.5:
        return f"a bound without competitor of which {attained:.2g} is attained: nothing comes near it, give a rival"
    return ""


def _no_room(statement: Statement, value: np.ndarray, observation: Observation) -> str:
    """Why a difference could only have gone one way, or ""."""
    for e in _estimates(observation):
        if e.reference is None:
            continue
        for limit in {float(v) for ends in statement.limits(value) for v in ends if math.isfinite(v)}:
            if limit < 0 and math.isnan(e.room[1]):
                return "what guessing attains is not known: give it to paired(chance=...)"
            if (limit > 0 and e.room[0] < limit) or (limit < 0 and e.room[1] < -limit):
                return f"the reference is at {e.reference:.4g}: there is no room for a difference of {limit:g}"
    return ""


def _reversed(statement: Statement, value: np.ndarray, high: np.ndarray, against: np.ndarray) -> bool:
    """Whether differences that had no room to be as large as stated have the other sign, which no ceiling makes."""
    least, _ = statement.limits(value)
    other_sign = against & (least > 0) & (high < 0)
    return bool(against.size - other_sign.sum() < statement.needed(against.size))


def _attained(statement: Statement, observed: np.ndarray, value: np.ndarray) -> float:
    """How near to a bound some element comes: the smaller of the two over the larger, 0 where their signs differ, and
    of a bound of 0, which nothing measures."""
    if statement.relation == "equal":
        return math.nan
    bounds = [value] if statement.relation != "between" else [value, np.full_like(value, statement.upper)]
    return max(float(np.max(_nearness(observed, b))) for b in bounds)


def _nearness(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    larger = np.maximum(np.abs(one), np.abs(two))
    smaller = np.minimum(np.abs(one), np.abs(two))
    ratio = np.divide(smaller, larger, out=np.zeros_like(larger), where=larger > 0)
    return np.where(np.sign(one) == np.sign(two), ratio, 0.0)


def kept_of(statement: Statement, covariates: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The elements that meet the statement's premise. Errors: BadStatement for a premise of another shape."""
    if statement.where is None:
        return np.ones(shape, dtype=bool)
    met = np.ravel(np.asarray(statement.where(covariates), dtype=bool))
    if met.shape != shape and met.size != 1:
        raise BadStatement(f"statement {statement.name!r}: a premise on {met.size} of {shape[0]} elements")
    return np.broadcast_to(met, shape)


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
