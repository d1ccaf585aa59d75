"""The page of a claim in its former form: its cases, marked as waiting for re-examination."""

import math
from typing import Any

import numpy as np

from featlearn.lab.pending import HITS, Case, Verdict
from featlearn.report.context import Site, provenance
from featlearn.report.html import Html, badge, bullets, command, document, prose, seconds, table, tag
from featlearn.report.model import ClaimPage, State
from featlearn.report.numberline import digits, key, line, marks
from featlearn.report.parts import about, note, section, trail_of, verdict_badges

SIGN = {"equal": "=", "at most": "≤", "at least": "≥"}
WAITS = "This claim was judged in the former form. It waits for re-examination and counts for nothing."

MEANING = {
    "holds": "every observation agrees with its prediction and disagrees with the nearest wrong answer",
    "refuted": "an observation contradicts the claim as its page words it; the page says what of the paper that hits",
    "vacuous": "true, but too weak a bound to be violated at any size we can run",
    "assumptions unmet": "a premise fails at every size we can run, so the statement says nothing here",
    "not established": "the check could not tell the statement from the nearest wrong answer",
    "data needed": "needs data or weights that nobody can bundle; the page gives the command",
    "not run": "can be checked, but was not",
}
"""The verdicts of the former form."""


def page(site: Site, c: ClaimPage, v: Verdict) -> str:
    """One claim: statement, what the paper has where it is wrong, premises, cases, picture, command."""
    cl, ev = v.claim, v.evidence
    reported, box = cl.reported, HITS[cl.hits] if cl.hits else "Remark on the text"
    vacuous = [k for k in ev.cases if k.vacuous]
    assumptions = [
        [a.says, a.detail, badge(State("met", "good") if a.met else State("unmet", "warn"))] for a in ev.assumptions
    ]
    none = "No case was evaluated."
    if v.verdict not in ("data needed", "not run"):
        none = "The cases are not stored with this verdict; the command evaluates them again."
    out = [
        tag("p", "claim", class_="kicker"),
        tag("h1", cl.id),
        verdict_badges(c),
        note(tag("p", WAITS)),
        tag("div", prose(cl.says), class_="statement"),
        tag("p", v.why, "" if v.as_expected else f" (expected: {cl.expected})"),
        note(tag("p", f"The check itself broke: {c.error}"), bad=True) if c.error else None,
        note(tag("p", tag("b", box)), prose(reported)) if reported else None,
        tag("p", ev.comment) if ev.comment else None,
        *section("How far the bound is from biting", bullets([f"{k.name}: {k.vacuous}" for k in vacuous])),
        *site.pictures(cl.id, lambda d: d.caption or f"Prediction, observation and rival of {cl.id}."),
        *section("Cases", _cases(site, v) if ev.cases else tag("p", none, class_="soft")),
        *section(
            "Premises at the sizes used",
            table([("premise", "wide"), ("here", "left"), ("", "left")], assumptions) if assumptions else None,
        ),
        *about(site, cl.entries),
        tag("h2", "Command"),
        command(c.command or f"featlearn verify {cl.id}"),
        tag("h2", "Provenance"),
        provenance(c.provenance, [("check", seconds(v.seconds))]),
    ]
    return document(f"{cl.id} · featlearn", trail_of(site, cl.id), out, "../")


def number_line(c: Case) -> list[Html]:
    """The number line of a case; nothing where nothing finite was observed."""
    given = [math.nan if v is None else v for v in (c.predict, c.observe, c.tolerance, c.rival)]
    spread = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in given))
    predict, observe, tolerance, rival = (np.ravel(v) for v in spread)
    least = np.full(observe.size, -math.inf) if c.relation == "at most" else predict - tolerance
    largest = np.full(observe.size, math.inf) if c.relation == "at least" else predict + tolerance
    found = marks(least, largest, observe, rival=() if c.rival is None else rival)
    said = [f"{c.name}: predicted {SIGN[c.relation]} {_words(c.predict)}", f"observed {_words(c.observe)}"]
    said += [] if c.rival is None else [f"rival {_words(c.rival)}"]
    return [] if found is None else [line(found, ", ".join(said) + ".")]


def _cases(site: Site, v: Verdict) -> list[Html]:
    heads = [("case", "mid"), ("prediction", "right"), ("observed", "right"), ("tolerance", "right")]
    heads += [("rival", "right"), ("how close", "left"), ("state", "left")]
    rows: list[Any] = []
    for c in v.evidence.cases:
        name = [c.name, _small(f"in {c.unit}" if c.unit else "")]
        badges = [badge(State("agrees", "good") if c.ok else State("disagrees", "bad"))]
        if c.rival is not None:
            badges.append(badge(State("rival rejected", "good") if c.rival_rejected else State("rival fits", "odd")))
        if c.vacuous:
            badges.append(badge(State("cannot bite", "warn")))
        parts = [name, _value(c.predict, SIGN[c.relation]), _value(c.observe), _value(c.tolerance, "±")]
        parts += [[_value(c.rival), _small(c.rival_says)], slack(c), tag("div", badges, class_="badges")]
        rows.append(parts)
        rows += site.attempt(f"{v.claim.id}: {c.name}", lambda c=c: number_line(c))
    return [
        key(rival=any(c.rival is not None for c in v.evidence.cases), interval=False),
        table(heads, rows, class_="stack"),
    ]


def slack(c: Case) -> str:
    """How close the observation comes to breaking the case: its worst element, in words.

    Example:
        >>> slack(Case("b", 10.0, 0.01, relation="at most", vacuous="m >= 1e9"))
        'reaches 0.1 % of the bound'
    """
    predict, observe, tol = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (c.predict, c.observe, c.tolerance))
    )
    if observe.size == 0 or not (np.isfinite(observe).all() and np.isfinite(predict).all()):
        return "not finite"
    if c.relation == "equal":
        off = np.abs(observe - predict)
        if not np.any(tol > 0):
            return "exact" if not off.any() else f"off by {_digits(off.max())}"
        if np.any(off[tol == 0] > 0):
            return f"off by {_digits(off[tol == 0].max())} where nothing is allowed"
        share = float((off[tol > 0] / tol[tol > 0]).max())
        return f"uses {_percent(share)} of the tolerance" if share <= 1 else f"off by {_digits(share)} tolerances"
    if not (predict > 0).all() or not (observe >= 0).all():
        gap = (predict - observe if c.relation == "at most" else observe - predict).min()
        return f"{_digits(gap)} from the bound" if gap >= 0 else f"{_digits(-gap)} past the bound"
    ratio = observe / predict
    if c.relation == "at most":
        return f"reaches {_percent(float(ratio.max()))} of the bound"
    return f"{_digits(float(ratio.min()))} times the bound"


def _percent(share: float) -> str:
    return f"{_digits(100 * share)} %"


def _digits(v: float) -> str:
    return "∞" if math.isinf(v) else f"{v:.3g}"


def _words(v: Any) -> str:
    """A number, or a range of numbers, in words."""
    a = np.ravel(np.asarray(v, np.float64))
    low, high = (digits(float(f(a))) if a.size else "nothing" for f in (np.min, np.max))
    return low if low == high else f"{low} to {high}"


def _small(text: str) -> Html | None:
    return tag("div", text, class_="soft small") if text else None


def _value(v: Any, sign: str = "") -> Any:
    if v is None:
        return "–"
    a = np.asarray(v, np.float64)
    if a.ndim == 0:
        return f"{sign} {float(a):.5g}".replace("-", "−").replace("e−", "e-").strip()
    shape = " × ".join(str(n) for n in a.shape)
    return [f"{sign} {a.min():.3g} … {a.max():.3g}" if a.size else "", _small(f"{shape} values")]
