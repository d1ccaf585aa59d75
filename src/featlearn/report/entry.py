"""The page of an inventory entry: its one verdict, what the paper says, and what checks it."""

from collections.abc import Mapping, Sequence
from typing import Any

from featlearn.report.context import Site
from featlearn.report.html import Html, badge, bullets, command, document, facts, inline, nested, prose, table, tag
from featlearn.report.model import by_work, experiment_state, verdict_state
from featlearn.report.parts import citations, entry_badges, home, local, section, short, verdict_badges


def entry(site: Site, w: Any, e: Any) -> str:
    """One inventory entry: its verdict with scope and why, what the paper says, and links to what checks it."""
    state = site.states[e.id]
    findings = [*e.ambiguities, *([e.ocr_or_source_issue] if e.ocr_or_source_issue else [])]
    out = [
        tag("p", e.kind, class_="kicker"),
        tag("h1", e.id),
        entry_badges(state),
        tag("p", _why(state.why), class_="soft") if state.why else None,
        tag("div", prose(e.says), class_="statement"),
        facts([("where", e.where), ("check", e.check_kind), ("cost", e.cost)]),
        tag("h2", "Checked by"),
        *_checked_by(site, e.id),
        tag("div", site.pictures_of[e.id], class_="pictures") if e.id in site.pictures_of else None,
        *_reported(e),
        *section("Derived from the reported values", nested(e.derived) if e.derived else None),
        *section("Runs of our own", nested(e.own_runs) if e.own_runs else None),
        tag("h2", "How it can be checked"),
        prose(e.check),
        *section("Each check", _checks(site, e.checks) if e.checks else None),
        *section("Setting", nested(e.setting) if e.setting else None),
        *section("Errors and open readings of the paper", bullets(findings)),
        *section("Left open by the paper", bullets(e.unstated)),
        *section("Checked by hand", nested(e.verified_by_hand) if e.verified_by_hand else None),
        *section("What the released code does", nested(e.from_code) if e.from_code else None),
        *citations(w),
    ]
    trail = [home(site), site.link("work", w.id, w.title), local(e.id, w.id)]
    return document(f"{e.id} · featlearn", trail, out, "../")


def _why(why: str) -> Any:
    """A reason in words; where it is a command, the command."""
    if why.startswith("featlearn "):
        return ["This command judges it: ", tag("code", why)]
    return inline(why)


def _checked_by(site: Site, id_: str) -> list[Any]:
    xs, cs = site.experiments_of.get(id_, []), site.claims_of.get(id_, [])
    if not xs and not cs:
        return [tag("p", "Nothing covers this entry yet.", class_="soft")]
    rows = [["claim", site.link("claim", c.id), inline(short(c.says, 140)), verdict_badges(c)] for c in cs]
    rows += [
        ["experiment", site.link("experiment", x.experiment.id), x.experiment.title, badge(experiment_state(x, id_))]
        for x in xs
    ]
    lines = [f"featlearn verify {id_}"] if cs else []
    lines += [f"featlearn run {x.experiment.id} --preset paper" for x in xs]
    found = table([("by", "left"), ("id", "name"), ("what", "wide"), ("state", "left")], rows, class_="stack")
    return [found, command("\n".join(lines))]


def _checks(site: Site, checks: Mapping[str, Sequence[str]]) -> Html:
    """Each single check in words, with the statements that make it or the reason why none does."""
    rows = []
    for words, places in checks.items():
        made = [tag("div", _place(site, p)) for p in ([places] if isinstance(places, str) else places)]
        rows.append([inline(words), made])
    return table([("check", "wide"), ("made by", "wide")], rows, class_="stack")


def _place(site: Site, place: str) -> list[Any]:
    """A statement with its outcome and a link to its claim, or the reason why there is none."""
    if place.startswith("reason: "):
        return [tag("span", "not made: ", class_="soft"), inline(place.removeprefix("reason: "))]
    claim, _, name = place.partition(": ")
    c = site.claim_of.get(claim)
    found = next((s for s in getattr(c.judged, "statements", ()) if s.name == name), None) if c else None
    text = [site.link("claim", claim), f": {name} " if name else " "]
    if found is not None:
        return [*text, badge(verdict_state(found.outcome))]
    known = c is not None or by_work(claim) not in {w.id for w in site.works}
    return [*text, None if known and not name else badge(verdict_state("not run"))]


def _reported(e: Any) -> list[Any]:
    if not e.reported:
        return section("Reported values", nested(e.numbers) if e.numbers else None)
    return section("Reported numbers", reported_table(e))


def reported_table(e: Any) -> Html:
    """The reported numbers of an entry: metrics side by side where there are few."""
    metrics = list(dict.fromkeys((p.metric, p.unit) for p in e.reported))
    settings = any(p.setting for p in e.reported)
    digits = _digits(e.reported)
    if len(metrics) > 8:
        heads = [*([("setting", "left")] if settings else []), ("row", "left"), ("metric", "left"), ("value", "right")]
        rows = [
            [*([p.setting] if settings else []), p.row, _metric(p.metric, p.unit), _shown(p, digits)]
            for p in e.reported
        ]
        return table(heads, rows)
    at = {(p.setting, p.row, p.metric, p.unit): p for p in e.reported}
    heads = [*([("setting", "left")] if settings else []), ("row", "left"), *((_metric(*m), "right") for m in metrics)]
    rows = [
        [*([s] if settings else []), r, *(_shown(at.get((s, r, *m)), digits) for m in metrics)]
        for s, r in dict.fromkeys((p.setting, p.row) for p in e.reported)
    ]
    return table(heads, rows)


def _metric(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _shown(p: Any, digits: Mapping[tuple[str, str], int]) -> str:
    if p is None:
        return "–"
    n = digits[p.metric, p.unit]
    text = (f"{p.value:.{n}f}" if n <= 6 else f"{p.value:g}").replace("-", "−", 1)
    return text if p.spread is None else f"{text} ± {p.spread:g}"


def _digits(reported: Sequence[Any]) -> dict[tuple[str, str], int]:
    """Decimals that show every reported value of a metric: a column of one length."""
    out: dict[tuple[str, str], int] = {}
    for p in reported:
        decimals = 9 if "e" in repr(p.value) else len(repr(p.value).partition(".")[2].rstrip("0"))
        out[p.metric, p.unit] = max(out.get((p.metric, p.unit), 0), decimals)
    return out
