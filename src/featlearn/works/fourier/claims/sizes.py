"""What rows of smaller sizes than reported may say about a figure."""

from collections.abc import Iterable
from dataclasses import replace

from featlearn.lab.pending import Assumption, Evidence, needs

Pair = tuple[int, int]


def named(pairs: Iterable[Pair]) -> str:
    """Sizes as text."""
    return "; ".join(f"k = {k}, p = {p}" for k, p in sorted(pairs))


def at_sizes(evidence: Evidence, experiment: str, found: Iterable[Pair], reported: Iterable[Pair]) -> Evidence:
    """The evidence as it is where every reported (k, p) is among the rows; else with that premise unmet.

    What is met at smaller sizes is met without the reported ones, and what is not says nothing about the paper: the
    verdict is then "not run", with what failed.
    """
    missing = set(reported) - set(found)
    if not missing or evidence.not_run:
        return evidence
    failed = [c.name for c in evidence.cases if not c.ok]
    if failed:
        command = needs(experiment).not_run
        return Evidence(not_run=f"{command}; the rows at hand ({named(found)}) are too small for: {'; '.join(failed)}")
    premise = Assumption(f"the reported {named(missing)}", False, f"rows of {named(found)}")
    return replace(evidence, assumptions=(*evidence.assumptions, premise))
