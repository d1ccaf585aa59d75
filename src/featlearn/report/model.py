"""What the site is made of: one value per page, and what counts as covered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from featlearn.run.claim import Evidence, Verdict
from featlearn.run.experiment import Experiment, SummaryRow, Table


@dataclass(frozen=True)
class Provenance:
    """Where rows or a verdict come from. date: as text, given by whoever ran it; seconds: of work, not of waiting."""

    commit: str = ""
    dirty: bool = False
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float | None = None
    peak_mib: float | None = None
    seeds: Sequence[int] = ()
    store: str = ""


@dataclass(frozen=True)
class ExperimentPage:
    """An experiment and, where it was run, its rows. table None: it was not run, and the page says how to.

    stale: the rows come from another version of the experiment. command: "" means `featlearn run <id>`.
    """

    experiment: Experiment
    config: Any = None
    preset: str = ""
    table: Table | None = None
    summary: Sequence[SummaryRow] = ()
    command: str = ""
    provenance: Provenance | None = None
    stale: bool = False

    @property
    def was_run(self) -> bool:
        return self.table is not None and bool(self.table.rows or self.summary)


@dataclass(frozen=True)
class ClaimPage:
    """A verdict with the command that gives it ("" means `featlearn verify <id>`) and where it comes from."""

    verdict: Verdict
    command: str = ""
    provenance: Provenance | None = None


def as_claim_page(item: Verdict | ClaimPage) -> ClaimPage:
    """A ClaimPage from either."""
    return item if isinstance(item, ClaimPage) else ClaimPage(item)


def mechanism_checked(evidence: Evidence) -> bool:
    """Whether some case could be tested here: it agrees, its rival is rejected, and it is no vacuous bound."""
    return any(c.rival is not None and not c.vacuous and c.ok and c.rival_rejected for c in evidence.cases)


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
    return v.verdict in ("vacuous", "assumptions unmet") and mechanism_checked(v.evidence)


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
    "deviates": "bad",
    "no print": "none",
    "stale": "warn",
    "run": "info",
}


def verdict_state(verdict: str) -> State:
    """The badge of a verdict."""
    return State(verdict, VERDICT_CLASS.get(verdict, "odd"))


def experiment_state(page: ExperimentPage, entry_id: str = "") -> State:
    """The badge of an experiment, or of the part of it that one entry prints: how many numbers were reproduced."""
    if not page.was_run:
        return verdict_state("not run")
    if page.stale:
        return verdict_state("stale")
    rows = [r for r in page.summary if r.printed is not None and entry_id in ("", r.entry)]
    if not rows:
        return verdict_state("run")
    good = sum(r.verdict == "reproduced" for r in rows)
    if good == len(rows):
        return State(f"{good} of {len(rows)} reproduced", "good")
    return State(f"{good} of {len(rows)} reproduced", "warn" if good else "bad")


def by_work(id_: str) -> str:
    """The work an experiment ("emergence/table1") or a claim ("emergence.lemma5") belongs to."""
    return id_.replace("/", ".").split(".", 1)[0]
