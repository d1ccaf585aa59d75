"""What the site is made of: one value per page, the badge of each verdict, and the one verdict of an entry."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.lab.coverage import EntryState, Reproduction, entry_state, reproductions
from featlearn.lab.experiment import Experiment, Rows, SummaryRow
from featlearn.lab.find import Origin
from featlearn.lab.verdicts import Judged


@dataclass(frozen=True)
class ExperimentPage:
    """An experiment and, where it was run, its rows. table None: it was not run, and the page says how to.

    stale: the rows come from another version of it or of its code. command: "" means `featlearn run <id>`. run: name
    of the run where the page is of it alone: changed settings, an experiment of one's own.
    """

    experiment: Experiment
    config: Any = None
    preset: str = ""
    table: Rows | None = None
    summary: Sequence[SummaryRow] = ()
    command: str = ""
    provenance: Origin | None = None
    stale: bool = False
    run: str = ""

    @property
    def was_run(self) -> bool:
        """Whether there are rows or numbers of it."""
        return self.table is not None and bool(self.table.rows or self.summary)

    def reproductions(self) -> list[Reproduction]:
        """What its rows say of each entry it reproduces."""
        return reproductions(self.experiment, self.summary if self.was_run else None)


@dataclass(frozen=True)
class ClaimPage:
    """What came of a claim.

    command: "" means `featlearn verify <id>`. error: the exception in one line where the check itself broke. stale:
    "code" or "rows" where these have changed since the verdict. draw: as that of the claim.
    """

    judged: Judged
    command: str = ""
    provenance: Origin | None = None
    error: str = ""
    stale: str = ""
    draw: Callable[[], Mapping[str, Any]] | None = None

    @property
    def id(self) -> str:
        """Id of the claim."""
        return self.judged.id

    @property
    def entries(self) -> tuple[str, ...]:
        """Ids of the entries it is about."""
        return self.judged.entries

    @property
    def says(self) -> str:
        """The sentence that is checked."""
        return self.judged.says

    @property
    def verdict(self) -> str:
        """The outcome as reported."""
        return self.judged.verdict

    @property
    def scope(self) -> str:
        """How far the outcome reaches."""
        return self.judged.scope

    @property
    def why(self) -> str:
        """Why, in words."""
        return self.judged.why

    @property
    def hits(self) -> str:
        """What of the paper it accuses."""
        return self.judged.hits

    @property
    def covers(self) -> bool:
        """Whether it covers its entries: never where it is stale."""
        return self.judged.covers and not self.stale

    @property
    def as_expected(self) -> bool:
        """Whether it came to what we stand behind; a claim that was not judged cannot differ."""
        if not self.judged.statements:
            return not self.judged.error
        return self.judged.as_expected


def origin_of(made: Mapping[str, Any], when: str) -> Origin:
    """Where a verdict comes from: the mapping that its record carries, with the day.

    Example:
        >>> origin_of({"commit": "0123abc", "dirty": None, "python": "3.11", "torch": None}, "").versions
        {'python': '3.11'}
    """
    packages = ("python", "featlearn", "torch", "numpy")
    return Origin(
        commit=made.get("commit") or "",
        dirty=bool(made.get("dirty")),
        device="",
        versions={k: str(made[k]) for k in packages if made.get(k)},
        started=when,
        seconds=0.0,
        peak_mib=None,
        seeds=(),
    )


def as_claim_page(item: Judged | ClaimPage) -> ClaimPage:
    """A ClaimPage from a verdict, or from itself."""
    if isinstance(item, ClaimPage):
        return item
    origin = origin_of(item.made, item.when) if item.made else None
    return ClaimPage(item, provenance=origin, error=item.error)


def state_of(
    entry: str,
    claims: Sequence[ClaimPage],
    experiments: Sequence[ExperimentPage],
    reasons: Sequence[str] = (),
    waits: str = "",
) -> EntryState:
    """The one verdict of an entry."""
    runs = [r for x in experiments for r in x.reproductions()]
    return entry_state(entry, claims, runs, reasons=reasons, waits=waits)


@dataclass(frozen=True)
class State:
    """A badge: text and the class that colours it."""

    text: str
    cls: str


CLASSES: Mapping[str, str] = {
    "confirmed": "good",
    "contradicted": "bad",
    "inconclusive": "odd",
    "too weak to test": "warn",
    "data needed": "wait",
    "not run": "none",
    "no check": "none",
    "as stated": "none",
    "other size": "info",
    "premise not decidable": "warn",
    "premise unmet": "warn",
    "reproduced": "good",
    "reproduced (wide)": "info",
    "partly reproduced": "warn",
    "deviates": "bad",
    "not comparable": "none",
    "not compared": "none",
    "not reported": "none",
    "stale": "warn",
    "run": "info",
}
"""Colour of every word that a badge can say."""


def verdict_state(verdict: str) -> State:
    """The badge of an outcome, a scope, or the verdict of a number."""
    return State(verdict, CLASSES.get(verdict, "odd"))


def group_of(verdict: str) -> str:
    """The kind under which an entry's verdict is counted: the outcome, or how many reported numbers were reproduced.

    Example:
        >>> group_of("3 of 5 reproduced"), group_of("confirmed")
        ('partly reproduced', 'confirmed')
    """
    found = re.fullmatch(r"(\d+) of (\d+) reproduced", verdict)
    if found is None:
        return verdict
    good, all_ = int(found[1]), int(found[2])
    return "reproduced" if good == all_ else "partly reproduced" if good else "deviates"


def experiment_state(page: ExperimentPage, entry_id: str = "") -> State:
    """The badge of an experiment, or of the part of it that one entry reports: how many numbers were reproduced."""
    if not page.was_run:
        return verdict_state("not run")
    if page.stale:
        return verdict_state("stale")
    mine = [r for r in page.reproductions() if entry_id in ("", r.entry)]
    good, compared = sum(r.good for r in mine), sum(r.reported for r in mine)
    if not compared:
        return verdict_state("run")
    text = f"{good} of {compared} reproduced"
    return State(text, CLASSES[group_of(text)])


def by_work(id_: str) -> str:
    """The work an experiment ("emergence/table1") or a claim ("emergence.lemma5") belongs to."""
    return id_.replace("/", ".").split(".", 1)[0]
