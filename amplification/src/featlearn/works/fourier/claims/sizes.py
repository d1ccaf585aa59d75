"""The sizes of reported figures as premises of what smaller runs show."""

from collections.abc import Mapping
from typing import Any

from featlearn.lab.claim import Premise
from featlearn.lab.inventory import entry
from featlearn.lab.table import Table


def sizes(table: Table[Any], reported: Mapping[str, int | float]) -> tuple[Premise, ...]:
    """For each column with a reported number, whether all rows have it: success and failure get the same scope."""
    found = {name: sorted({getattr(r, name) for r in table.rows}) for name in reported}
    return tuple(
        Premise(f"{name} = {number:g}", found[name] == [number], ", ".join(f"{v:g}" for v in found[name]), size=True)
        for name, number in reported.items()
    )


def pairs(table: Table[Any], *figures: str) -> Premise:
    """Whether the rows have the (k, p) of these figures, and no others."""
    wanted = {(e.setting["k"], e.setting["p"]) for e in map(entry, figures)}
    found = {(r.k, r.p) for r in table.rows}
    words = ["; ".join(f"k = {k}, p = {p}" for k, p in sorted(s)) for s in (wanted, found)]
    return Premise(words[0], wanted == found, words[1], size=True)


def unstated_steps(table: Table[Any]) -> Premise:
    """That a figure's steps are not given, and those of the rows."""
    steps = ", ".join(map(str, sorted({r.steps for r in table.rows})))
    return Premise("as many steps as reported", None, f"not reported; {steps} here")
