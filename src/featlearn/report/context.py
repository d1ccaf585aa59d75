"""What all pages of one site share: the paths, the links, and where files are put."""

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featlearn.lab.coverage import EntryState
from featlearn.lab.find import Origin
from featlearn.report import export, html, style
from featlearn.report.html import Html, tag
from featlearn.report.model import ClaimPage, ExperimentPage, state_of
from featlearn.report.plots import Picture

SVG_SHOWN = 700_000  # bytes; a larger drawing is shown as PNG, which phones render faster
SVG_KEPT = 4_000_000
BROAD = 700  # pixels; a picture of several panels takes the whole line


def safe(id_: str) -> str:
    """An id as a file name: the same every time, without anything a file system or an address could misread."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", id_.replace("/", ".")).lstrip(".") or "_"


def path(kind: str, id_: str) -> str:
    """Where the page of an entry, claim, experiment or work lies in the site."""
    return f"{kind}/{safe(id_)}.html"


@dataclass
class Site:
    """One site while it is made. write(path, bytes) puts a file; known: pages that exist or will."""

    works: Sequence[Any]
    experiments: Sequence[ExperimentPage]
    claims: Sequence[ClaimPage]
    write: Callable[[str, bytes], None]
    known: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    pictures_of: dict[str, list[Html]] = field(default_factory=dict)  # by entry, filled by the experiments' pages

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
            id_: state_of(id_, self.claims_of.get(id_, ()), self.experiments_of.get(id_, ()), e.reasons)
            for id_, e in self.entries.items()
        }

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

    def picture(self, name: str, picture: Any, caption: str, png: bool = True) -> Html:
        """Save a picture with its data and give the figure element; the page lies one folder down.

        png: also as pixels; always so where the drawing is too large to be shown as SVG.
        """
        p = picture if isinstance(picture, Picture) else Picture(picture)
        base = f"pictures/{safe(name)}"
        svg = _render(p.figure, "svg")
        kinds = [k for k, keep in (("png", png or len(svg) > SVG_SHOWN), ("svg", len(svg) <= SVG_KEPT)) if keep]
        for kind in kinds:
            self.write(f"{base}.{kind}", svg if kind == "svg" else _render(p.figure, "png"))
        shown = f"../{base}.svg" if len(svg) <= SVG_SHOWN else f"../{base}.png"
        downloads = [tag("a", kind.upper(), href=f"../{base}.{kind}") for kind in kinds]
        if p.data is not None:
            self.write(f"{base}.csv", export.csv_text(_records(p.data)).encode())
            downloads.append(tag("a", "plotted numbers (CSV)", href=f"../{base}.csv"))
        width, height = (round(96 * float(v)) for v in p.figure.get_size_inches())
        broad = "broad" if width > BROAD else None
        text = caption or p.caption
        image = tag("img", src=shown, alt=p.alt or text, width=width, height=height, loading="lazy")
        links = [x for i, d in enumerate(downloads) for x in ((" · " if i else ""), d)]
        return tag(
            "figure",
            tag("div", image, class_="picture"),
            tag("figcaption", text, " ", tag("span", links)),
            class_=broad,
        )

    def attempt(self, what: str, draw: Callable[[], list[Html]]) -> list[Html]:
        """Pictures, or a note in their place: one that cannot be drawn must not cost the page its numbers."""
        try:
            return draw()
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            message = f"{what}: the picture could not be drawn: {type(error).__name__}: {text}"
            self.problems.append(message)
            return [tag("div", tag("p", message), class_="note bad", role="note")]


def _render(figure: Any, kind: str) -> bytes:
    out = io.BytesIO()
    with style.applied(float(figure.get_size_inches()[0])):
        if kind == "svg":
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "featlearn"})
        else:
            figure.savefig(out, format="png", dpi=150, metadata={"Software": "featlearn"})
    return out.getvalue()


def _records(data: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows from rows, or from columns; shorter columns end in empty fields."""
    if not isinstance(data, Mapping):
        return list(data)
    columns = {k: np.ravel(np.asarray(v)) for k, v in data.items()}
    n = max((len(v) for v in columns.values()), default=0)
    return [{k: (v[i].item() if i < len(v) else None) for k, v in columns.items()} for i in range(n)]


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
