"""Small pieces that several pages use."""

from typing import Any

from featlearn.lab.pending import HITS
from featlearn.report.context import Site
from featlearn.report.html import Html, badge, tag
from featlearn.report.model import ClaimPage, State, verdict_state


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


def verdict_badges(c: ClaimPage) -> Html:
    """The verdict, what of the paper it contradicts, and whether it is the one we stand behind."""
    v = c.verdict
    expected = hits = None
    if v.verdict == "refuted" or v.claim.hits:
        hits = badge(State(HITS[v.claim.hits].lower(), "bad" if v.claim.hits else "none"))
    if not v.as_expected:
        expected = badge(State(f"expected: {v.claim.expected}", "bad"))
    elif v.verdict != "holds":
        expected = tag("span", "as expected", class_="soft small")
    return tag("div", badge(verdict_state(v.verdict)), hits, expected, class_="badges")
