"""Coverage: the one verdict of an inventory entry, with a sentence why, and whether it counts as covered."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from featlearn.lab.claim import HITS, SCOPES
from featlearn.lab.experiment import Experiment, SummaryRow
from featlearn.lab.inventory import Entry, entry, known
from featlearn.lab.statement import OUTCOMES


@runtime_checkable
class ClaimState(Protocol):
    """What coverage needs of a verdict (lab.verdicts.Judged is one)."""

    @property
    def id(self) -> str: ...
    @property
    def entries(self) -> Sequence[str]: ...
    @property
    def verdict(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def covers(self) -> bool: ...
    @property
    def hits(self) -> str: ...


@dataclass(frozen=True)
class Reproduction:
    """What an experiment says of the entries it reproduces. rows: whether there are any; of its reported numbers of one
    entry, how many were reproduced and how many there are (0 where the paper has none)."""

    experiment: str
    entry: str
    rows: bool
    good: int = 0
    reported: int = 0


@dataclass(frozen=True)
class EntryState:
    """An entry's verdict: an outcome, "k of n reproduced", "run", "not run" or "no check"."""

    id: str
    verdict: str
    scope: str
    why: str
    covered: bool
    by: tuple[str, ...]


def entry_state(
    entry: str,
    claims: Iterable[ClaimState],
    experiments: Iterable[Reproduction],
    *,
    reasons: Sequence[str] = (),
    waits: str = "",
) -> EntryState:
    """The verdict of one entry.

    By its claims where it has some: the worst outcome and the worst scope of them. Else by the experiment that
    reproduces it. reasons: why nothing of it can be checked, from the inventory; waits: the data or weights that it
    needs. Where no claim covers it as stated, needing them is its verdict: what claims find on other data or models
    decides nothing, and so do rows of an experiment, but for those that reproduce a reported number.
    Covered: one of its claims covers it (a statement of the source could have failed); where it has none, an
    experiment has rows for it.
    """
    mine = [c for c in claims if entry in c.entries]
    runs = [r for r in experiments if r.entry == entry]
    with_rows = [r for r in runs if r.rows]
    by = (*(c.id for c in mine), *(r.experiment for r in runs))
    covered = any(c.covers for c in mine) if mine else bool(with_rows)
    compared = not mine and any(r.good for r in with_rows)
    if waits and (mine or with_rows) and not compared and not any(c.covers and c.scope == "as stated" for c in mine):
        return EntryState(entry, "data needed", "", waits, False, by)
    if mine:
        outcomes = [o for o in OUTCOMES if any(c.verdict == o for c in mine)]
        verdict = outcomes[0] if outcomes else "not run"
        scope = min((c.scope for c in mine), key=[*SCOPES].index)
        gravity = {name: i for i, name in enumerate(HITS)}
        deciding = sorted((c for c in mine if c.verdict == verdict), key=lambda c: gravity.get(c.hits, len(gravity)))
        why = deciding[0].why if deciding else ""
        if verdict == "contradicted":
            why = f"{what_is_hit([c.hits for c in deciding])}{': ' if why else ''}{why}"
        return EntryState(entry, verdict, scope, why, covered, by)
    if with_rows:
        good, reported = sum(r.good for r in with_rows), sum(r.reported for r in with_rows)
        names = ", ".join(r.experiment for r in with_rows)
        if reported:
            return EntryState(entry, f"{good} of {reported} reproduced", "", f"by {names}", True, by)
        return EntryState(entry, "run", "", f"by {names}; the paper reports no number", True, by)
    if runs:
        return EntryState(entry, "not run", "", f"featlearn run {runs[0].experiment}", False, by)
    if reasons:
        return EntryState(entry, "no check", "", "; ".join(reasons), False, by)
    return EntryState(entry, "not run", "", "no claim or experiment yet", False, by)


def what_is_hit(hits: Sequence[str]) -> str:
    """Of the paper, by the contradicted claims of one entry: the gravest of HITS in words, or that nothing is.

    Example:
        >>> what_is_hit(["", "proof"])
        'Contradicts a step of the proof, not the statement'
        >>> what_is_hit([""])
        'Contradicts a reading or criterion of ours, and shows nothing of the paper wrong'
    """
    found = next((words for name, words in HITS.items() if name in hits), "")
    return found or "Contradicts a reading or criterion of ours, and shows nothing of the paper wrong"


NUMBERS = ("reproduced", "deviates", "not comparable", "not compared")
"""What can become of a reported number."""


def standing(about: Entry, rows: Sequence[SummaryRow], incomparable: Collection[str] = ()) -> tuple[str, ...]:
    """What became of each reported number of an entry, in their order: one of NUMBERS.

    rows: the summaries of all experiments; incomparable: entries whose experiments say that no number of ours stands
    for a reported one. A number belongs to the rows of its setting, row and metric or, where there is none, to those
    that name its value with its row or its metric: variants of ours that stand for one reported number. One that
    deviates decides.
    """
    mine = [r for r in rows if r.entry == about.id and r.reported is not None]
    keys = {(p.setting, p.row, p.metric) for p in about.reported}
    out: list[str] = []
    for p in about.reported:
        here = [r.verdict for r in mine if (r.setting, r.row, r.metric) == (p.setting, p.row, p.metric)]
        here = here or [
            r.verdict
            for r in mine
            if r.reported == p.value
            and (r.metric == p.metric or r.row == p.row)
            and (r.setting, r.row, r.metric) not in keys
        ]
        other = "not comparable" if about.id in incomparable else "not compared"
        out.append(next((n for n in ("deviates", "reproduced", "not comparable") if n in here), other))
    return tuple(out)


def reproductions(experiment: Experiment, rows: Sequence[SummaryRow] | None) -> list[Reproduction]:
    """What the summary of an experiment (None: it was not run) says of each entry it reproduces."""
    out: list[Reproduction] = []
    for id_ in experiment.reproduces:
        mine = [r for r in rows or () if r.entry == id_]
        # an entry outside of the inventory is reported by the rows that name it
        found = Counter(standing(entry(id_), mine) if known(id_) else [r.verdict for r in mine])
        good = found["reproduced"]
        out.append(Reproduction(experiment.id, id_, rows is not None, good, good + found["deviates"]))
    return out
