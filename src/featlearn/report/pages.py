"""The pages that lead to results: the index, one per work, one per inventory entry."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from featlearn.lab.pending import VERDICTS
from featlearn.report.context import Site
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
    inline,
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
from featlearn.report.parts import count, home, section, short, verdict_badges

MEANING = {
    "holds": "every observation agrees with its prediction and disagrees with the nearest wrong answer",
    "refuted": "an observation contradicts the claim as its page words it; the badge beside it says what of the paper "
    "that hits: its statement, a proof step, a number, a remark, or nothing where the claim is a question of ours",
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
    rows = [r for x in site.experiments for r in x.summary if r.reported is not None]
    good = sum(r.verdict == "reproduced" for r in rows)
    ran = sum(x.was_run for x in site.experiments)
    counts = Counter(c.verdict.verdict for c in site.claims)
    tiles = [
        (f"{done} of {n}", "entries covered"),
        (f"{ran} of {len(site.experiments)}", "experiments run"),
        (f"{good} of {len(rows)}", "reported numbers reproduced"),
        (f"{counts['holds']} of {len(site.claims)}", "claims hold"),
    ]
    heads = [("work", "wide"), ("entries covered", "left"), ("experiments run", "left"), ("claims", "text")]
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
            f"{count(len(site.works), 'body of work', 'bodies of work')} on feature learning: every table, figure, "
            "theorem and method, beside what this software measured. A number is reproduced when it lies within its "
            "95 % interval over seeds, or within a tolerance stated in advance, of the reported one. A claim holds "
            "only if its check would have caught the nearest wrong answer.",
            class_="lead",
        ),
        tag("div", [tag("div", tag("b", a), tag("span", b), class_="tile") for a, b in tiles], class_="tiles"),
        _surprises(site),
        tag("h2", "Works"),
        table(heads, body, class_="stack"),
        tag("h2", "What the verdicts mean"),
        table(
            [("verdict", "left"), ("claims", "right"), ("meaning", "wide")],
            [[badge(verdict_state(v)), counts[v], text] for v, text in meanings],
            class_="stack",
        ),
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
    return document("featlearn: published and measured", [tag("b", "featlearn")], out, "")


def work(site: Site, w: Any) -> str:
    """One work: what it is about, its entries with their state, its experiments and claims."""
    done = sum(_covered(site, e.id) for e in w.entries)
    kinds, checks = (list(dict.fromkeys(getattr(e, k) for e in w.entries)) for k in ("kind", "check_kind"))
    rows = []
    for e in w.entries:
        is_covered = _covered(site, e.id)
        states = _states(site, e.id)
        says = tag("div", inline(short(e.says, 190)), class_="small")
        cells = [site.link("entry", e.id, _local(e.id, w.id)), e.kind, e.check_kind, says, states]
        rows.append(Row.of(cells, data_kind=e.kind, data_check=e.check_kind, data_state=_yes(is_covered)))
    heads = [("entry", "name"), ("kind", "left"), ("check", "name"), ("what it says", "wide"), ("state", "left")]
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
            tag("div", inline(short(c.verdict.claim.says, 160)), class_="small"),
            verdict_badges(c),
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
        table([("claim", "name"), ("statement", "wide"), ("verdict", "left")], claim_rows, class_="stack")
        if cs
        else None,
        tag("h2", "Entries"),
        tag("p", "Everything the work states or shows, with how it can be checked and what came of it."),
        tag("form", filters, id="filter", hidden=True),
        table(heads, rows, id="entries", class_="stack"),
    ]
    return document(f"{w.title} · featlearn", [home(site), w.title], out, "../", FILTER)


def entry(site: Site, w: Any, e: Any) -> str:
    """One inventory entry: what the paper says, and links to what checks it."""
    xs, cs = site.experiments_of.get(e.id, []), site.claims_of.get(e.id, [])
    checked: list[Any] = []
    if xs or cs:
        rows = [
            ["experiment", _to_experiment(site, x), x.experiment.title, badge(experiment_state(x, e.id))] for x in xs
        ]
        rows += [["claim", _to_claim(site, c), inline(short(c.verdict.claim.says, 140)), verdict_badges(c)] for c in cs]
        checked.append(
            table([("by", "left"), ("id", "name"), ("what", "wide"), ("state", "left")], rows, class_="stack")
        )
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
        tag("div", site.pictures_of[e.id], class_="pictures") if e.id in site.pictures_of else None,
        *_reported(e),
        *section("Derived from the reported values", nested(e.derived) if e.derived else None),
        *section("Runs of our own", nested(e.own_runs) if e.own_runs else None),
        tag("h2", "How it can be checked"),
        prose(e.check),
        *section("Setting", nested(e.setting) if e.setting else None),
        *section("Errors and open readings of the paper", bullets(findings)),
        *section("Left open by the paper", bullets(e.unstated)),
        *section("Checked by hand", nested(e.verified_by_hand) if e.verified_by_hand else None),
        *section("What the released code does", nested(e.from_code) if e.from_code else None),
    ]
    trail = [home(site), site.link("work", w.id, w.title), _local(e.id, w.id)]
    return document(f"{e.id} · featlearn", trail, out, "../")


def _surprises(site: Site) -> Html | None:
    """Verdicts other than the ones we stand behind, where a reader sees them first."""
    odd = [c for c in site.claims if not c.verdict.as_expected and c.verdict.verdict != "not run"]
    if not odd:
        return None
    text = f"{count(len(odd), 'verdict differs', 'verdicts differ')} from the expected one: "
    links = [x for i, c in enumerate(odd) for x in (", " if i else "", site.link("claim", c.verdict.claim.id, root=""))]
    return tag("div", tag("p", text, links), class_="note bad", role="note")


def _reported(e: Any) -> list[Any]:
    if not e.reported:
        return section("Reported values", nested(e.numbers) if e.numbers else None)
    metrics = list(dict.fromkeys((p.metric, p.unit) for p in e.reported))
    settings = any(p.setting for p in e.reported)
    digits = _digits(e.reported)
    if len(metrics) > 8:
        heads = [*([("setting", "left")] if settings else []), ("row", "left"), ("metric", "left"), ("value", "right")]
        rows = [
            [*([p.setting] if settings else []), p.row, _metric(p.metric, p.unit), _cell(p, digits)] for p in e.reported
        ]
        return section("Reported numbers", table(heads, rows))
    at = {(p.setting, p.row, p.metric, p.unit): p for p in e.reported}
    heads = [*([("setting", "left")] if settings else []), ("row", "left"), *((_metric(*m), "right") for m in metrics)]
    rows = [
        [*([s] if settings else []), r, *(_cell(at.get((s, r, *m)), digits) for m in metrics)]
        for s, r in dict.fromkeys((p.setting, p.row) for p in e.reported)
    ]
    return section("Reported numbers", table(heads, rows))


def _metric(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _cell(p: Any, digits: Mapping[tuple[str, str], int]) -> str:
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
    return Html(tag("h2", title) + table(heads, rows, class_="stack"))


def _state_list(site: Site, id_: str) -> list[Html]:
    states = [experiment_state(x, id_) for x in site.experiments_of.get(id_, [])]
    states += [verdict_state(c.verdict.verdict) for c in site.claims_of.get(id_, [])]
    counts = Counter(states)
    return [badge(State(f"{n} × {s.text}" if n > 1 else s.text, s.cls)) for s, n in counts.items()]


def _states(site: Site, id_: str) -> Html:
    badges = _state_list(site, id_)
    return tag("div", badges, class_="badges") if badges else tag("span", "open", class_="soft small")


def _counts(cs: Sequence[ClaimPage]) -> Html:
    counts = Counter(c.verdict.verdict for c in cs)
    shown = [badge(State(f"{counts[v]} {v}", verdict_state(v).cls)) for v in VERDICTS if counts[v]]
    return tag("div", shown, class_="badges")


def _covered(site: Site, id_: str) -> bool:
    return covered(id_, site.experiments_of.get(id_, []), site.claims_of.get(id_, []))


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
