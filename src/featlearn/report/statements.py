"""What the number line of a statement shows: limits, what was observed, the rival."""

import math
from collections.abc import Sequence

from featlearn.lab.judge import levels_of
from featlearn.lab.verdicts import JudgedStatement
from featlearn.report.html import Html
from featlearn.report.numberline import digits, line, marks


def exact(s: JudgedStatement, i: int) -> bool:
    """Whether an element was observed without an interval."""
    return s.low[i] == s.high[i] == s.observed[i]


def limits(s: JudgedStatement, i: int) -> tuple[float, float]:
    """Least and largest number that agrees at one element, margin included.

    Example:
        >>> limits(statement, 0)  # doctest: +SKIP
        (0.9, 1.1)
    """
    v = s.value[i]
    low = -math.inf if s.relation == "at most" else v - s.margin
    if s.relation == "at least":
        return low, math.inf
    return low, (s.upper if s.relation == "between" and s.upper is not None else v) + s.margin


def levels(s: JudgedStatement, m: int) -> str:
    """At which levels one of m statements about estimates is judged, in words; "" for exact numbers.

    Example:
        >>> levels(statement, 2)  # doctest: +SKIP
        '90 % intervals; outside where one of 97.5 % is'
    """
    if not s.observed or s.quantifier.startswith("share") or all(exact(s, i) for i in range(len(s.observed))):
        return ""
    needed = s.kept if s.quantifier == "every" else 1
    inside, outside = levels_of(s.kept, needed, m)
    return f"{digits(100 * inside)} % intervals; outside where one of {digits(100 * outside, 4)} % is"


def number_line(s: JudgedStatement) -> list[Html]:
    """The number line of a statement; nothing where nothing finite was observed."""
    least, largest = zip(*(limits(s, i) for i in range(len(s.observed))), strict=True) if s.observed else ((), ())
    low, high = ([math.nan if e is None else e for e in ends] for ends in (s.low, s.high))
    found = marks(least, largest, s.observed, low, high, s.rival, s.trivial_value, s.domain)
    return [] if found is None else [line(found, in_words(s))]


def in_words(s: JudgedStatement) -> str:
    """A statement for people who cannot see its number line.

    Example:
        >>> in_words(statement)  # doctest: +SKIP
        'trace: agrees from 1.95 to 2.05, observed 2.01, rival 2.5; confirmed.'
    """
    said = f"{s.relation} {_range(s.value)}"
    if len(set(s.value)) == 1:
        low, high = limits(s, 0)
        said = f"from {digits(low)} to {digits(high)}" if math.isfinite(low + high) else said
    rival = f", rival {_range(s.rival)}" if s.rival else ""
    return f"{s.name}: agrees {said}, observed {_range(s.observed)}{rival}; {s.outcome}."


def _range(values: Sequence[float]) -> str:
    low, high = digits(min(values)), digits(max(values))
    return low if low == high else f"{low} to {high}"
