"""The pages that lead to results: the index, and one per work."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from featlearn.lab.claim import SCOPES
from featlearn.lab.coverage import NUMBERS, EntryState
from featlearn.report.context import Site
from featlearn.report.html import FILTER, Html, Row, badge, bar, command, document, facts, inline, prose, table, tag
from featlearn.report.model import ExperimentPage, State, by_work, experiment_state, group_of, verdict_state
from featlearn.report.parts import (
    DECIDED,
    citations,
    cited,
    count,
    entry_badges,
    home,
    link_list,
    local,
    note,
    scope_shown,
    short,
    verdict_badges,
)

MEANING = {
    "confirmed": "every statement of the claims about it agrees with what was observed, and its rival does not",
    "contradicted": "an observation contradicts a statement; the page quotes the sentence, gives the reading taken, "
    "and says what it hits: the statement, its proof, a number, a remark or a misprint. In another scope it may be a "
    "threshold of ours that is missed, which accuses nobody",
    "inconclusive": "the observations cannot tell the statement from wrong formulas",
    "too weak to test": "wrong formulas, or an object that has learnt nothing, meet the statement too",
    "data needed": "needs data or weights that nobody can bundle; the page gives the command",
    "not run": "can be checked, but was not",
    "reproduced": "no claim is about it; every reported number that was compared is reproduced",
    "partly reproduced": "no claim is about it; some of the compared numbers are reproduced",
    "deviates": "no claim is about it; none of the compared numbers is reproduced",
    "run": "no claim is about it; an experiment shows it, and the paper reports no number",
    "no check": "nothing about it can be computed; its page says why",
}
"""The verdicts of entries, from claims and, where there is none, from experiments."""

SCOPE = {
    "as stated": "at settings that meet every premise of the source",
    "other size": "a table or figure at another size than the one reported",
    "premise not decidable": "the source has a premise that cannot be decided, such as a constant that is not given",
    "premise unmet": "a premise of the source fails at the settings used",
}
"""How far a verdict reaches. Headlines count `as stated` alone."""


def index(site: Site, own_runs: Sequence[Any] = ()) -> str:
    """The first page: the verdicts, how much is covered, the works, the user's runs, how to reproduce."""
    states = [*site.states.values()]
    stated = Counter(group_of(s.verdict) for s in states if scope_shown(s) == "as stated")
    numbers = Counter(n for w in site.works for n in site.numbers(w))
    tiles = [
        (f"{stated['confirmed']}", "entries confirmed, as stated"),
        (f"{stated['contradicted']}", "entries contradicted, as stated"),
        (f"{sum(s.covered for s in states)} of {len(states)}", "entries covered"),
        (f"{numbers['reproduced']} of {numbers.total():,}", "reported numbers reproduced"),
    ]
    heads = [("work", "wide"), ("entries covered", "left"), ("experiments run", "left"), ("entries by verdict", "text")]
    body = []
    for w in site.works:
        xs = [x for x in site.experiments if by_work(x.experiment.id) == w.id]
        mine = [site.states[e.id] for e in w.entries]
        name = [site.link("work", w.id, w.title, ""), tag("div", w.papers[0].short, class_="soft small")]
        part = bar(sum(s.covered for s in mine), len(mine))
        runs: Any = bar(sum(x.was_run for x in xs), len(xs)) if xs else tag("span", "none yet", class_="soft")
        body.append([name, part, runs, _counts(mine)])
    known = {w.id for w in site.works}
    own = [x for x in site.experiments if by_work(x.experiment.id) not in known]
    out: list[Any] = [
        tag("h1", "What was published, and what we got"),
        tag(
            "p",
            f"{count(len(site.works), 'body of work', 'bodies of work')} on feature learning: every table, figure, "
            "theorem and method, beside what this software measured. A number is reproduced when it lies within its "
            "95 % interval over seeds, or within a tolerance stated in advance, of the reported one. A statement is "
            "confirmed only if its check would have refused the nearest wrong answer.",
            class_="lead",
        ),
        tag("div", [tag("div", tag("b", a), tag("span", b), class_="tile") for a, b in tiles], class_="tiles"),
        _surprises(site),
        tag("h2", "Works"),
        table(heads, body, class_="stack"),
        *_meanings(states),
        *_numbers(site),
        _list_experiments(site, own, "Other experiments", ""),
        *own_runs,
        tag("h2", "How to reproduce"),
        tag("p", "Each page of a claim or an experiment ends with the exact command that gives it. The usual ones:"),
        command(
            "featlearn list                               # works, experiments, claims and their state\n"
            "featlearn run emergence/table1               # preset small: a minute or so on two cores\n"
            "featlearn run emergence/table1 --preset paper\n"
            "featlearn verify xor_sgd                     # judge every claim of one work\n"
            "featlearn report                             # this site, from your own runs"
        ),
    ]
    return document("featlearn: published and measured", [tag("b", "featlearn")], out, "")


def _meanings(states: Sequence[EntryState]) -> list[Any]:
    """How many entries have each verdict, as stated and at another scope, and what the words mean."""
    rows = []
    for verdict, text in MEANING.items():
        mine = [s for s in states if group_of(s.verdict) == verdict]
        if mine or verdict in DECIDED:
            stated = sum(scope_shown(s) == "as stated" for s in mine) if verdict in DECIDED else "–"
            rows.append([badge(verdict_state(verdict)), len(mine), stated, text])
    heads = [("verdict", "left"), ("entries", "right"), ("as stated", "right"), ("meaning", "wide")]
    scopes = [[badge(verdict_state(s)), sum(scope_shown(e) == s for e in states), SCOPE[s]] for s in reversed(SCOPES)]
    return [
        tag("h2", "What the verdicts mean"),
        tag(
            "p", "Every entry has one verdict: the worst outcome of the claims about it, with the worst scope of them."
        ),
        table(heads, rows, class_="stack"),
        tag("h3", "Scopes"),
        table([("scope", "left"), ("entries", "right"), ("meaning", "wide")], scopes, class_="stack"),
    ]


def _numbers(site: Site) -> list[Any]:
    """What became of every reported number, by work; the columns add up."""
    by = {w.id: Counter(site.numbers(w)) for w in site.works}
    body = [
        [site.link("work", w.id, w.title, ""), *(by[w.id][n] for n in NUMBERS), by[w.id].total()]
        for w in site.works
        if by[w.id]
    ]
    total = sum(by.values(), Counter[str]())
    body.append([tag("b", "all works"), *(total[n] for n in NUMBERS), tag("b", f"{total.total():,}")])
    heads = [("work", "wide"), *((n, "right") for n in NUMBERS), ("all", "right")]
    text = (
        "Each number that a paper reports is counted once. Not comparable: ours are of another model or other data, "
        "and the page of the experiment says which. Not compared: nothing of ours stands beside it yet."
    )
    return [tag("h2", "Reported numbers"), tag("p", text), table(heads, body, class_="stack")]


def work(site: Site, w: Any) -> str:
    """One work: what it is about, its entries with their verdict, its experiments and claims."""
    states = [site.states[e.id] for e in w.entries]
    kinds, checks = (list(dict.fromkeys(getattr(e, k) for e in w.entries)) for k in ("kind", "check_kind"))
    rows = []
    for e, state in zip(w.entries, states, strict=True):
        says = tag("div", inline(short(e.says, 190)), class_="small")
        cells = [site.link("entry", e.id, local(e.id, w.id)), e.kind, e.check_kind, says, entry_badges(state)]
        group = group_of(state.verdict)
        rows.append(Row.of(cells, data_kind=e.kind, data_check=e.check_kind, data_state=group))
    heads = [("entry", "name"), ("kind", "left"), ("check", "name"), ("what it says", "wide"), ("verdict", "left")]
    xs = [x for x in site.experiments if by_work(x.experiment.id) == w.id]
    cs = [c for c in site.claims if by_work(c.id) == w.id]
    groups = [g for g in MEANING if any(group_of(s.verdict) == g for s in states)]
    filters = [
        tag(
            "label",
            tag("span", "search", class_="hide"),
            tag("input", name_="text", type="search", placeholder="search"),
        ),
        _select("kind", "any kind", kinds),
        _select("check", "any check", checks),
        _select("state", "any verdict", groups),
        tag("span", id="count", class_="soft small", aria_live="polite"),
    ]
    claim_rows = [
        [
            site.link("claim", c.id, local(c.id, w.id)),
            tag("div", inline(short(c.says, 160)), class_="small"),
            verdict_badges(c),
        ]
        for c in cs
    ]
    out = [
        tag("p", w.id, class_="kicker"),
        tag("h1", w.title),
        tag("p", w.about, class_="lead"),
        facts(
            [
                ("source", cited(w)),
                ("entries covered", bar(sum(s.covered for s in states), len(states))),
                ("entries by verdict", _counts(states)),
            ]
        ),
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
        *citations(w),
    ]
    return document(f"{w.title} · featlearn", [home(site), w.title], out, "../", FILTER)


def _surprises(site: Site) -> Html | None:
    """Verdicts other than the ones we stand behind, where a reader sees them first."""
    odd = [c for c in site.claims if not c.as_expected]
    if not odd:
        return None
    text = f"{count(len(odd), 'verdict differs', 'verdicts differ')} from the expected one: "
    return note(tag("p", text, link_list([site.link("claim", c.id, root="") for c in odd])), bad=True)


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


def _counts(states: Iterable[EntryState]) -> Html:
    """Entries by verdict: those as stated (or of no scope) as badges, other scopes in a line below."""
    states = [*states]
    first = Counter(group_of(s.verdict) for s in states if scope_shown(s) in ("as stated", ""))
    other = Counter(group_of(s.verdict) for s in states if scope_shown(s) not in ("as stated", ""))
    badges = [badge(State(f"{first[g]} {g}", verdict_state(g).cls)) for g in MEANING if first[g]]
    text = ", ".join(f"{other[g]} {g}" for g in MEANING if other[g])
    line = tag("div", f"at another scope: {text}", class_="soft small") if text else None
    return tag("div", tag("div", badges, class_="badges"), line)


def _select(name: str, label: str, values: Sequence[str]) -> Html:
    options = [tag("option", label, value=""), *(tag("option", v, value=v) for v in values)]
    return tag("label", tag("span", name, class_="hide"), tag("select", options, name_=name))
