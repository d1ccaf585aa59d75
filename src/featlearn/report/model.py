"""What the site is made of: one value per page, and what counts as covered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from featlearn.lab.experiment import Experiment, Rows, SummaryRow
from featlearn.lab.pending import Verdict
from featlearn.lab.pending_verdicts import Saved, mechanism


@dataclass(frozen=True)
class Provenance:
    """Where rows or a verdict come from. date: as text, given by whoever ran it; seconds: of work, not of waiting."""

    commit: str = ""
    dirty: bool = False
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float | int | None = None
    peak_mib: float | int | None = None
    seeds: Sequence[int] = ()
    store: str = ""


@dataclass(frozen=True)
class ExperimentPage:
    """An experiment and, where it was run, its rows. table None: it was not run, and the page says how to.

    stale: the rows come from another version of the experiment. command: "" means `featlearn run <id>`.
    provenance: a Provenance, or what `provenance_of` takes.
    """

    experiment: Experiment
    config: Any = None
    preset: str = ""
    table: Rows | None = None
    summary: Sequence[SummaryRow] = ()
    command: str = ""
    provenance: Any = None
    stale: bool = False

    @property
    def was_run(self) -> bool:
        return self.table is not None and bool(self.table.rows or self.summary)


@dataclass(frozen=True)
class ClaimPage:
    """A verdict with the command that gives it ("" means `featlearn verify <id>`) and where it comes from.

    error: the exception in one line where the check itself broke. mechanism: whether something beside vacuous bounds
    was tested, so that a vacuous verdict still covers its entries.
    """

    verdict: Verdict
    command: str = ""
    provenance: Any = None
    error: str = ""
    mechanism: bool = False


def provenance_of(source: Any, **more: Any) -> Provenance | None:
    """A Provenance from what a store says: the common origin of some trials, or the mapping a record carries.

    Example:
        >>> provenance_of({"commit": "0123abc", "dirty": None, "python": "3.11", "torch": None}).versions
        {'python': '3.11'}
    """
    if source is None or isinstance(source, Provenance):
        return source
    found: dict[str, Any]
    if isinstance(source, Mapping):
        packages = ("python", "featlearn", "torch", "numpy")
        versions = {k: str(source[k]) for k in packages if source.get(k)}
        found = {"commit": source.get("commit") or "", "dirty": bool(source.get("dirty"))}
        found["versions"] = versions
        return Provenance(**{**found, **more})
    same = ("commit", "dirty", "device", "versions", "seconds", "peak_mib", "seeds")
    found = {name: getattr(source, name) for name in same}
    found["date"] = getattr(source, "started", "")
    return Provenance(**{**found, **more})


def as_claim_page(item: "Verdict | Saved | ClaimPage") -> ClaimPage:
    """A ClaimPage from a new verdict, from one read back from a store, or from itself."""
    if isinstance(item, ClaimPage):
        return item
    if isinstance(item, Saved):
        origin = provenance_of(item.provenance, date=item.when)
        return ClaimPage(item.verdict, provenance=origin, error=item.error, mechanism=item.mechanism)
    return ClaimPage(item, mechanism=mechanism(item.evidence))


def covers(page: ExperimentPage | ClaimPage) -> bool:
    """Whether a page covers the entries it names.

    An experiment covers once it has rows; a claim once it is judged: `holds`, `refuted`, and `vacuous` or
    `assumptions unmet` only beside a checked mechanism. `data needed`, `not run` and `not established` do not.
    """
    if isinstance(page, ExperimentPage):
        return page.was_run
    v = page.verdict
    if v.verdict in ("holds", "refuted"):
        return True
    return v.verdict in ("vacuous", "assumptions unmet") and page.mechanism


def covered(
    entry_id: str, experiments: Sequence[ExperimentPage], claims: Sequence[ClaimPage], strict: bool = True
) -> bool:
    """Whether an inventory entry is covered by some page; not strict: also by one that is only planned."""
    named = [p for p in experiments if entry_id in p.experiment.reproduces]
    judged = [p for p in claims if entry_id in p.verdict.claim.entries]
    return any(covers(p) for p in (*named, *judged)) if strict else bool(named or judged)


@dataclass(frozen=True)
class State:
    """A badge: text and the class that colours it."""

    text: str
    cls: str


VERDICT_CLASS: Mapping[str, str] = {
    "holds": "good",
    "refuted": "bad",
    "vacuous": "warn",
    "assumptions unmet": "warn",
    "not established": "odd",
    "data needed": "wait",
    "not run": "none",
    "reproduced": "good",
    "reproduced (wide)": "info",
    "deviates": "bad",
    "not reported": "none",
    "stale": "warn",
    "run": "info",
}


def verdict_state(verdict: str) -> State:
    """The badge of a verdict."""
    return State(verdict, VERDICT_CLASS.get(verdict, "odd"))


def experiment_state(page: ExperimentPage, entry_id: str = "") -> State:
    """The badge of an experiment, or of the part of it that one entry reports: how many numbers were reproduced."""
    if not page.was_run:
        return verdict_state("not run")
    if page.stale:
        return verdict_state("stale")
    rows = [r for r in page.summary if r.reported is not None and entry_id in ("", r.entry)]
    if not rows:
        return verdict_state("run")
    good = sum(r.verdict == "reproduced" for r in rows)
    if good == len(rows):
        return State(f"{good} of {len(rows)} reproduced", "good")
    return State(f"{good} of {len(rows)} reproduced", "warn" if good else "bad")


def by_work(id_: str) -> str:
    """The work an experiment ("emergence/table1") or a claim ("emergence.lemma5") belongs to."""
    return id_.replace("/", ".").split(".", 1)[0]
