"""Small pieces that several pages use."""

from collections.abc import Sequence
from typing import Any

from featlearn.lab.coverage import EntryState
from featlearn.report.context import Site
from featlearn.report.html import Html, badge, table, tag
from featlearn.report.model import ClaimPage, State, by_work, group_of, verdict_state

FORMS = {
    "reported": "as reported",
    "corrected": "as corrected",
    "derived": "derived",
    "criterion": "by our criterion",
    "audit": "audit of reported numbers",
}
"""Where a statement stands to its source, in words."""

DECIDED = ("confirmed", "contradicted", "inconclusive", "too weak to test")
"""Outcomes of what was judged: those that have a scope."""


def home(site: Site) -> Html:
    """The crumb that leads to the first page."""
    return site.link("index", "", "featlearn")


def section(title: str, content: Any) -> list[Any]:
    """A heading and its content; nothing where there is no content."""
    return [tag("h2", title), content] if content else []


def short(text: str, limit: int) -> str:
    """The beginning of a text, cut at a word."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + "\u00a0…"


def count(n: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{n} {one if n == 1 else many}"


def note(*content: Any, bad: bool = False) -> Html:
    """A box that a reader sees first."""
    return tag("div", *content, class_="note bad" if bad else "note", role="note")


def verdict_badges(c: ClaimPage) -> Html:
    """The outcome as reported, as corrected where there is such a form, the scope, and whether it stands."""
    corrected, judged = c.judged.corrected, bool(c.judged.statements)
    faces = [badge(State(f"as reported: {c.verdict}" if corrected else c.verdict, verdict_state(c.verdict).cls))]
    if corrected:
        faces.append(badge(State(f"as corrected: {corrected}", verdict_state(corrected).cls)))
    scope = badge(verdict_state(c.scope)) if judged else None
    stale = (
        badge(State(c.stale if c.stale == "stale rows" else f"stale: the {c.stale} changed", "warn"))
        if c.stale
        else None
    )
    expected = badge(State("not as expected", "bad")) if not c.as_expected else None
    return tag("div", faces, scope, stale, expected, class_="badges")


def entry_badges(state: EntryState) -> Html:
    """The one verdict of an entry, with its scope."""
    first = badge(State(state.verdict, verdict_state(group_of(state.verdict)).cls))
    scope = scope_shown(state)
    return tag("div", first, badge(verdict_state(scope)) if scope else None, class_="badges")


def scope_shown(state: EntryState) -> str:
    """The scope of an entry's verdict, "" for one that was not judged."""
    return state.scope if state.verdict in DECIDED else ""


def link_list(links: Sequence[Html]) -> list[Any]:
    """Links with commas between them."""
    return [x for i, one in enumerate(links) for x in (", " if i else "", one)]


def trail_of(site: Site, id_: str) -> list[Any]:
    """The crumbs of a claim or an experiment."""
    w = next((w for w in site.works if w.id == by_work(id_)), None)
    return [home(site), *([site.link("work", w.id, w.title)] if w else []), id_]


def about(site: Site, entries: Sequence[str]) -> list[Any]:
    """The entries that a claim is about, with where they stand in the paper."""
    if not entries:
        return [tag("h2", "About"), tag("p", "A question of ours: no entry of the inventory.")]
    rows = []
    for id_ in entries:
        e = site.entries.get(id_)
        rows.append([site.link("entry", id_), e.kind if e else "", e.where if e else ""])
    papers = [cited(w) for w in site.works if w.id in {by_work(id_) for id_ in entries}]
    return [
        *section("About", table([("entry", "name"), ("kind", "left"), ("where", "wide")], rows, class_="stack")),
        *papers,
    ]


def local(id_: str, work_id: str) -> str:
    """An id without its work."""
    return id_.removeprefix(f"{work_id}.").removeprefix(f"{work_id}/")


def cited(w: Any) -> Html:
    """The paper of a work in one line, linked, with the chapter of the thesis that it was read in."""
    p = w.papers[0]
    link = [" ", tag("a", f"arXiv:{p.arxiv}", href=p.url)] if p.url else None
    read = f" Read here in {w.read_in}: {w.papers[-1].full}" if w.read_in else ""
    return tag("p", p.full, link, read, class_="small")


def citations(w: Any) -> list[Any]:
    """The section on how to cite a work."""
    records = "\n\n".join(p.bibtex for p in w.papers)
    return [tag("h2", "How to cite it"), cited(w), tag("details", tag("summary", "BibTeX"), tag("pre", records))]
