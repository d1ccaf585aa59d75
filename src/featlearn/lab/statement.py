"""Statement: what is predicted of one quantity, written down before and without any measurement.

Example:
    >>> from featlearn.lab.quantity import POSITIVE
    >>> s = equal("squared length of a mean", POSITIVE, 2.0, "Section 2.1", rival=1.0, rival_says="unit means")
    >>> s.relation, s.form
    ('equal', 'reported')
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from featlearn.errors import BadStatement
from featlearn.lab.quantity import EXPONENT, Quantity
from featlearn.lab.uncertainty import Law

Outcome = Literal["contradicted", "not run", "data needed", "inconclusive", "too weak to test", "confirmed"]
OUTCOMES: tuple[Outcome, ...] = (
    "contradicted",
    "not run",
    "data needed",
    "inconclusive",
    "too weak to test",
    "confirmed",
)
"""From the worst to the best: a face of a verdict is the worst of its statements."""

Relation = Literal["equal", "at most", "at least", "between"]
Form = Literal["reported", "corrected", "derived", "criterion", "audit"]
FORMS: tuple[Form, ...] = ("reported", "corrected", "derived", "criterion", "audit")
Quantifier = Literal["every", "some", "share"]
LEAST_SHARE = 0.5
"""Of the elements, where a share of them must agree: "most" is more than half."""


@dataclass(frozen=True)
class Control:
    """Another observation, by name, that stands for a rival or for an object that does nothing."""

    name: str


def control(name: str) -> Control:
    """The observation of this name as rival or as trivial object: a network at its start, labels that are shuffled."""
    return Control(name)


Value = float | np.ndarray | Law
Other = float | np.ndarray | Law | Control


@dataclass(frozen=True, kw_only=True, eq=False)
class Statement:
    """One prediction.

    name: what is predicted, in words. of: the observation it is judged on, where it is not `name`; several statements
    may share one. axis: what its elements run over. value: a number, an array or a law of covariates; for "between"
    the lower end, with `upper`. margin: for exact values the numerical error allowed, for estimates an equivalence
    margin, both fixed beforehand. source: where value comes from.
    rival: the value under the nearest wrong answer, which must lie outside the limits, of an equality by two margins or
    more (what lies nearer to the rival must not agree); None for a bound without a competitor. trivial: what an object
    that has learnt nothing attains; of "at least", guessing is one wherever the quantity knows what it attains.
    where: a premise on covariates, element by element; least: how many elements must meet it, given with it.
    quantifier, share: how many of the elements must agree; quantifier_says: the words of the source for anything but
    every.
    form: reported; corrected (our form of a sentence that is wrong as reported: `twin` names it); derived (follows
    from the source by a named derivation); criterion (a threshold of ours for words of the source).
    expect: the outcome that we stand behind.
    """

    name: str
    quantity: Quantity
    relation: Relation
    value: Value
    source: str
    of: str = ""
    axis: str = ""
    upper: float = math.nan
    margin: float | np.ndarray = 0.0
    rival: Other | None = None
    rival_says: str = ""
    trivial: Other | None = None
    trivial_says: str = ""
    where: Callable[[Mapping[str, np.ndarray]], np.ndarray] | None = None
    where_says: str = ""
    least: int = 0
    quantifier: Quantifier = "every"
    quantifier_says: str = ""
    share: float = 1.0
    form: Form = "reported"
    twin: str = ""
    expect: Outcome = "confirmed"

    def __post_init__(self) -> None:
        if not self.source:
            raise self._bad("no source", "name the equation, the key in work.toml or the derivation")
        if self.expect not in OUTCOMES:
            raise self._bad(f"expect = {self.expect!r}", f"one of {', '.join(OUTCOMES)}")
        if self.form not in FORMS:
            raise self._bad(f"form = {self.form!r}", f"one of {', '.join(FORMS)}")
        if np.any(~(np.asarray(self.margin) >= 0)) or np.any(~np.isfinite(self.margin)):
            raise self._bad(f"margin = {self.margin}", "a finite number of at least 0")
        if self.relation == "equal" and self.rival is None:
            raise self._bad("an equality without rival", "give the nearest wrong value")
        if self.rival is not None and not self.rival_says:
            raise self._bad("a rival without words", "say in rival_says what it stands for")
        if self.quantifier == "share" and not LEAST_SHARE <= self.share < 1:
            raise self._bad(f"share = {self.share}", f"from {LEAST_SHARE} to 1; for less say 'some'")
        if (self.quantifier == "every") != (not self.quantifier_says):
            raise self._bad(
                f"quantifier = {self.quantifier!r}", "with the source's words in quantifier_says, or 'every'"
            )
        for other in (self.rival, self.trivial):
            if isinstance(other, Control) and other.name == self.observed_as:
                raise self._bad(f"control({other.name!r})", "another observation than the one it is compared with")
        if self.relation == "between" and not self.upper > np.max(np.asarray(self.value)):
            raise self._bad(f"upper = {self.upper}", "above value")
        if (self.where is None) != (not self.where_says):
            raise self._bad("a premise and its words", "give both where and where_says")
        if (self.where is None) != (self.least < 1):
            raise self._bad(f"least = {self.least}", "with `where` the number of elements that must meet it, else none")
        if self.trivial is not None and not isinstance(self.trivial, Law | Control):
            self.check_trivial(np.asarray(self.trivial, dtype=np.float64))
        if isinstance(self.value, Law):
            return
        value = np.asarray(self.value, dtype=np.float64)
        if not np.isfinite(value).all():
            raise self._bad("value is not finite", "a number")
        if self.relation == "equal" and not all(map(self.quantity.holds, np.ravel(value))):
            raise self._bad("value", f"a {self.quantity.name} from {self.quantity.low:g} to {self.quantity.high:g}")
        if self.rival is not None and not isinstance(self.rival, Law | Control):
            self.check_rival(np.asarray(self.rival, dtype=np.float64), value)

    def _bad(self, what: str, allowed: str) -> BadStatement:
        return BadStatement(f"statement {self.name!r}: {what} is not allowed: {allowed}")

    @property
    def observed_as(self) -> str:
        """Name of the observation."""
        return self.of or self.name

    def only(self, kept: np.ndarray) -> "Statement":
        """The statement on some of its elements: with their margins, where each has its own."""
        if np.size(self.margin) == 1:
            return self
        made = copy.copy(self)  # not replace(): the other arrays keep their length, so no check may run again
        object.__setattr__(made, "margin", np.ravel(self.margin)[kept])
        return made

    def needed(self, n: int) -> int:
        """How many of n elements must agree."""
        return {"every": n, "some": 1, "share": math.ceil(self.share * n)}[self.quantifier]

    def met_by(self, inside: np.ndarray) -> bool:
        """Whether enough elements agree."""
        return int(np.sum(inside)) >= self.needed(np.size(inside))

    def limits(self, value: np.ndarray, margins: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number that agrees, element by element, margin included."""
        # arithmetic on arrays without axes gives numbers, so a single value has an axis of one
        value, m = np.atleast_1d(value), margins * np.atleast_1d(np.asarray(self.margin, dtype=np.float64))
        none = np.full(np.broadcast_shapes(value.shape, m.shape), math.inf)
        if self.relation == "equal":
            return value - m, value + m
        if self.relation == "at most":
            return -none, value + m
        if self.relation == "at least":
            return value - m, none
        return value - m, np.broadcast_to(self.upper + m, none.shape)

    def inside(self, other: np.ndarray, value: np.ndarray, margins: float = 1.0) -> np.ndarray:
        """Where another value would agree with the statement."""
        low, high = self.limits(value, margins)
        return (other >= low) & (other <= high)

    def check_trivial(self, trivial: np.ndarray) -> None:
        """Errors: BadStatement for a trivial object that cannot be."""
        q = self.quantity
        if not (np.isfinite(trivial) & (trivial >= q.low) & (trivial <= q.high)).all():
            raise self._bad("a trivial object that cannot be", f"a {q.name} from {q.low:g} to {q.high:g}")

    def check_rival(self, rival: np.ndarray, value: np.ndarray) -> None:
        """Errors: BadStatement for a rival that cannot be, or that agrees with the statement in as many elements as it
        asks for; of an equality also for one within two margins."""
        if not np.isfinite(rival).all() or not all(map(self.quantity.holds, np.ravel(rival))):
            raise self._bad(
                "a rival that cannot be",
                f"a {self.quantity.name} from {self.quantity.low:g} to {self.quantity.high:g}",
            )
        if self.met_by(self.inside(rival, value, 2 - 1e-9 if self.relation == "equal" else 1.0)):
            raise self._bad(
                "a rival within the limits, or nearer than two margins to an equality",
                "one that the statement refuses, or a narrower margin",
            )


def _make(relation: Relation, name: str, quantity: Quantity, value: Value, source: str, more: Any) -> Statement:
    return Statement(name=name, quantity=quantity, relation=relation, value=value, source=source, **more)


def equal(name: str, quantity: Quantity, value: Value, source: str, **more: Any) -> Statement:
    """The observation is `value`, up to the margin; a rival is required. Further arguments: fields of Statement."""
    return _make("equal", name, quantity, value, source, more)


def at_most(name: str, quantity: Quantity, value: Value, source: str, **more: Any) -> Statement:
    """The observation is at most `value`."""
    return _make("at most", name, quantity, value, source, more)


def at_least(name: str, quantity: Quantity, value: Value, source: str, **more: Any) -> Statement:
    """The observation is at least `value`."""
    return _make("at least", name, quantity, value, source, more)


def between(name: str, quantity: Quantity, low: Value, high: float, source: str, **more: Any) -> Statement:
    """The observation lies from `low` to `high`, each end moved outward by the margin."""
    return _make("between", name, quantity, low, source, {"upper": high, **more})


def order(name: str, quantity: Quantity, source: str, *, delta: float, **more: Any) -> Statement:
    """One arm exceeds another by at least `delta`: the observation is a paired difference, the rival none at all."""
    if not delta > 0:
        raise BadStatement(f"statement {name!r}: delta = {delta} is not allowed: above 0")
    span = quantity.high - quantity.low
    difference = dataclasses.replace(quantity, name="difference", low=-span, high=span, whole=False, chance=None)
    given = {"rival": 0.0, "rival_says": "no difference", **more}
    return _make("at least", name, difference, delta, source, given)


def exponent(name: str, relation: Relation, value: float, source: str, **more: Any) -> Statement:
    """A power of growth: the observation is a slope of logarithms."""
    return _make(relation, name, EXPONENT, value, source, more)


def both(
    name: str,
    quantity: Quantity,
    source: str,
    *,
    reported: Value,
    corrected: Value,
    says: str,
    relation: Relation = "equal",
    **more: Any,
) -> tuple[Statement, Statement]:
    """A sentence as reported, which we expect to be contradicted, and as corrected; each is the other's rival.

    says: what the corrected form changes.
    """
    as_reported = f"{name}, as reported"
    return (
        Statement(
            name=as_reported,
            of=name,
            quantity=quantity,
            relation=relation,
            value=reported,
            source=source,
            rival=corrected,
            rival_says=f"as corrected: {says}",
            expect="contradicted",
            **more,
        ),
        Statement(
            name=name,
            quantity=quantity,
            relation=relation,
            value=corrected,
            source=f"{source}, corrected: {says}",
            rival=reported,
            rival_says="as reported",
            form="corrected",
            twin=as_reported,
            **more,
        ),
    )
