"""Lottery tickets, from the rows of the experiment: Proposition B.1."""

import math
from collections.abc import Callable, Mapping, Sequence

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation
from featlearn.works.gradient_features.rows_lottery import CUT, FULL, PARITY, RANDOM, TICKET, XOR, ZERO, Total

WITHIN, MISSING = "error of the ticket less that of the full network", "the same without the neurons of one feature"
CHANCE = "error of as many random neurons less that of the full network"


def says(settings: None) -> Sequence[Statement]:
    """The size of U, the guarantee of the ticket, and that its start does not matter."""
    return (
        at_most(
            "|U|/4m",
            PERCENT,
            20.0,
            "work.toml, prop_b1: check",
            axis="setting and seed",
            rival=100.0,
            form="criterion",
            rival_says="the full network",
        ),
        at_most(
            WITHIN,
            POINTS,
            1.0,
            "Proposition B.1: the guarantee of Theorem 3.12; within a point at equal steps",
            axis="setting and seed",
            rival=control(MISSING),
            rival_says="a feature left out",
            trivial=control(CHANCE),
            trivial_says="as many random neurons",
            form="criterion",
        ),
        equal(
            "error of the ticket from a second layer of 0, less that kept from step one",
            POINTS,
            0.0,
            "work.toml, prop_b1: its start is unstated",
            margin=1.0,
            axis="setting and seed",
            rival=control(MISSING),
            rival_says="as much as a missing feature",
            form="derived",
        ),
    )


def sees(task: str) -> Callable[..., Mapping[str, Observation]]:
    """Seed by seed, as all networks of a seed see the same samples: most errors are 0, so that a mean has no spread."""

    def observe(settings: None, totals: Table[Total]) -> Mapping[str, Observation]:
        part = totals.where(task=task)
        end = {row: part.where(row=row).column("end_error") for row in (FULL, TICKET, CUT, ZERO, RANDOM)}
        return {
            "|U|/4m": part.where(row=TICKET).column("share"),
            WITHIN: end[TICKET] - end[FULL],
            MISSING: end[CUT] - end[FULL],
            CHANCE: end[RANDOM] - end[FULL],
            "error of the ticket from a second layer of 0, less that kept from step one": end[ZERO] - end[TICKET],
        }

    return observe


def premises(task: str) -> Callable[..., Sequence[Premise]]:
    """Those of Theorem 3.12, and for parities of Assumption 3.19."""

    def evaluate(settings: None, totals: Table[Total]) -> Sequence[Premise]:
        found = [Premise("m, T and n of Theorem 3.12", None, "their constants are not given")]
        if task == PARITY:
            rows = totals.where(task=task).rows
            k, least = max(r.level for r in rows), 8 * math.log(rows[0].d)
            found.append(Premise("k >= Omega(tau log d), tau >= 8", None, f"k to {k:g}, tau log d from {least:.0f}"))
        return found

    return evaluate


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        id=f"gradient_features.{name}",
        entries=("gradient_features.prop_b1",),
        says=f"{what}: the sub-network on the support of a~, at most a fifth of the neurons, learns as the whole "
        "network does after as many steps.",
        statements=says,
        observe=sees(task),
        premises=premises(task),
        reads=(Total,),
        remarks="The work says nothing of random sub-networks of that size: with most seeds they, too, end "
        "within the point of the full network, so that there it cannot be the choice of neurons that does it.",
    )
    for name, task, what in (("prop_b1", XOR, "XOR"), ("prop_b1_parity", PARITY, "Parities"))
)
