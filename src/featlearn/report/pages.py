"""The pages of the site, each a pure function of its values."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from featlearn.report import tables
from featlearn.report.cases import SIGN, cases_data, cases_picture
from featlearn.report.context import Site, provenance
from featlearn.report.html import (
    FILTER,
    Html,
    Row,
    badge,
    bar,
    bullets,
    command,
    document,
    facts,
    grid_table,
    nested,
    prose,
    table,
    tag,
)
from featlearn.report.model import (
    ClaimPage,
    ExperimentPage,
    State,
    by_work,
    covered,
    experiment_state,
    verdict_state,
)
from featlearn.report.plots import Picture
from featlearn.run.claim import VERDICTS, Case

MEANING = {
    "holds": "every observation agrees with its prediction and disagrees with the nearest wrong answer",
    "refuted": "an observation contradicts the statement as printed",
    "vacuous": "true, but too weak a bound to be violated at any size we can run; the page says where it would bite",
    "assumptions unmet": "a premise fails at every size we can run, so the statement says nothing here",
    "not established": "the check could not tell the statement from the nearest wrong answer",
    "data needed": "needs data or weights that nobody can bundle; the page gives the command",
    "not run": "can be checked, but was not",
}


def index(site: Site) -> str:
    """The first page: how much is covered, the verdicts, the works, how to reproduce."""
    n = len(site.entries)
    done = sum(_covered(site, id_) for id_ in site.entries)
    rows = [r for x in site.experiments for r in x.summary if r.printed is not None]
    good = sum(r.verdict == "reproduced" for r in rows)
    ran = sum(x.was_run for x in site.experiments)
    counts = Counter(c.verdict.verdict for c in site.claims)
    tiles = [
        (f"{done} of {n}", "entries covered"),
        (f"{ran} of {len(site.experiments)}", "experiments run"),
        (f"{good} of {len(rows)}", "printed numbers reproduced"),
        (f"{counts['holds']} of {len(site.claims)}", "claims hold"),
    ]
    heads = [("work", "wide"), ("entries covered", "left"), ("experiments run", "left"), ("claims", "wide")]
    body = []
    for w in site.works:
        xs = [x for x in site.experiments if by_work(x.experiment.id) == w.id]
        cs = [c for c in site.claims if by_work(c.verdict.claim.id) == w.id]
        name = [site.link("work", w.id, w.title, ""), tag("div", "; ".join(w.documents), class_="soft small")]
        part = bar(sum(_covered(site, e.id) for e in w.entries), len(w.entries))
        runs: Any = bar(sum(x.was_run for x in xs), len(xs)) if xs else tag("span", "none yet", class_="soft")
        body.append([name, part, runs, _counts(cs) if cs else tag("span", "none yet", class_="soft")])
    meanings = [(v, MEANING[v]) for v in VERDICTS]
    known = {w.id for w in site.works}
    own = [x for x in site.experiments if by_work(x.experiment.id) not in known]
    out: list[Any] = [
        tag("h1", "What was published, and what we got"),
        tag(
            "p",
            f"{_count(len(site.works), 'body of work', 'bodies of work')} on feature learning: every table, figure, "
            "theorem and method, beside what this software measured. A number is reproduced when it lies within its "
            "95 % interval over seeds, or within a tolerance stated in advance, of print. A claim holds only if its "
            "check would have caught the nearest wrong answer.",
            class_="lead",
        ),
        tag("div", [tag("div", tag("b", a), tag("span", b), class_="tile") for a, b in tiles], class_="tiles"),
        tag("h2", "Verdicts"),
        table(
            [("verdict", "left"), ("claims", "right"), ("meaning", "wide")],
            [[badge(verdict_state(v)), counts[v], text] for v, text in meanings],
        ),
        tag("h2", "Works"),
        table(heads, body),
        _list_experiments(site, own, "Other experiments", ""),
        tag("h2", "How to reproduce"),
        tag("p", "Each page ends with the exact command that gives it. The usual ones:"),
        command(
            "featlearn list                               # works, experiments, claims and their state\n"
            "featlearn run emergence/table1               # preset small: a minute or so on two cores\n"
            "featlearn run emergence/table1 --preset paper\n"
            "featlearn verify emergence                   # judge every claim of one work\n"
            "featlearn report                             # this site, from your own runs"
        ),
    ]
    return document("featlearn: published and measured", [tag("span", "featlearn", class_="brand")], out, "")


def work(site: Site, w: Any) -> str:
    """One work: what it is about, its entries with their state, its experiments and claims."""
    done = sum(_covered(site, e.id) for e in w.entries)
    kinds, checks = (list(dict.fromkeys(getattr(e, k) for e in w.entries)) for k in ("kind", "check_kind"))
    rows = []
    for e in w.entries:
        is_covered = _covered(site, e.id)
        states = _states(site, e.id)
        says = tag("div", _short(e.says, 190), class_="small")
        cells = [site.link("entry", e.id, _local(e.id, w.id)), e.kind, e.check_kind, says, states]
        rows.append(Row.of(cells, data_kind=e.kind, data_check=e.check_kind, data_state=_yes(is_covered)))
    heads = [("entry", "name"), ("kind", "left"), ("check", "left"), ("what it says", "wide"), ("state", "left")]
    xs = [x for x in site.experiments if by_work(x.experiment.id) == w.id]
    cs = [c for c in site.claims if by_work(c.verdict.claim.id) == w.id]
    filters = [
        tag(
            "label",
            tag("span", "search", class_="hide"),
            tag("input", name_="text", type="search", placeholder="search"),
        ),
        _select("kind", "any kind", kinds),
        _select("check", "any check", checks),
        _select("state", "covered or not", ["covered", "open"]),
        tag("span", id="count", class_="soft small", aria_live="polite"),
    ]
    claim_rows = [
        [
            site.link("claim", c.verdict.claim.id, _local(c.verdict.claim.id, w.id)),
            tag("div", _short(c.verdict.claim.says, 160), class_="small"),
            _verdict_badges(c),
        ]
        for c in cs
    ]
    out = [
        tag("p", w.id, class_="kicker"),
        tag("h1", w.title),
        tag("p", w.about, class_="lead"),
        facts([("sources", "; ".join(w.documents)), ("covered", bar(done, len(w.entries)))]),
        tag("details", tag("summary", "Notes on the sources"), prose(w.notes)) if w.notes else None,
        _list_experiments(site, xs, "Experiments", "../"),
        tag("h2", "Claims") if cs else None,
        table([("claim", "name"), ("statement", "wide"), ("verdict", "left")], claim_rows) if cs else None,
        tag("h2", "Entries"),
        tag("p", "Everything the work states or shows, with how it can be checked and what came of it."),
        tag("form", filters, id="filter", hidden=True),
        table(heads, rows, id="entries"),
    ]
    return document(f"{w.title} · featlearn", [_home(site), w.title], out, "../", FILTER)


def entry(site: Site, w: Any, e: Any) -> str:
    """One inventory entry: what the print says, and links to what checks it."""
    xs, cs = site.experiments_of.get(e.id, []), site.claims_of.get(e.id, [])
    checked: list[Any] = []
    if xs or cs:
        rows = [
            ["experiment", _to_experiment(site, x), x.experiment.title, badge(experiment_state(x, e.id))] for x in xs
        ]
        rows += [["claim", _to_claim(site, c), _short(c.verdict.claim.says, 140), _verdict_badges(c)] for c in cs]
        checked.append(table([("by", "left"), ("id", "name"), ("what", "wide"), ("state", "left")], rows))
    else:
        checked.append(tag("p", "Nothing covers this entry yet.", class_="soft"))
    findings = [*e.ambiguities, *([e.ocr_or_source_issue] if e.ocr_or_source_issue else [])]
    out = [
        tag("p", e.kind, class_="kicker"),
        tag("h1", e.id),
        tag("div", _state_list(site, e.id), class_="badges"),
        tag("div", prose(e.says), class_="statement"),
        facts([("where", e.where), ("check", e.check_kind), ("cost", e.cost)]),
        tag("h2", "Checked by"),
        *checked,
        *_printed(e),
        tag("h2", "How it can be checked"),
        prose(e.check),
        *_section("Setting", nested(e.setting) if e.setting else None),
        *_section("Errors and open readings of the print", bullets(findings)),
        *_section("Left open by the print", bullets(e.unstated)),
        *_section("Checked by hand", nested(e.verified_by_hand) if e.verified_by_hand else None),
        *_section("What the released code does", nested(e.from_code) if e.from_code else None),
    ]
    trail = [_home(site), site.link("work", w.id, w.title), _local(e.id, w.id)]
    return document(f"{e.id} · featlearn", trail, out, "../")


def experiment(site: Site, x: ExperimentPage) -> str:
    """One experiment: reported, settings, ours against print, pictures, command, deviations, provenance."""
    ex, t = x.experiment, x.table
    w = next((w for w in site.works if w.id == by_work(ex.id)), None)
    reported = []
    for id_ in ex.reproduces:
        e = site.entries.get(id_)
        where = tag("div", e.where, class_="soft small") if e else None
        reported.append([site.link("entry", id_, e.id if e else id_), [e.says if e else "", where]])
    doc = (getattr(sys.modules.get(getattr(ex.run_cell, "__module__", "")), "__doc__", None) or "").strip()
    notes = []
    if x.stale:
        notes.append("These rows come from another version of this experiment; run it again.")
    for n, what in (
        ((len(t.failed), "failed"), (len(t.diverged), "diverged"), (len(t.missing), "are missing")) if t else ()
    ):
        if n:
            notes.append(f"{_count(n, 'cell', 'cells')} {what}; the numbers below are without them.")
    if x.was_run and any(r.n == 1 for r in x.summary):
        notes.append("Rows with one seed have no interval.")
    run = x.command or f"featlearn run {ex.id}" + (f" --preset {x.preset}" if x.preset else "")
    results: list[Any] = []
    if x.was_run:
        grid = tables.long(x.summary)
        results.append(
            grid_table(grid, verdict_state) if x.summary else tag("p", "No summary was made.", class_="soft")
        )
        results += site.attempt(ex.id, lambda: _draw(site, x))
    else:
        results.append(tag("div", tag("p", "Not run. The command below gives this page its numbers."), class_="note"))
    dev = [[d.what, d.printed, d.ours, d.why] for d in ex.deviations]
    cells = [("preset", x.preset), ("rows", len(t.rows) if t and t.rows else None), ("version", ex.version)]
    out = [
        tag("p", ["experiment ", tag("span", ex.id, style="text-transform:none")], class_="kicker"),
        tag("h1", ex.title),
        tag(
            "div",
            badge(experiment_state(x)),
            tag("span", x.preset and f"preset {x.preset}", class_="soft"),
            class_="badges",
        ),
        *[tag("div", tag("p", text), class_="note", role="note") for text in notes],
        tag("h2", "What the work reports"),
        table([("entry", "name"), ("says", "wide")], reported) if reported else tag("p", "An experiment of its own."),
        tag("details", tag("summary", "About this experiment"), prose(doc)) if doc else None,
        tag("h2", "Ours against print"),
        *results,
        tag("h2", "Command"),
        command(run),
        *_section("Settings", _config(x)),
        tag("h2", "Where we differ from the print"),
        table([("what", "left"), ("print", "wide"), ("ours", "wide"), ("why", "wide")], dev)
        if dev
        else tag("p", "Nowhere that we know of.", class_="soft"),
        tag("h2", "Provenance"),
        provenance(x.provenance, cells),
    ]
    trail = [_home(site), site.link("work", w.id, w.title) if w else None, ex.id]
    return document(f"{ex.title} · featlearn", [c for c in trail if c is not None], out, "../")


def claim(site: Site, c: ClaimPage) -> str:
    """One claim: statement, print where it is wrong, assumptions, cases, picture, command."""
    v = c.verdict
    cl, ev = v.claim, v.evidence
    w = next((w for w in site.works if w.id == by_work(cl.id)), None)
    entries = []
    for id_ in cl.entries:
        e = site.entries.get(id_)
        entries.append([site.link("entry", id_), e.kind if e else "", e.where if e else ""])
    printed = cl.printed
    vacuous = [k for k in ev.cases if k.vacuous]
    assumptions = [
        [a.says, a.detail, badge(State("met", "good") if a.met else State("unmet", "warn"))] for a in ev.assumptions
    ]
    pictures = site.attempt(cl.id, lambda: _draw_claim(site, c)) if ev.cases else []
    out = [
        tag("p", "claim", class_="kicker"),
        tag("h1", cl.id),
        tag("div", _verdict_badges(c), class_="badges"),
        tag("div", prose(cl.says), class_="statement"),
        tag("p", v.why),
        *([tag("div", prose(printed), class_="note", role="note")] if printed else []),
        tag("p", ev.comment) if ev.comment else None,
        *_section("How far the bound is from biting", bullets([f"{k.name}: {k.vacuous}" for k in vacuous])),
        *pictures,
        *_section("Cases", _cases(ev.cases) if ev.cases else tag("p", "No case was evaluated.", class_="soft")),
        *_section(
            "Premises at the sizes used",
            table([("premise", "wide"), ("here", "left"), ("", "left")], assumptions) if assumptions else None,
        ),
        tag("h2", "Covers"),
        table([("entry", "name"), ("kind", "left"), ("where", "wide")], entries),
        tag("h2", "Command"),
        command(c.command or f"featlearn verify {cl.id}"),
        tag("h2", "Provenance"),
        provenance(c.provenance, [("check", _seconds(v.seconds))]),
    ]
    trail = [_home(site), site.link("work", w.id, w.title) if w else None, cl.id]
    return document(f"{cl.id} · featlearn", [t for t in trail if t is not None], out, "../")


def _draw(site: Site, x: ExperimentPage) -> list[Html]:
    drawn = x.experiment.draw(x.table) or {}
    out = []
    for id_, picture in drawn.items():
        e = site.entries.get(id_.partition("#")[0])
        caption = f"{id_}: {_short(e.says, 220)}" if e else f"{x.experiment.title} ({id_})"
        out.append(site.picture(f"experiment.{x.experiment.id}.{id_}", picture, caption))
    return out


def _draw_claim(site: Site, c: ClaimPage) -> list[Html]:
    cl, ev = c.verdict.claim, c.verdict.evidence
    drawn = cl.draw(ev) if cl.draw else cases_picture(ev)
    if drawn is None:
        return []
    picture = drawn if isinstance(drawn, Picture) else Picture(drawn, data=cases_data(ev))
    return [site.picture(f"claim.{cl.id}", picture, f"Prediction, observation and rival of {cl.id}.")]


def _cases(cases: Sequence[Case]) -> Html:
    heads = [("case", "wide"), ("prediction", "right"), ("", "left"), ("observed", "right"), ("tolerance", "right")]
    heads += [("rival", "right"), ("the rival is", "wide"), ("agreement", "left"), ("state", "left")]
    rows = []
    for c in cases:
        name = [c.name, tag("div", f"in {c.unit}", class_="soft small") if c.unit else None]
        state = State("agrees", "good") if c.ok else State("disagrees", "bad")
        badges = [badge(state)]
        if c.rival is not None:
            badges.append(badge(State("rival rejected", "good") if c.rival_rejected else State("rival fits", "odd")))
        if c.vacuous:
            badges.append(badge(State("cannot bite", "warn")))
        sign = SIGN[c.relation]
        cells = [name, _value(c.predict), f"{sign} observed" if sign == "=" else f"{_flip(sign)} observed"]
        cells += [_value(c.observe), _value(c.tolerance), _value(c.rival), c.rival_says, slack(c)]
        rows.append([*cells, tag("div", badges, class_="badges")])
    return table(heads, rows)


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
        return f"uses {_percent(float((off[tol > 0] / tol[tol > 0]).max()))} of the tolerance"
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


def _flip(sign: str) -> str:
    return "≥" if sign == "≤" else "≤"


def _value(v: Any) -> str:
    if v is None:
        return "–"
    a = np.asarray(v, np.float64)
    if a.ndim == 0:
        return f"{float(a):.5g}".replace("-", "−", 1)
    shape = " × ".join(str(n) for n in a.shape)
    return f"{shape} values, {a.min():.3g} … {a.max():.3g}" if a.size else "no values"


def _config(x: ExperimentPage) -> Html | None:
    if x.config is None or not is_dataclass(x.config):
        return nested(x.config) if x.config else None  # type: ignore[return-value]
    paper = x.experiment.presets.get("paper")
    same = paper is not None and type(paper) is type(x.config) and x.preset != "paper"
    rows = []
    for f in fields(x.config):
        cells = [tag("code", f.name), _setting(getattr(x.config, f.name))]
        if same:
            theirs = getattr(paper, f.name)
            cells.append(
                _setting(theirs) if theirs != getattr(x.config, f.name) else tag("span", "same", class_="soft")
            )
        rows.append(cells)
    heads = [("field", "name"), ("value", "left"), *([("preset paper", "left")] if same else [])]
    return table(heads, rows)


def _setting(v: Any) -> str:
    if isinstance(v, tuple | list):
        return ", ".join(_setting(i) for i in v) or "none"
    return str(nested(v)) if not isinstance(v, str) else v


def _printed(e: Any) -> list[Any]:
    if not e.printed:
        return _section("Printed values", nested(e.numbers) if e.numbers else None)
    metrics = list(dict.fromkeys((p.metric, p.unit) for p in e.printed))
    settings = any(p.setting for p in e.printed)
    if len(metrics) > 8:
        heads = [*([("setting", "left")] if settings else []), ("row", "left"), ("metric", "left"), ("value", "right")]
        rows = [[*([p.setting] if settings else []), p.row, _metric(p.metric, p.unit), _cell(p)] for p in e.printed]
        return _section("Printed numbers", table(heads, rows))
    at = {(p.setting, p.row, p.metric, p.unit): p for p in e.printed}
    heads = [*([("setting", "left")] if settings else []), ("row", "left"), *((_metric(*m), "right") for m in metrics)]
    rows = [
        [*([s] if settings else []), r, *(_cell(at.get((s, r, *m))) for m in metrics)]
        for s, r in dict.fromkeys((p.setting, p.row) for p in e.printed)
    ]
    return _section("Printed numbers", table(heads, rows))


def _metric(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _cell(p: Any) -> str:
    if p is None:
        return "–"
    text = f"{p.value:g}".replace("-", "−", 1)
    return text if p.spread is None else f"{text} ± {p.spread:g}"


def _section(title: str, content: Any) -> list[Any]:
    return [tag("h2", title), content] if content else []


def _list_experiments(site: Site, xs: Sequence[ExperimentPage], title: str, root: str) -> Html | None:
    if not xs:
        return None
    rows = [
        [
            site.link("experiment", x.experiment.id, root=root),
            x.experiment.title,
            x.preset or "–",
            badge(experiment_state(x)),
        ]
        for x in xs
    ]
    heads = [("experiment", "name"), ("title", "wide"), ("preset", "left"), ("state", "left")]
    return Html(tag("h2", title) + table(heads, rows))


def _state_list(site: Site, id_: str) -> list[Html]:
    states = [experiment_state(x, id_) for x in site.experiments_of.get(id_, [])]
    states += [verdict_state(c.verdict.verdict) for c in site.claims_of.get(id_, [])]
    counts = Counter(states)
    return [badge(State(f"{n} × {s.text}" if n > 1 else s.text, s.cls)) for s, n in counts.items()]


def _states(site: Site, id_: str) -> Html:
    badges = _state_list(site, id_)
    return tag("div", badges, class_="badges") if badges else tag("span", "open", class_="soft small")


def _verdict_badges(c: ClaimPage) -> Html:
    v = c.verdict
    expected = None
    if not v.as_expected:
        expected = badge(State(f"expected: {v.claim.expected}", "bad"))
    elif v.verdict != "holds":
        expected = tag("span", "as expected", class_="soft small")
    return tag("div", badge(verdict_state(v.verdict)), expected, class_="badges")


def _counts(cs: Sequence[ClaimPage]) -> Html:
    counts = Counter(c.verdict.verdict for c in cs)
    shown = [badge(State(f"{counts[v]} {v}", verdict_state(v).cls)) for v in VERDICTS if counts[v]]
    return tag("div", shown, class_="badges")


def _covered(site: Site, id_: str) -> bool:
    return covered(id_, site.experiments_of.get(id_, []), site.claims_of.get(id_, []))


def _home(site: Site) -> Html:
    return site.link("index", "", "featlearn")


def _to_experiment(site: Site, x: ExperimentPage) -> Html:
    return site.link("experiment", x.experiment.id)


def _to_claim(site: Site, c: ClaimPage) -> Html:
    return site.link("claim", c.verdict.claim.id)


def _select(name: str, label: str, values: Sequence[str]) -> Html:
    options = [tag("option", label, value=""), *(tag("option", v, value=v) for v in values)]
    return tag("label", tag("span", name, class_="hide"), tag("select", options, name_=name))


def _yes(is_covered: bool) -> str:
    return "covered" if is_covered else "open"


def _local(id_: str, work_id: str) -> str:
    return id_.removeprefix(f"{work_id}.").removeprefix(f"{work_id}/")


def _short(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _seconds(v: float) -> str:
    from featlearn.report.html import seconds

    return seconds(v)
