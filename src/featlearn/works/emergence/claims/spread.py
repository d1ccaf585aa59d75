"""How accuracies of the simulations vary over seeds: standard deviations with their intervals, from rows."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from featlearn.lab.claim import Claim
from featlearn.lab.quantity import Quantity
from featlearn.lab.statement import Outcome, Statement, at_least, at_most
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation, deviation_of
from featlearn.works.emergence.claims.simulated_tables import METHODS, RATES, TABLES, against
from featlearn.works.emergence.rows import Final

SPREAD, RATIO = Quantity("deviation", "%", 0.0), Quantity("deviation", "", 0.0)
NAMES = {n: f"deviation of the test accuracy over seeds, Table A.{n}" for n in TABLES}
EXPECTED: Mapping[int, Outcome] = {2: "contradicted", 4: "contradicted"}
"""Five seeds do not tell 0.5 from 0.7; deviations of several points are told."""


def says(numbers: Sequence[int], settings: None) -> Sequence[Statement]:
    """Below 0.5 points in every cell."""
    source = "Section A.7: the standard deviations of the results are smaller than 0.5 %"
    more = {"axis": "setting, method", "rival": 5.0, "rival_says": "ten times as much", "form": "criterion"}
    return [at_most(NAMES[n], SPREAD, 0.5, source, expect=EXPECTED.get(n, "inconclusive"), **more) for n in numbers]


def column(table: Table[Final], row: str, setting: str) -> np.ndarray:
    """Test accuracies with structure, by seed."""
    return table.where(structure=True, setting=setting, row=row).column("test_acc")


def sees(numbers: Sequence[int], settings: None, *tables: Table[Final]) -> Mapping[str, Observation]:
    """Cells with structure."""
    return {
        NAMES[n]: [deviation_of(column(t, r, s), "seed", symbol="%") for s in TABLES[n].settings for r in METHODS]
        for n, t in zip(numbers, tables, strict=True)
    }


AGAINST_RF, BEFORE = "NTK over RF", "NTK over NTK with balanced classes"


def says_unstable(settings: None) -> Sequence[Statement]:
    """NTK becomes less stable: than RF, and than it is with balanced classes."""
    source, more = "Section A.7.2: except that NTK becomes less stable; by half", against(1.0, "as stable", "setting")
    return [
        at_least(AGAINST_RF, RATIO, 1.5, f"{source}; the check compares with RF", expect="inconclusive", **more),
        at_least(BEFORE, RATIO, 1.5, source, expect="inconclusive", **more),
    ]


def sees_unstable(settings: None, table: Table[Final], balanced: Table[Final]) -> Mapping[str, Observation]:
    """Ratios of deviations over seeds."""
    ntk, rf = ([column(table, row, s) for s in TABLES[4].settings] for row in ("NTK", "RF"))
    one = column(balanced, "NTK", "")
    return {
        AGAINST_RF: [deviation_of(a, "seed", than=b) for a, b in zip(ntk, rf, strict=True)],
        BEFORE: [deviation_of(a, "seed", than=one) for a in ntk],
    }


OTHERS = (2, 3, 4, 5)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.seed_spread",
        entries=("emergence.claim_seeds",),
        says="Test accuracies of Table A.1 have standard deviations below 0.5 points over five seeds.",
        statements=partial(says, (1,)),
        observe=partial(sees, (1,)),
        premises=(RATES,),
        reads=(TABLES[1].rows.final,),
        remarks="The 10 000 test samples alone give 0.4 points at an accuracy of 80 %. The deviation of five seeds "
        "has an interval from 0.6 to 2.9 times its value.",
    ),
    Claim(
        id="emergence.seed_spread_others",
        entries=("emergence.claim_seeds",),
        says="The same of Tables A.2 to A.5.",
        statements=partial(says, OTHERS),
        observe=partial(sees, OTHERS),
        premises=(RATES,),
        reads=tuple(TABLES[n].rows.final for n in OTHERS),
        remarks="Of Table A.4 the text says itself that NTK becomes less stable.",
    ),
    Claim(
        id="emergence.unstable_ntk",
        entries=("emergence.figure11",),
        says="With unbalanced classes NTK is less stable over seeds.",
        statements=says_unstable,
        observe=sees_unstable,
        premises=(RATES,),
        reads=(TABLES[4].rows.final, TABLES[1].rows.final),
    ),
)
