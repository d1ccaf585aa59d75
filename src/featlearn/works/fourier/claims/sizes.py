"""What rows of smaller sizes than printed may say about a figure."""

from collections.abc import Iterable
from dataclasses import replace

from featlearn.lab.pending import Assumption, Evidence, needs

Pair = tuple[int, int]


def named(pairs: Iterable[Pair]) -> str:
    return "; ".join(f"k = {k}, p = {p}" for k, p in sorted(pairs))


def at_sizes(evidence: Evidence, experiment: str, found: Iterable[Pair], printed: Iterable[Pair]) -> Evidence:
    """The evidence as it is where every printed (k, p) is among the rows; else with that premise unmet.

    What is met at smaller sizes is met without the printed ones, and what is not says nothing about the print: the
    verdict is then "not run", with what failed.
    """
    missing = set(printed) - set(found)
    if not missing or evidence.not_run:
        return evidence
    failed = [c.name for c in evidence.cases if not c.ok]
    if failed:
        command = needs(experiment).not_run
        return Evidence(not_run=f"{command}; the rows at hand ({named(found)}) are too small for: {'; '.join(failed)}")
    premise = Assumption(f"the printed {named(missing)}", False, f"rows of {named(found)}")
    return replace(evidence, assumptions=(*evidence.assumptions, premise))
