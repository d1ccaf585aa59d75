"""The page of a claim: what the source says, and what came of each of its statements."""

from collections.abc import Sequence
from typing import Any

from featlearn.lab.claim import HITS
from featlearn.lab.verdicts import Judged, JudgedStatement
from featlearn.report.context import Site, provenance
from featlearn.report.html import Html, badge, command, document, facts, prose, seconds, table, tag
from featlearn.report.model import ClaimPage, State, verdict_state
from featlearn.report.numberline import digits, key
from featlearn.report.parts import FORMS, about, link_list, note, section, trail_of, verdict_badges
from featlearn.report.statements import exact, levels, limits, number_line

BLIND = {
    "inconclusive": "Inconclusive: what was observed cannot tell the statement from wrong formulas.",
    "too weak to test": "Too weak to test: wrong formulas, or an object that has learnt nothing, meet it too.",
}
"""What a reader must know of an outcome that decides nothing."""

OURS = (
    "What is contradicted here is a threshold of ours for words of the source, at settings that are not the reported "
    "ones: nothing that the paper says is shown to be wrong."
)

STALE = {
    "code": "The code of this claim has changed since the verdict; the command below judges it again.",
    "stale rows": "Other code than today's made the rows that this claim reads; run its experiments, then verify it.",
    "rows": "The rows that this claim reads have changed since the verdict; the command below judges it again.",
}

PREMISES = {"yes": "good", "no": "bad", "not decidable": "warn", "other size": "info"}


def claim(site: Site, c: ClaimPage) -> str:
    """Verdict, sentence, accusation, statements with their number lines, premises, command, provenance."""
    j = c.judged
    run = c.command or f"featlearn verify {j.id}"
    blind = [o for o in BLIND if o in (j.verdict, j.corrected) or any(s.outcome == o for s in j.statements)]
    premises = [[says, detail, badge(State(met, PREMISES.get(met, "odd")))] for says, detail, met in j.premises]
    broken = j.error.strip().splitlines()[-1] if j.error else ""
    out = [
        tag("p", "claim", class_="kicker"),
        tag("h1", j.id),
        verdict_badges(c),
        tag("div", prose(j.says), class_="statement"),
        note(tag("p", STALE[c.stale])) if c.stale else None,
        note(tag("p", f"The check itself broke: {broken}"), bad=True) if broken else None,
        _not_judged(j) if not j.statements and not broken else None,
        *([_accusation(j)] if j.accuses else []),
        note(tag("p", OURS)) if j.verdict == "contradicted" and not j.accuses else None,
        *[_blind(j, o) for o in blind],
        tag("p", j.remarks) if j.remarks else None,
        tag("div", pictures, class_="pictures") if (pictures := site.pictures(j.id)) else None,
        *section("Statements", _statements(site, j) if j.statements else None),
        *section(
            "Premises at the settings used",
            table([("premise", "wide"), ("here", "left"), ("met", "left")], premises, class_="stack")
            if premises
            else None,
        ),
        tag("p", "Judged on the rows of ", link_list([site.link("experiment", x) for x in j.reads]), ".")
        if j.reads
        else None,
        *about(site, j.entries),
        tag("h2", "Command"),
        command(run),
        tag("h2", "Provenance"),
        tag("div", provenance(c.provenance, [("check", seconds(j.seconds) if j.seconds else "")]), class_="small"),
    ]
    return document(f"{j.id} · featlearn", trail_of(site, j.id), out, "../")


def _not_judged(j: Judged) -> Html:
    """Why there is no statement to show."""
    words = "It needs data that nobody can bundle" if j.verdict == "data needed" else "Not judged yet"
    if j.why.startswith("featlearn "):
        return note(tag("p", f"{words}; this command brings what is missing:"), command(j.why))
    return note(tag("p", f"{words}{': ' if j.why else '.'}{j.why}"))


def _accusation(j: Judged) -> Html:
    a = j.accuses
    return note(
        tag("p", tag("b", HITS.get(a["hits"], a["hits"]))),
        tag("blockquote", tag("p", a["quote"]), tag("p", a["place"], class_="small")),
        facts([("read as", prose(a["reading"])), ("why it is wrong", prose(a["derivation"]))]),
        bad=True,
    )


def _blind(j: Judged, outcome: str) -> Html:
    names = [s.name for s in j.statements if s.outcome == outcome]
    which = f" Of its {len(j.statements)} statements this concerns: {'; '.join(names)}." if names else ""
    return note(tag("p", f"This claim cannot tell wrong formulas apart. {BLIND[outcome]}{which}"))


def _statements(site: Site, j: Judged) -> list[Html]:
    statements = j.statements
    heads = [("statement", "wide"), ("predicted", "mid"), ("observed", "mid"), ("rival", "mid")]
    trivial = any(s.trivial for s in statements)
    heads += [*([("learnt nothing", "left")] if trivial else []), ("outcome", "left")]
    rows: list[Any] = []
    for s in statements:
        badges = [badge(verdict_state(s.outcome))]
        if not s.as_expected:
            badges.append(badge(State(f"expected: {s.expect}", "bad")))
        source = [tag("div", f"{FORMS[s.form]}; {s.source}", class_="soft small")]
        rival: list[Any] = [tag("span", "none: a bound without a competitor", class_="soft")]
        if s.rival or s.rival_says:
            rival = [_span(s.rival), _small(s.rival_says)]
        why = s.why if s.outcome not in ("confirmed", "contradicted") or s.of > 1 else ""
        seen = [*observed(s), _small(levels(s, len(statements)))]
        line: list[Any] = [[s.name, *source], predicted(s), seen, rival]
        line += [s.trivial or "–"] if trivial else []
        rows.append([*line, [tag("div", badges, class_="badges"), _small(why)]])
        rows += site.attempt(f"{j.id}: {s.name}", lambda s=s: number_line(s))
    shown = key(any(s.trivial_value for s in statements), any(s.rival for s in statements))
    return [shown, table(heads, rows, class_="stack")]


def predicted(s: JudgedStatement) -> list[Any]:
    """What the statement allows: relation, value or range of values, margin, and what it is about."""
    sign = {"equal": "=", "at most": "≤", "at least": "≥", "between": ""}[s.relation]
    text = f"{sign} {_span(s.value)}".strip()
    if s.upper is not None:
        text += f" to {digits(s.upper)}"
    if s.margin:
        text += f" ± {digits(s.margin, 2)}"
    return [text, _small(_unit(s))]


def _unit(s: JudgedStatement) -> str:
    what = s.quantity if s.quantity not in ("real", "positive") else ""
    return f"{what} in {s.unit}".strip() if s.unit else what


def observed(s: JudgedStatement) -> list[Any]:
    """What was seen: a number with its interval, or a range, how many count, and the one nearest to failing."""
    if not s.observed:
        return ["–"]
    if len(s.observed) == 1 and not exact(s, 0):
        low, high = ("open" if e is None else digits(e) for e in (s.low[0], s.high[0]))
        text = f"{digits(s.observed[0])} [{low}, {high}]"
    else:
        text = _span(s.observed)
    more = []
    if s.of > 1:
        many = f"{s.kept} of {s.of}" if s.kept != s.of else f"{s.of}"
        more.append(f"{many} elements ({s.axis})" if s.axis else f"{many} elements")
    if s.where:
        more.append(f"those with {s.where}")
    if len(s.observed) > 1 or (s.relation == "equal" and exact(s, 0)):
        more.append(_nearest(s))
    return [text, _small("; ".join(m for m in more if m))]


def _nearest(s: JudgedStatement) -> str:
    """The element nearest to failing, or beyond its limit, in words."""
    if s.relation == "equal":
        most = max(abs(o - v) for o, v in zip(s.observed, s.value, strict=True))
        return f"off by {digits(most, 2)} at most" if most else "the same to 12 digits"
    ends = [(o, *limits(s, i)) for i, o in enumerate(s.observed)]
    _, seen, limit = max([(low - o, o, low) for o, low, _ in ends] + [(o - high, o, high) for o, _, high in ends])
    return f"nearest to the limit: {digits(seen)} for {digits(limit)}"


def _span(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = digits(min(values)), digits(max(values))
    return low if low == high else f"{low} … {high}"


def _small(text: str) -> Html | None:
    return tag("div", text, class_="soft small") if text else None
