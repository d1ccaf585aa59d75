"""What all pages of one site share: the paths, the links, and where files are put."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from featlearn.lab.coverage import EntryState, standing
from featlearn.lab.find import Origin
from featlearn.report import html
from featlearn.report.html import Html, tag
from featlearn.report.model import ClaimPage, ExperimentPage, state_of
from featlearn.report.pictures import Drawn, failed, safe

BROAD = 700  # pixels; a picture of several panels takes the whole line


def path(kind: str, id_: str) -> str:
    """Where the page of an entry, claim, experiment or work lies in the site."""
    return f"{kind}/{safe(id_)}.html"


@dataclass
class Site:
    """One site while it is made. drawn(id): the pictures of an experiment or claim; known: pages that exist or will."""

    works: Sequence[Any]
    experiments: Sequence[ExperimentPage]
    claims: Sequence[ClaimPage]
    drawn: Callable[[str], Sequence[Drawn | str]]
    known: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    pictures_of: dict[str, list[Html]] = field(default_factory=dict)  # by entry; filled by the owners' pages

    def __post_init__(self) -> None:
        self.entries: Mapping[str, Any] = {e.id: e for w in self.works for e in w.entries}
        self.experiments_of: dict[str, list[ExperimentPage]] = {}
        self.claims_of: dict[str, list[ClaimPage]] = {}
        for x in self.experiments:
            for id_ in x.experiment.reproduces:
                self.experiments_of.setdefault(id_, []).append(x)
        for c in self.claims:
            for id_ in c.entries:
                self.claims_of.setdefault(id_, []).append(c)
        self.claim_of: Mapping[str, ClaimPage] = {c.id: c for c in self.claims}
        self.states: Mapping[str, EntryState] = {
            id_: state_of(id_, self.claims_of.get(id_, ()), self.experiments_of.get(id_, ()), e.reasons, e.waits)
            for id_, e in self.entries.items()
        }

    def numbers(self, work: Any) -> list[str]:
        """What became of each reported number of a work (see `lab.coverage.standing`)."""
        mine = [x for x in self.experiments if not x.run]
        rows = [r for x in mine for r in x.summary]
        other = {id_ for x in mine for id_ in x.experiment.incomparable}
        return [n for e in work.entries for n in standing(e, rows, other)]

    def pages(self) -> list[str]:
        """Every page of the site, in a stable order."""
        out = ["index.html", "glossary.html"]
        out += [path("work", w.id) for w in self.works]
        out += [path("entry", id_) for id_ in self.entries]
        out += [path("experiment", x.experiment.id) for x in self.experiments]
        return out + [path("claim", c.id) for c in self.claims]

    def clashes(self) -> list[str]:
        """File names that two pages would share, also where a file system ignores case."""
        counts = Counter(p.lower() for p in self.pages())
        return [p for p, n in counts.items() if n > 1]

    def link(self, kind: str, id_: str, text: str | None = None, root: str = "../") -> Html:
        """A link to a page if there is one, else the text alone."""
        label = tag("span", text or id_, class_=None if text else "id")
        where = "index.html" if kind == "index" else path(kind, id_)
        return tag("a", label, href=root + where) if where in self.known else label

    def pictures(self, owner: str, caption: Callable[[Drawn], str] = lambda d: d.caption) -> list[Html]:
        """The pictures of an experiment or claim as figure elements, for a page one folder down. One that could not be
        drawn is a note, and a problem of the site."""
        out: list[Html] = []
        for found in self.drawn(owner):
            if isinstance(found, str):
                out.append(self.problem(owner, found))
                continue
            out.append(_figure(found, caption(found)))
            for id_ in filter(None, found.ids):
                self.pictures_of.setdefault(id_.partition("#")[0], []).append(out[-1])
        return out

    def attempt(self, what: str, draw: Callable[[], list[Html]]) -> list[Html]:
        """Drawings, or a note in their place: one that cannot be drawn must not cost the page its numbers."""
        try:
            return draw()
        except Exception as error:
            return [self.problem(what, failed(error))]

    def problem(self, what: str, why: str) -> Html:
        """Something that could not be drawn, as a note."""
        self.problems.append(f"{what}: {why}")
        return tag("div", tag("p", f"{what}: {why}"), class_="note bad", role="note")


def _figure(drawn: Drawn, caption: str) -> Html:
    base = f"../{drawn.name}"
    shown = next(kind for kind in ("svg", "png") if kind in drawn.kinds)
    names = {kind: "plotted numbers (CSV)" if kind == "csv" else kind.upper() for kind in ("png", "svg", "csv")}
    downloads = [tag("a", text, href=f"{base}.{kind}") for kind, text in names.items() if kind in drawn.kinds]
    size = {"width": drawn.width, "height": drawn.height}
    image = tag("img", src=f"{base}.{shown}", alt=drawn.alt or caption, loading="lazy", **size)
    links = [x for i, d in enumerate(downloads) for x in ((" · " if i else ""), d)]
    return tag(
        "figure",
        tag("div", image, class_="picture"),
        tag("figcaption", caption, " ", tag("span", links)),
        class_="broad" if drawn.width > BROAD else None,
    )


def provenance(p: Origin | None, extra: Sequence[tuple[str, Any]] = ()) -> Html:
    """Commit, device, versions, date and cost as a list; says so where nothing was recorded."""
    if p is None and not any(v for _, v in extra):
        return tag("p", "Nothing was recorded.", class_="soft")
    pairs: list[tuple[str, Any]] = list(extra)
    if p is not None:
        commit = tag("code", p.commit) if p.commit else None
        pairs += [
            ("commit", [commit, " with local changes" if p.dirty else None] if commit else None),
            ("device", p.device),
            ("versions", ", ".join(f"{k} {v}" for k, v in p.versions.items())),
            ("date", p.started),
            ("time", html.seconds(p.seconds) if p.seconds else None),
            ("peak memory", f"{p.peak_mib:.0f} MiB" if p.peak_mib is not None else None),
            ("seeds", ", ".join(str(s) for s in p.seeds)),
        ]
    return html.facts(pairs)
